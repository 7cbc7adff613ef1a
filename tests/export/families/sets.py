"""Different elements, frequent ones, lists of combinations; elements put at places, slices reduced at indices."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from families.unmatched import show
from values import ALL, COMPLEX, FLOATS, INF, INTEGERS, NAN, REALS, rand, randn, random_bools, random_integers, values_of


@exported
def unique_elements() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return (torch.unique(x), *torch.unique(x, return_inverse=True), *torch.unique(x, return_inverse=True, return_counts=True),
                    x.unique(sorted=False, return_counts=True)[1], *torch._unique(x, True, True))
    return Export(Net(), random_integers(3, 4), others=[(random_integers(2, 5, high=3),), (random_integers(1, 1),)])


@exported
def unique_slices() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            y = (x * 2).round()
            return torch.unique(x, dim=0), *torch.unique(y, dim=-1, return_inverse=True, return_counts=True), torch.unique(y.bool(), dim=0, return_counts=True)[1]
    return Export(Net(), rand(6, 2, high=2.0).round(), others=[(rand(9, 3, high=1.0).round(),), (randn(1, 4),)])


@exported
def clusters_of_points() -> Export:
    """Points relative to the centres of their voxels: other operators use results whose sizes depend on values."""
    class Net(nn.Module):
        def forward(self, points):
            voxels, which, counts = torch.unique(points.floor().long(), dim=0, return_inverse=True, return_counts=True)
            centres = voxels.float() + 0.5
            return (points - centres[which]) / counts[which][:, None], centres, counts.max() * 2
    return Export(Net(), rand(7, 2, high=2.0), others=[(rand(12, 2, high=2.0),), (rand(1, 2),)])


@exported
def runs_of_equal_elements() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return (torch.unique_consecutive(x), *torch.unique_consecutive(x, return_inverse=True), *torch.unique_consecutive(x, return_counts=True, dim=0),
                    *torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=1))
    return Export(Net(), random_integers(4, 3, high=2), others=[(random_integers(5, 2, high=2),), (torch.ones(3, 4, dtype=torch.int64),)])


@exported
def greedy_decoding() -> Export:
    """The labels of a recogniser without repetitions and blanks, as for connectionist temporal classification."""
    class Net(nn.Module):
        def forward(self, scores):
            best = torch.unique_consecutive(scores.argmax(-1))
            return best[best != 0]
    return Export(Net(), randn(9, 3), others=[(randn(12, 3),), (randn(1, 3),)])


@exported
def features_in_place_of_markers() -> Export:
    """Features of a picture replace the embeddings of the markers in a text."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.project = nn.Embedding(8, 3), nn.Linear(2, 3)

        def forward(self, tokens, patches):
            text = self.words(tokens)
            mask = (tokens == 7).unsqueeze(-1)
            return text.masked_scatter(mask.expand_as(text), self.project(patches)), torch.masked_scatter(text, mask, text * 2)

    def tokens(count: int, *marked: int):
        text = random_integers(1, count, high=7)
        text[0, list(marked)] = 7
        return text

    return Export(Net(), tokens(5, 1, 2), randn(2, 2), others=[(tokens(7, 0, 3, 4), randn(4, 2)), (tokens(2), randn(1, 2))])


@exported
def modes_and_histograms() -> Export:
    class Net(nn.Module):
        def forward(self, x, i):
            return (*torch.mode(i), *i.mode(0, keepdim=True), (x * 2).round().mode(1)[0], torch.histc(x, 5), torch.histc(x, bins=4, min=-1, max=1.5),
                    torch.msort(x), i.msort(), torch.trace(x), i.trace(), torch.renorm(x, 2, 0, 1.5), x.renorm(1, -1, 2.0), torch.renorm(x, INF, 1, 0.5))
    return Export(Net(), randn(3, 5), random_integers(3, 6, high=3), others=[(randn(4, 2), random_integers(2, 9, high=3)), (randn(1, 1), random_integers(1, 1))])


@exported
def elements_put_at_places() -> Export:
    class Net(nn.Module):
        def forward(self, x, places, src, rows):
            changed = x.clone()
            changed.put_(places, src)
            return (x.put(places, src), torch.Tensor.put(x, places % 3, src, accumulate=True), changed, x.index_reduce(0, rows, x[rows], "prod"),
                    torch.index_reduce(x, 0, rows, x[rows], "mean", include_self=False), x.index_reduce(0, rows, x[rows] + 1, "amax"),
                    x.clone().index_reduce_(0, rows, -x[rows], "amin"))

    def inputs(height: int, width: int, count: int):
        return randn(height, width), torch.randperm(height * width)[:count] - height, randn(count), random_integers(count, high=height)

    return Export(Net(), *inputs(3, 4, 5), others=[inputs(4, 2, 6), inputs(6, 6, 3)])


