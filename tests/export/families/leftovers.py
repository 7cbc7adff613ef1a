"""Functions that PNNX does not rename: they keep TorchScript's names, such as `aten::sort`, with positional inputs."""

import torch
import torch.nn.functional as F
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, FLOATS, INF, INTEGERS, NAN, REALS, randn, random_bools, random_integers, values_of


@exported
def sorted_elements() -> Export:
    class Net(nn.Module):
        def forward(self, x, i, bounds):
            values, places = torch.sort(x, 1)
            return (values, places, *x.sort(dim=0, descending=True), *torch.sort(i, stable=True, dim=-1), torch.argsort(x, dim=1),
                    i.argsort(0, descending=True), torch.argsort(i, stable=True, dim=1), x.gather(1, places), *torch.kthvalue(x, 2, 1),
                    *x.kthvalue(1, dim=0, keepdim=True), torch.searchsorted(bounds, x), torch.searchsorted(bounds, x, right=True),
                    torch.searchsorted(values, x), torch.bucketize(x, bounds), torch.bucketize(i, bounds, right=True, out_int32=True),
                    torch.isin(i, torch.tensor([1, 3])), torch.isin(i, i[0], invert=True))
    return Export(Net(), randn(3, 5), random_integers(3, 5, high=4), torch.tensor([-1.0, 0.0, 1.0, 2.0]))


@exported
def sorted_at_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, scores, boxes):
            order = scores.argsort(descending=True)
            values, places = scores.sort()
            ranked = boxes[order]
            return ranked, values, places, ranked[:, 2:] - ranked[:, :2], torch.cumsum(values, 0), scores[order[:2]]
    return Export(Net(), randn(4), randn(4, 4), others=[(randn(6), randn(6, 4)), (randn(2), randn(2, 4)), (randn(9), randn(9, 4))])


@exported
def diagonals_and_triangles() -> Export:
    class Net(nn.Module):
        def forward(self, x, square):
            filled, wrapped = square.clone(), x.transpose(0, 1).clone()
            filled.fill_diagonal_(2.5)
            wrapped.fill_diagonal_(-1.0, wrap=True)
            return (x.tril(), x.triu(1), torch.tril(x, -1), square[None].triu(-1), x.diagonal(), torch.diagonal(x, 1), torch.diagonal(x[None], -1, 1, 2),
                    x.diagonal(offset=2, dim1=-1, dim2=0), torch.diag_embed(x), torch.diag_embed(x, 1, 0, 2), x.diag_embed(-1), filled, wrapped,
                    torch.diagonal_scatter(square, x[:, 0], 0), square.tril().triu(), x.long().tril(1), (x > 0).triu())
    return Export(Net(), randn(3, 5), randn(3, 3))


@exported
def scattered() -> Export:
    class Net(nn.Module):
        def forward(self, x, i, src, k):
            zeros = torch.zeros_like(x)
            a = zeros.scatter_(1, i, 1.0)
            b = x.clone()
            b.scatter_(0, k[None].expand(1, 4) % 3, 9.0)
            return (a, b, x.scatter(1, i, src), torch.scatter(x, 0, i[:2, :3] % 2, 2.5), x.scatter_reduce(1, i, src, "sum"),
                    x.scatter_reduce(1, i, src, "amax", include_self=False), torch.scatter_reduce(x, 1, i, src, "amin"),
                    x.scatter_reduce(1, i, src, "mean"), x.scatter_reduce(1, i, src, reduce="prod", include_self=False),
                    x.index_copy(1, k, src[:, :4]), x.index_add(1, k, src[:, :4]), torch.index_add(x, 1, k, src[:, :4], alpha=-0.5), x.index_fill(1, k[:2], 3.0),
                    torch.select_scatter(x, src[:, 0], 1, -1), torch.take(x, i), torch.take_along_dim(x, i, 1), torch.take_along_dim(x, i.flatten()),
                    zeros.scatter_add(1, i, src))
    return Export(Net(), randn(3, 4), random_integers(3, 5, high=4), randn(3, 5), torch.tensor([2, 0, 3, 1]))


