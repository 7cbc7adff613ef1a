"""Products that are added to an input, bilinear maps, distances within a matrix, and lookups whose rows are combined."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct, exported
from values import COMPLEX, FLOATS, INF, INTEGERS, NAN, randn, random_integers, values_of


def exact(dtype: torch.dtype, *shape: int) -> Tensor:
    """Values whose products and sums need no rounding, however few bits the type has."""
    return random_integers(*shape, low=-3, high=4).to(dtype) if dtype in FLOATS[2:] else values_of(dtype, *shape)


@exported
def added_products() -> Export:
    class Net(nn.Module):
        def forward(self, x, a, b, first, second):
            return (torch.addr(x, a, b, beta=0.5, alpha=2), x.addr(a, b), torch.addr(b, a, b, beta=0), torch.addbmm(x, first, second),
                    torch.addbmm(x, first, second, beta=0.5, alpha=2), torch.addmv(a, x, b, beta=2, alpha=0.5), torch.baddbmm(x, first, second, beta=0.5),
                    torch.addmm(x, first[0], second[0], alpha=0.5), torch.linalg.multi_dot((a, x, b)), torch.chain_matmul(x, second[0].T, first[0].T))
    def sample(n: int, m: int, batch: int) -> tuple:
        return randn(n, m), randn(n), randn(m), randn(batch, n, 3), randn(batch, 3, m)
    return Export(Net(), *sample(2, 4, 2), others=[sample(3, 1, 3), sample(5, 4, 1)])


@exported
def bilinear_maps() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.both, self.plain = nn.Bilinear(3, 2, 4), nn.Bilinear(2, 3, 1, bias=False)

        def forward(self, x, y, weight):
            return self.both(x, y), self.plain(y[0], x[0]), F.bilinear(x[0, 0], y[0, 0], weight), torch.bilinear(x, y, weight, weight[:, 0, 0])
    return Export(Net(), randn(2, 2, 3), randn(2, 2, 2), randn(2, 3, 2), others=[
        (randn(1, 3, 3), randn(1, 3, 2), randn(2, 3, 2)), (randn(3, 1, 3), randn(3, 1, 2), randn(2, 3, 2))])


@exported
def distances_within_a_matrix() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return torch.stack((torch.pdist(x), F.pdist(x, p=1.0), torch.pdist(x, 0.0), torch.pdist(x, INF), F.pdist(x, 1.5)))
    return Export(Net(), randn(4, 3), others=[(randn(5, 3),), (randn(1, 3),), (randn(2, 3),)])


@exported
def bags_of_rows() -> Export:
    """The rows of a matrix of indices are bags of equally many."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.bags = nn.ModuleList([nn.EmbeddingBag(7, 3, mode=mode) for mode in ("sum", "mean", "max")])
            self.bags += [nn.EmbeddingBag(7, 3, mode=mode, padding_idx=2) for mode in ("sum", "mean", "max")]

        def forward(self, i, weight):
            return (torch.stack([bag(i) for bag in self.bags]), self.bags[0](i, per_sample_weights=weight),
                    self.bags[3](i, per_sample_weights=weight), F.embedding_bag(i % 3, weight))
    return Export(Net(), random_integers(3, 4, high=7), randn(3, 4), others=[
        (random_integers(5, 2, high=7), randn(5, 2)), (random_integers(4, 6, high=7), randn(4, 6))])


@exported
def bags_at_offsets() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.bags = nn.ModuleList([nn.EmbeddingBag(7, 3, mode=mode, padding_idx=idx) for mode in ("sum", "mean", "max") for idx in (None, 1)])
            self.csr = nn.EmbeddingBag(7, 3, mode="mean", include_last_offset=True)
            self.register_buffer("offsets", torch.tensor([0, 3, 3, 5]))
            self.register_buffer("ends", torch.tensor([0, 2, 2, 9]))

        def forward(self, i, weight):
            return (torch.stack([bag(i, self.offsets) for bag in self.bags]), self.bags[0](i, self.offsets, weight), self.bags[1](i, self.offsets, weight),
                    self.csr(i, self.ends))
    return Export(Net(), random_integers(9, high=7), randn(9))


@direct
def aten_addr(model: Model) -> None:
    for dtype in FLOATS + INTEGERS[::2] + COMPLEX[:1]:
        x, a, b = exact(dtype, 2, 3), exact(dtype, 2), exact(dtype, 3)
        model.op("aten::addr", x, a, b, f=lambda x, a, b: torch.addr(x, a, b, beta=2, alpha=3), keys=["input", "vec1", "vec2"], beta=2, alpha=3)
    for x, a, b in ((torch.tensor(2.0), randn(2), randn(3)), (randn(3), randn(2), randn(3)), (randn(2, 1), randn(2), randn(0)),
                    (randn(2, 2), randn(2, dtype=torch.float64), random_integers(2)), (random_integers(2, 2), randn(2), random_integers(2))):
        model.op("aten::addr", x, a, b, f=torch.addr, keys=["input", "vec1", "vec2"])
    unknown = torch.full((2, 2), NAN)
    model.op("aten::addr", unknown, randn(2), randn(2), f=lambda x, a, b: torch.addr(x, a, b, beta=0), keys=["input", "vec1", "vec2"], beta=0)