@exported
def scattered_products() -> Export:
    class Net(nn.Module):
        def forward(self, x, i, src):
            changed = x.clone()
            changed.scatter_(1, i, 0.5, reduce="multiply")
            return changed, x.scatter(-1, x.argmin(-1, keepdim=True), -2.0, reduce="multiply"), torch.scatter(x, 1, i, src, reduce="multiply")
    return Export(Net(), randn(3, 4), random_integers(3, 5, high=4), randn(3, 5),
                  others=[(randn(2, 6), random_integers(2, 3, high=6), randn(2, 3)), (randn(5, 5), random_integers(5, 1, high=5), randn(5, 2))])


@exported
def scattered_sums() -> Export:
    """At optimisation level 2, PNNX fails on this model."""
    class Net(nn.Module):
        def forward(self, x, i, src):
            return x.scatter(1, i, src, reduce="add"), x.scatter(0, i % 3, 2, reduce="add")
    return Export(Net(), randn(3, 4), random_integers(3, 4, high=4), randn(3, 4), optlevel=1)


@exported
def blocks_and_combinations() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            n = x.shape[0]
            return (torch.block_diag(x, y, x[0]), torch.block_diag(y), torch.block_diag(y > 0, x.long()), torch.cartesian_prod(y, x[:, 0]), torch.cartesian_prod(y),
                    torch.cartesian_prod(torch.arange(n), torch.arange(2), torch.arange(n)), torch.combinations(y), torch.combinations(y, r=3, with_replacement=True),
                    torch.combinations(torch.arange(n), 1))
    return Export(Net(), randn(3, 2), randn(3), others=[(randn(2, 3), randn(4)), (randn(1, 1), randn(1))])


@exported
def sums_of_weights_and_unsorted_sequences() -> Export:
    class Net(nn.Module):
        def forward(self, i, weights, x):
            order = torch.argsort(x, dim=1)
            return (torch.bincount(i, weights), i.bincount(weights.double(), minlength=9), torch.searchsorted(x, x - 0.1, sorter=order),
                    torch.searchsorted(x[0], weights, side="right", sorter=order[0]))
    return Export(Net(), random_integers(5, high=6), randn(5), randn(2, 4), others=[(random_integers(3, high=4), randn(3), randn(2, 3))])


@direct
def aten_unique(model: Model) -> None:
    both, counts = {"sorted": True, "return_inverse": True, "return_counts": True}, {"return_inverse": False, "return_counts": True}
    special = torch.tensor([[NAN, 1.0, -0.0, INF], [0.0, NAN, 1.0, -INF]])
    inputs = [special.to(dtype) for dtype in FLOATS] + [values_of(dtype, 5) for dtype in (torch.int32, torch.uint8, torch.bool)]
    for x in [*inputs, torch.tensor(3), torch.zeros(0, 2)]:
        model.op("aten::_unique2", x, f=lambda x: torch._unique2(x, True, True, True), keys=["input"], **both)
    for x in (special.half(), torch.tensor([True, True, False])):
        model.op("aten::unique_consecutive", x, f=lambda x: torch._C._VariableFunctions.unique_consecutive(x, False, True, None), keys=["input"], **counts)
    model.op("aten::unique_dim", torch.zeros(0, 3), f=lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), keys=["input"], dim=0, **both)


@direct
def aten_mode(model: Model) -> None:
    results = []
    for dtype in REALS + [torch.bool]:
        results += model.op("aten::mode", values_of(dtype, 2, 7), f=lambda x: torch.mode(x, 1), keys=["input"], dim=1, keepdim=False, shown=False)
    for x, dim in ((torch.tensor(3), 0), (torch.zeros(0, 2), 1), (torch.tensor([0.0, -0.0, 1.0, INF, INF, -INF]), -1), (random_integers(2, 3, 2, high=2), 1)):
        results += model.op("aten::mode", x, f=lambda x: torch.mode(x, dim, True), keys=["input"], dim=dim, keepdim=True, shown=False)
    show(model, results)