@exported
def places_that_are_not_zero() -> Export:
    class Net(nn.Module):
        def forward(self, x, i):
            mask = x > 0
            rows, columns = torch.where(mask)
            first, second = torch.nonzero(mask, as_tuple=True)
            return (rows, columns, mask.nonzero(), torch.nonzero(x), first, x[first, second], x[rows], torch.argwhere(mask), F.one_hot(i, 4), F.one_hot(i),
                    torch.count_nonzero(x), torch.count_nonzero(mask, 1), torch.count_nonzero(x, dim=(0, 1)), torch.bincount(i.flatten()),
                    torch.bincount(i[0], minlength=6), F.one_hot(i, 5).float() @ torch.ones(5, 2))
    return Export(Net(), torch.tensor([[0.0, 1.0, -2.0], [3.0, 0.0, 0.5]]), random_integers(2, 3, high=4))


@exported
def running_extremes() -> Export:
    class Net(nn.Module):
        def forward(self, x, i):
            return *torch.cummax(x, 1), *x.cummin(0), *torch.cummax(i, -1), torch.logcumsumexp(x, 1), x.logcumsumexp(dim=0)
    x = randn(3, 5)
    x[1, 2] = NAN
    return Export(Net(), x, random_integers(3, 4, high=3))


@exported
def grids_and_stacks() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, z):
            a, b = torch.meshgrid(x, y, indexing="ij")
            c, d = torch.meshgrid(x, y, indexing="xy")
            e, f = torch.broadcast_tensors(x[:, None], z)
            return (a, b, c, d, torch.stack((c, d), -1), e, f, torch.hstack((x, y)), torch.vstack([x, z]), torch.dstack((z, z)), torch.column_stack((z, z[:, 0])),
                    torch.hstack([z, z]), x.broadcast_to(2, 3), torch.hsplit(z, 3)[1], torch.vsplit(z, [1])[0], torch.dsplit(z[None], 3)[2])
    return Export(Net(), randn(3), randn(4), randn(3, 3))


@exported
def grids_of_any_size() -> Export:
    """Centres of a grid, as detectors make their anchors."""
    class Net(nn.Module):
        def forward(self, x):
            h, w = x.shape[-2:]
            ys, xs = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            points = torch.stack((xs, ys), dim=-1).reshape(-1, 2) * 8
            return points, torch.cat((points, points + 1), 1), x.flatten(2).transpose(1, 2) + points[:, :1]
    return Export(Net(), randn(1, 2, 2, 3), others=[(randn(1, 2, 3, 4),), (randn(2, 2, 1, 1),), (randn(1, 2, 5, 2),)])


@exported
def moved_axes() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            return (x.movedim(0, 2), torch.movedim(x, (0, 1), (-1, 0)), x.moveaxis(2, 0), x.mT, y.mH, y.T, x.permute(2, 1, 0), torch.rot90(y), y.rot90(2),
                    torch.rot90(x, -1, (1, 2)), torch.fliplr(y), torch.flipud(y), x.ravel(), y.view_as(x[0].t()), x.swapaxes(0, -1), x.swapdims(0, 1), y.adjoint(),
                    torch.atleast_2d(y), torch.broadcast_to(y, (2, 3, 4)))
    return Export(Net(), randn(2, 4, 3), randn(3, 4))


@direct
def aten_sort(model: Model) -> None:
    for dtype in REALS + [torch.bool]:
        x = values_of(dtype, 2, 5)
        for descending in (False, True):
            model.op("aten::sort", x, f=lambda x: torch.sort(x, dim=1, descending=descending, stable=True), keys=["input"], dim=1, descending=descending)
    special = torch.tensor([1.0, NAN, -INF, INF, NAN, -0.0, 0.0])
    model.op("aten::sort", special, f=lambda x: torch.sort(x, stable=True), keys=["input"], dim=-1, descending=False)
    model.op("aten::argsort", special, f=lambda x: torch.argsort(x, descending=True, stable=True), keys=["input"], dim=0, descending=True)
    for shape, dim in (((), 0), ((0,), 0), ((2, 0), 0), ((2, 3, 2), 1), ((1, 1, 2, 1, 1, 3, 1, 1), -3)):
        model.op("aten::sort", randn(*shape), f=lambda x: torch.sort(x, dim=dim, stable=True), keys=["input"], dim=dim, descending=False)
        model.op("aten::argsort", randn(*shape), f=lambda x: torch.argsort(x, dim=dim, stable=True), keys=["input"], dim=dim, descending=False)