@direct(tolerance=1e-2, double=1e-6)
def aten_addbmm(model: Model) -> None:
    keys = ["input", "batch1", "batch2"]
    for dtype in FLOATS + INTEGERS[::2]:
        inputs = exact(dtype, 2, 2), exact(dtype, 2, 2, 3), exact(dtype, 2, 3, 2)
        model.op("aten::addbmm", *inputs, f=lambda x, a, b: torch.addbmm(x, a, b, beta=2, alpha=3), keys=keys, beta=2, alpha=3)
    for shapes in (((), (2, 2, 3), (2, 3, 1)), ((1,), (1, 2, 3), (1, 3, 4)), ((2, 2), (0, 2, 3), (0, 3, 2)), ((2, 1), (2, 2, 0), (2, 0, 3))):
        model.op("aten::addbmm", *(randn(*shape) for shape in shapes), f=torch.addbmm, keys=keys)
    unknown = torch.full((2, 2), NAN)
    model.op("aten::addbmm", unknown, randn(2, 2, 3), randn(2, 3, 2), f=lambda x, a, b: torch.addbmm(x, a, b, beta=0), keys=keys, beta=0)


@direct(tolerance=1e-2, double=1e-6)
def aten_bilinear(model: Model) -> None:
    keys = ["input", "input2", "weight", "bias"]
    for dtype in FLOATS + INTEGERS[:3:2] + COMPLEX[1:]:
        inputs = exact(dtype, 2, 3), exact(dtype, 2, 2), exact(dtype, 2, 3, 2), exact(dtype, 2)
        model.op("aten::bilinear", *inputs, f=torch.bilinear, keys=keys)
    for x, y, weight in ((randn(3), randn(2), randn(4, 3, 2)), (randn(0, 3), randn(0, 2), randn(4, 3, 2)), (randn(2, 1, 2, 1), randn(2, 1, 2, 1), randn(1, 1, 1))):
        model.op("aten::bilinear", x, y, weight, f=lambda *args: torch.bilinear(*args, None), keys=keys[:3], bias=None)


@direct(tolerance=1e-2, double=1e-6)
def aten_embedding_bag(model: Model) -> None:
    def bag(table: Tensor, i: Tensor, offsets: Tensor, *weight: Tensor, mode: int = 0, padding: int | None = None) -> None:
        params = {"mode": mode} if padding is None else {"mode": mode, "padding_index": padding}
        model.op("aten::embedding_bag", table, i, offsets, *weight, keys=["input", "indices", "offsets", "per_sample_weights"][:3 + len(weight)],
                 f=lambda t, i, o, *w: torch.ops.aten.embedding_bag.padding_idx(t, i, o, False, mode, False, *(w or [None]), False, padding), **params)
    i, offsets = torch.tensor([1, 2, 4, 1, 3, 0, 4]), torch.tensor([0, 3, 3, 5])
    for dtype in FLOATS:
        table = exact(dtype, 5, 2)
        bag(table, i, offsets, exact(dtype, 7))
        for mode in range(3 if dtype == torch.float32 else 2):
            bag(table, i, offsets, mode=mode)
    table, none, few, starts = randn(5, 2), i[:0], i.int(), offsets.int()
    empty, nothing = torch.tensor([0, 0]), offsets[:0]
    for mode in range(3):
        bag(table, few, starts, mode=mode, padding=-4)
        bag(table, none, empty, mode=mode)
    bag(table, none, nothing)
    bag(torch.tensor([[1.0], [NAN], [3.0], [-INF]]), torch.tensor([0, 1, 2, 1, 0, 3]), torch.tensor([0, 3, 5]), mode=2)


@direct
def aten_pdist(model: Model) -> None:
    for dtype in FLOATS[:2]:
        x = randn(3, 2, dtype=dtype)
        for p in (0.0, 1.0, 2.0, 3.5, INF):
            model.op("aten::pdist", x, f=lambda x: torch.pdist(x, p), keys=["input"], p=p)
    for shape in ((0, 3), (1, 3), (3, 0)):
        model.op("aten::pdist", randn(*shape), f=torch.pdist, keys=["input"])
    model.op("aten::pdist", torch.tensor([[NAN, 1.0], [INF, 1.0], [0.0, 1.0]]), f=torch.pdist, keys=["input"])