@direct(tolerance=1e-2)
def aten_put(model: Model) -> None:
    results, index, mask = [], torch.tensor([[1, -1], [4, 1]]), torch.tensor([True, False, True])
    for dtype in ALL:
        x, source = values_of(dtype, 2, 3), values_of(dtype, 4)
        for accumulate in (False, True):
            results += model.op("aten::put", x, named={"index": index, "source": source}, accumulate=accumulate, shown=False,
                                f=lambda x, index, source: torch.Tensor.put(x, index, source.reshape(index.shape), accumulate=accumulate))
        results += model.op("aten::masked_scatter", x, named={"mask": mask, "source": source}, shown=False, f=torch.masked_scatter)
    for x, mask in ((torch.tensor(1.0), torch.tensor([True, False])), (randn(2, 0), torch.zeros(2, 1, dtype=torch.bool)), (randn(1, 2, 1), random_bools(3, 1, 2))):
        results += model.op("aten::masked_scatter", x, named={"mask": mask, "source": randn(12)}, shown=False, f=torch.masked_scatter)
    show(model, results)


@direct(tolerance=1e-2)
def aten_index_reduce(model: Model) -> None:
    results, index = [], torch.tensor([2, 0, 2])
    for dtype in REALS:
        x, source = values_of(dtype, 2, 3), values_of(dtype, 2, 3)
        for reduce in ("prod", "mean", "amax", "amin"):
            results += model.op("aten::index_reduce", x, named={"index": index, "source": source}, dim=1, reduce=reduce, include_self=reduce != "mean", shown=False,
                                f=lambda x, index, source: x.index_reduce(1, index, source, reduce, include_self=reduce != "mean"))
    show(model, results)


@direct(tolerance=1e-2)
def aten_scatter_with_reduction(model: Model) -> None:
    results, index = [], torch.tensor([2, 0, 2, 2])
    for dtype in ALL:
        x, src = values_of(dtype, 3), values_of(dtype, 4)
        for reduce in ("add", "multiply"):
            results += model.op("aten::scatter", x, named={"index": index, "src": src}, dim=0, reduce=reduce, shown=False,
                                f=lambda x, index, src: x.scatter(0, index, src, reduce=reduce))
            results += model.op("aten::scatter", x, named={"index": index}, dim=0, src=2, reduce=reduce, shown=False,
                                f=lambda x, index: x.scatter(0, index, 2, reduce=reduce))
    show(model, results)


@direct(tolerance=1e-2)
def aten_renorm(model: Model) -> None:
    results = []
    for dtype in FLOATS + COMPLEX:
        x = values_of(dtype, 3, 2)
        for p, dim in ((2.0, 0), (0.5, -1)):
            results += model.op("aten::renorm", x, f=lambda x: torch.renorm(x, p, dim, 1), keys=["input"], p=p, dim=dim, maxnorm=1, shown=False)
        results += model.op("aten::trace", x, f=torch.trace, keys=["input"], shown=False)
    for dtype in INTEGERS:
        results += model.op("aten::trace", values_of(dtype, 3, 2) * 15, f=torch.trace, keys=["input"], shown=False)
    for x in (randn(0, 3), randn(2, 0)):
        results += model.op("aten::trace", x, f=torch.trace, keys=["input"], shown=False)
        results += model.op("aten::renorm", x, f=lambda x: torch.renorm(x, 2, 0, 1), keys=["input"], p=2, dim=0, maxnorm=1, shown=False)
    special = torch.tensor([[NAN, 4.0], [0.1, 0.2], [INF, 0.0], [3.0, 4.0]])
    results += model.op("aten::renorm", special, f=lambda x: torch.renorm(x, INF, 0, 1), keys=["input"], p=INF, dim=0, maxnorm=1, shown=False)
    show(model, results)


@direct
def aten_histc(model: Model) -> None:
    results = []
    for dtype in FLOATS:
        x = randn(4, 5, dtype=dtype)
        for low, high in ((0, 0), (-1, 2), (0.1, 0.8)):
            results += model.op("aten::histc", x, f=lambda x: torch.histc(x, 7, low, high), keys=["input"], bins=7, min=low, max=high, shown=False)
    for x in (torch.tensor([2.0, 2.0]), torch.tensor(0.5), torch.zeros(0)):
        results += model.op("aten::histc", x, f=lambda x: torch.histc(x, 4), keys=["input"], bins=4, shown=False)
    special = torch.tensor([NAN, INF, -INF, 0.0, 1.0, 0.25])
    results += model.op("aten::histc", special, f=lambda x: torch.histc(x, 4, 0, 1), keys=["input"], bins=4, min=0, max=1, shown=False)
    show(model, results)