@direct
def aten_tril(model: Model) -> None:
    for dtype in ALL:
        for name, f in (("aten::tril", torch.tril), ("aten::triu", torch.triu)):
            model.op(name, values_of(dtype, 2, 3), f=lambda x: f(x, 0), keys=["input"], diagonal=0)
    for diagonal in (-5, -1, 1, 2, 7):
        model.op("aten::tril", randn(2, 3, 4), f=lambda x: torch.tril(x, diagonal), keys=["input"], diagonal=diagonal)
        model.op("aten::triu", randn(4, 2), f=lambda x: torch.triu(x, diagonal), keys=["input"], diagonal=diagonal)
    model.op("aten::tril", randn(0, 3), f=torch.tril, keys=["input"], diagonal=0)
    for dtype in ALL:
        model.op("aten::diagonal", values_of(dtype, 2, 3), f=lambda x: torch.diagonal(x, 1), keys=["input"], offset=1, dim1=0, dim2=1)
        model.op("aten::diag_embed", values_of(dtype, 2), f=lambda x: torch.diag_embed(x, -1), keys=["input"], offset=-1, dim1=-2, dim2=-1)


@direct
def aten_scatter(model: Model) -> None:
    for dtype in ALL:
        x, i, src = values_of(dtype, 3), torch.tensor([2, 0]), values_of(dtype, 2)
        model.op("aten::scatter", x, named={"index": i, "src": src}, f=lambda x, index, src: x.scatter(0, index, src), dim=0)
        model.op("aten::scatter", x, named={"index": i}, f=lambda x, index: x.scatter(0, index, 1), dim=0, src=1)
    for dtype in FLOATS + INTEGERS:
        x, i, src = values_of(dtype, 4), torch.tensor([2, 0, 2, 2]), values_of(dtype, 4)
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            model.op("aten::scatter_reduce", x, named={"index": i, "src": src}, dim=0, reduce=reduce, include_self=reduce != "mean",
                     f=lambda x, index, src: x.scatter_reduce(0, index, src, reduce, include_self=reduce != "mean"))
    nan = torch.tensor([1.0, NAN, 2.0])
    model.op("aten::scatter_reduce", randn(2), named={"index": torch.tensor([0, 0, 1]), "src": nan}, dim=0, reduce="amax", include_self=True,
             f=lambda x, index, src: x.scatter_reduce(0, index, src, "amax"))
    model.op("aten::scatter", torch.tensor(1.0), named={"index": torch.tensor(0), "src": torch.tensor(3.0)}, dim=0,
             f=lambda x, index, src: x.scatter(0, index, src))
    model.op("aten::scatter", randn(2, 3), named={"index": torch.zeros(0, 3, dtype=torch.int64), "src": randn(2, 3)}, dim=0,
             f=lambda x, index, src: x.scatter(0, index, src))


@direct
def aten_one_hot(model: Model) -> None:
    for indices in (torch.tensor(2), torch.tensor([1, 3, 0]), random_integers(2, 2, high=4), torch.zeros(0, 2, dtype=torch.int64)):
        model.op("aten::one_hot", indices, f=lambda x: F.one_hot(x, 4), keys=["input"], num_classes=4)
    model.op("aten::one_hot", torch.tensor([1, 3, 0]), f=F.one_hot, keys=["input"], num_classes=-1)
    for dtype in ALL:
        x = values_of(dtype, 2, 3) * random_bools(2, 3)
        model.op("aten::nonzero", x, f=torch.nonzero, keys=["input"])
        model.op("aten::nonzero_numpy", x, f=lambda x: torch.nonzero(x, as_tuple=True), keys=["input"])
    for shape in ((), (0,), (2, 0), (1, 1, 2, 1, 1, 2, 1, 1)):
        model.op("aten::nonzero", randn(*shape), f=torch.nonzero, keys=["input"])


@exported
def contractions() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, v, w):
            return (torch.dot(v, w), torch.inner(v, w), torch.inner(x, y), torch.outer(v, w[:2]), torch.tensordot(x, y, dims=([1], [1])),
                    torch.tensordot(x, y, dims=2), torch.tensordot(x[None], y, dims=([-1], [-1])), torch.linalg.multi_dot([x, y.t(), x]),
                    torch.linalg.multi_dot([v[:2], x, w]), torch.addmv(v[:2], x, w), torch.addmv(v[:2], x, w, beta=0.5, alpha=-2),
                    torch.linalg.cross(x, y))
    return Export(Net(), randn(2, 3), randn(2, 3), randn(3), randn(3))