@exported
def histograms() -> Export:
    class Net(nn.Module):
        def forward(self, x, weight, edges):
            histogram = torch.histogram
            return (*histogram(x, 5), *histogram(x, 4, range=(-1.0, 1.5), density=True), *histogram(x, 3, weight=weight), *histogram(x, 4, range=(0.0, 2.0), weight=weight, density=True),
                    *histogram(x, edges), *histogram(x, edges, weight=weight, density=True), histogram(x * weight, 2)[0])
    edges = torch.tensor([-1.0, -0.25, 0.5, 0.5, 2.0])
    return Export(Net(), randn(3, 4), rand(3, 4), edges, others=[(randn(2, 5), rand(2, 5), edges), (randn(1, 3), rand(1, 3), edges)])


@exported
def histograms_of_points() -> Export:
    class Net(nn.Module):
        def forward(self, x, weight):
            first, second = torch.histogramdd(x, [2, 3]), torch.histogramdd(x, 3, range=[-1.0, 1.0, -0.5, 2.0], density=True)
            one = torch.histogramdd(x[:, :1], [4])
            return (first.hist, *first.bin_edges, second.hist, *second.bin_edges, one.hist, *one.bin_edges,
                    torch.histogramdd(x, [2, 4], weight=weight, density=True).hist)
    return Export(Net(), randn(6, 2), rand(6), others=[(randn(9, 2), rand(9))])


@direct
def aten_histogram(model: Model) -> None:
    results = []
    for dtype in FLOATS[:2]:
        x, edges = randn(3, 4, dtype=dtype), torch.tensor([-1, 0, 0.5, 2], dtype=dtype)
        results += model.op("aten::histogram", x, f=torch.histogram, keys=["input"], shown=False)
        results += model.op("aten::histogram", x, edges, f=torch.histogram, keys=["input", "bins"], shown=False)
    for x in (torch.full((3,), 2.0), torch.tensor(0.5), torch.zeros(0), torch.tensor([0.0, 1.0, 1.0, 0.25])):
        results += model.op("aten::histogram", x, f=lambda x: torch.histogram(x, 4), keys=["input"], bins=4, shown=False)
    special = torch.tensor([NAN, INF, -INF, 0.0, 1.0, 0.25])
    results += model.op("aten::histogram", special, f=lambda x: torch.histogram(x, 4, range=(0.0, 1.0)), keys=["input"], bins=4, range=(0.0, 1.0), shown=False)
    show(model, results)


REDUCTIONS = ("sum", "mean", "max", "min", "prod")


@exported
def segments() -> Export:
    """PNNX does not survive `max`, `min` and `prod`."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("lengths", torch.tensor([2, 0, 3]))
            self.register_buffer("offsets", torch.tensor([0, 1, 1, 5]))

        def forward(self, x):
            reduce = torch.segment_reduce
            return torch.stack((reduce(x, "sum", lengths=self.lengths), reduce(x, "mean", lengths=self.lengths), reduce(x, "mean", offsets=self.offsets, initial=0.5),
                                reduce(x, "sum", lengths=self.lengths, initial=-1)))
    return Export(Net(), randn(5, 2), others=[(randn(5, 3),)])


@direct(tolerance=1e-2)
def aten_segment_reduce(model: Model) -> None:
    results = []
    for dtype in FLOATS:
        x, lengths = randn(2, 3, 2, dtype=dtype), torch.tensor([[1, 2], [0, 3]])
        for reduce in REDUCTIONS:
            call = dict(f=lambda x, marks: torch.segment_reduce(x, reduce, lengths=marks, axis=1), keys=["input", "lengths"], axis=1)
            results += model.op("aten::segment_reduce", x, lengths, reduce=reduce, shown=False, **call)
    special = torch.tensor([1.0, NAN, 3.0, NAN, -INF])
    for reduce in REDUCTIONS:
        results += model.op("aten::segment_reduce", special, torch.tensor([2, 1, 1], dtype=torch.int32), f=lambda x, marks: torch.segment_reduce(x, reduce, lengths=marks, unsafe=True),
                            keys=["input", "lengths"], reduce=reduce, unsafe=True, shown=False)
        results += model.op("aten::segment_reduce", special, torch.tensor([1, 1, 4]), f=lambda x, marks: torch.segment_reduce(x, reduce, offsets=marks, initial=2.0),
                            keys=["input", "offsets"], reduce=reduce, initial=2.0, shown=False)
    show(model, results)
