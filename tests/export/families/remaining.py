"""Functions that PNNX keeps under TorchScript's names, beyond those of other families: neighbouring numbers and their parts, parts
of tensors, sums to a shape, normalisations with their statistics, tensors without axes."""

import torch
import torch.nn.functional as F
from torch import nn

from case import Export, Model, direct, exported
from values import FLOATS, INF, INTEGERS, NAN, randn, random_integers, special, values_of


@exported
def neighbouring_numbers() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            mantissas, exponents = torch.frexp(x)
            return (torch.nextafter(x, y), torch.nextafter(x, y[:, :1]), torch.nextafter(y, torch.zeros(())), mantissas, exponents,
                    mantissas * 2.0 ** exponents, *torch.frexp(y[0, 0]), torch.nextafter(x.double(), y))
    return Export(Net(), torch.cat((randn(2, 3), torch.tensor([[0.0, -0.0, INF]])), 0), randn(3, 3), others=[(special()[:12].reshape(2, 6), randn(2, 6))])


@direct
def aten_nextafter(model: Model) -> None:
    for dtype in FLOATS:
        x = special(dtype)
        model.op("aten::nextafter", x, x.flip(0), f=torch.nextafter, keys=["input", "other"])
    model.op("aten::nextafter", randn(2, 0), randn(1, 1), f=torch.nextafter)
    model.op("aten::nextafter", torch.tensor(1.0), torch.tensor([2, -2]), f=torch.nextafter)


@direct
def aten_frexp(model: Model) -> None:
    for dtype in FLOATS:
        model.op("aten::frexp", special(dtype), f=torch.frexp)
    model.op("aten::frexp", torch.tensor([1e-40, -3e-45, 5e-324], dtype=torch.float64), f=torch.frexp)
    model.op("aten::frexp", torch.tensor(6.0), f=torch.frexp)


@exported
def split_at_tensors() -> Export:
    class Net(nn.Module):
        def forward(self, x, cuts):
            a, b, c = torch.tensor_split(x, cuts, 1)
            d, e = torch.tensor_split(x, torch.tensor(2))
            f, g, h = x.tensor_split(torch.tensor([1, -1]), dim=-1)
            i, j = torch.tensor_split(x, [x.shape[1] // 2], dim=1)
            return a, b, c, d, e, f, g, h, i, j
    x, cuts = randn(3, 4), torch.tensor([1, 2])
    return Export(Net(), x, cuts, others=[(randn(3, 6), torch.tensor([4, 2])), (randn(3, 9), torch.tensor([-3, 20])), (randn(3, 1), torch.tensor([0, 0]))])


@exported
def split_at_tensors_of_level_0() -> Export:
    class Net(nn.Module):
        def forward(self, x, cuts):
            return *torch.tensor_split(x, 3), *torch.tensor_split(x, (1, 3), 1), *torch.tensor_split(x, cuts, -1)
    return Export(Net(), randn(4, 5), torch.tensor([2]), optlevel=0)


@direct
def aten_tensor_split(model: Model) -> None:
    for cuts in (torch.tensor(3), torch.tensor([1, -1, 9]), torch.tensor([5, 2])):
        for x, dim in ((torch.arange(7), 0), (randn(2, 7, dtype=torch.float16), -1)):
            model.op("aten::tensor_split", x, named={"tensor_indices_or_sections": cuts}, dim=dim,
                     f=lambda x, tensor_indices_or_sections: torch.tensor_split(x, tensor_indices_or_sections, dim))


@exported
def diagonals_of_stacks() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return (torch.linalg.diagonal(x), torch.linalg.diagonal(x, offset=1), torch.linalg.diagonal(x, offset=-1, dim1=0, dim2=2),
                    torch.diagflat(x[0, :2]), x[0, :, 0].diagflat(1), torch.diagflat(x[0, 0, 0], -1), torch.diagflat(x[0, :, 0] > 0))
    return Export(Net(), randn(2, 3, 4), others=[(randn(3, 3, 4),)])


@exported
def parts_that_are_replaced() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, i):
            return (torch.as_strided_scatter(x, y, (2, 2), (1, 4), 1), torch.as_strided_scatter(x, i, (2, 2), (4, 2)), torch.as_strided_scatter(x, y[0, 0], (), (), 7),
                    torch.narrow_copy(x, 1, 1, 2), x.narrow_copy(0, -2, 1), F.native_channel_shuffle(x[None], 3), torch.as_strided_scatter(x.long(), y, (2, 2), (1, 2)),
                    torch.as_strided_scatter(x, x[:2, 1:], (2, 3), (3, 2)))
    return Export(Net(), randn(3, 4), randn(2, 2), random_integers(2, 2))


@exported
def sums_to_a_shape() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, i):
            return (x.sum_to_size(1, 3, 1), x.sum_to_size(3, 4), x.sum_to_size(4), x.sum_to_size(()), x.sum_to_size(y.shape), x.sum_to_size(2, 1, x.shape[2]),
                    i.sum_to_size(1, 3), (i > 2).sum_to_size(1), i.sum_to_size(i.shape))
    return Export(Net(), randn(2, 3, 4), randn(3, 1), random_integers(2, 3, dtype=torch.int32),
                  others=[(randn(2, 3, 4), randn(1, 1), random_integers(2, 3, dtype=torch.int32))])


@direct
def aten_sum_to_size(model: Model) -> None:
    for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.complex64):
        model.op("aten::sum_to_size", values_of(dtype, 2, 3), f=lambda x: x.sum_to_size(1, 3), size=(1, 3))
    model.op("aten::sum_to_size", randn(0, 3), f=lambda x: x.sum_to_size(1, 3), size=(1, 3))


@exported
def norms_of_slices() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            norms = [torch.norm_except_dim(x, p, dim) for p, dim in ((2, 0), (2, 1), (1, 2), (3, -2), (0, 1), (2, -1))]
            return *norms, torch.norm_except_dim(x[0, 0]), torch.norm_except_dim(torch.complex(x, x), 2, 1), torch.norm_except_dim(x.double())
    return Export(Net(), randn(2, 3, 4), others=[(randn(3, 3, 4),)])


@exported
def nonzero_in_a_number_of_rows() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return (torch.nonzero_static(x, size=3), torch.nonzero_static(x > 0, size=5, fill_value=7), torch.nonzero_static(x[0], size=1),
                    torch.nonzero_static(x[0, 0], size=2))
    return Export(Net(), torch.tensor([[0.0, 1.0, NAN], [3.0, 0.0, -0.5]]), others=[(torch.zeros(4, 2),)])


@exported
def normalised_with_statistics() -> Export:
    class Net(nn.Module):
        def forward(self, x, weight, bias):
            layer = torch.native_layer_norm(x, (3,), None, None, 1e-5)
            scaled = torch.native_layer_norm(x, (4, 3), x[0], None, 0.1)
            groups = torch.native_group_norm(x, None, None, x.shape[0], 4, 3, 2, 1e-5)
            channels = torch.native_group_norm(x, weight, bias, x.shape[0], 4, 3, 4, 1e-3)
            batch = torch.native_batch_norm(x, weight, None, None, None, True, 0.1, 1e-5)
            running = torch.native_batch_norm(x, None, bias, weight, weight * weight, False, 0.1, 1e-5)
            return *layer, *scaled, *groups, *channels, *batch, running[0]
    return Export(Net(), randn(2, 4, 3), randn(4), randn(4), others=[(randn(5, 4, 3), randn(4), randn(4))])


@direct(tolerance=1e-2)
def aten_native_norms(model: Model) -> None:
    sizes, none = dict(N=2, C=4, HxW=3, eps=1e-5), dict(weight=None, bias=None)
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        x, w = randn(2, 4, 3, dtype=dtype), randn(4, dtype=dtype)
        model.op("aten::native_layer_norm", x, f=lambda x: torch.native_layer_norm(x, (4, 3), None, None, 1e-5), normalized_shape=(4, 3), eps=1e-5, **none)
        for weight in (w, w if dtype == torch.float64 else w.float()):
            model.op("aten::native_group_norm", x, named={"weight": weight, "bias": weight}, group=2, **sizes,
                     f=lambda x, weight, bias: torch.native_group_norm(x, weight, bias, 2, 4, 3, 2, 1e-5))
    x = randn(2, 4, 3)
    model.op("aten::native_group_norm", x, f=lambda x: torch.native_group_norm(x, None, None, 1, 8, 3, 4, 1e-5), N=1, C=8, HxW=3, group=4, eps=1e-5,
             **none)
    model.op("aten::native_layer_norm", x[:0], f=lambda x: torch.native_layer_norm(x, (3,), None, None, 1e-5), normalized_shape=(3,), eps=1e-5, **none)


@exported
def tensors_of_at_least_some_axes() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, i):
            number = x.sum()
            return (*torch.atleast_1d((number, x[0], x)), *torch.atleast_2d(number, i[0], y), *torch.atleast_3d([x[0], i, number, y]),
                    torch.atleast_1d(number), torch.atleast_2d(i[0]), *torch.atleast_3d((x,)))
    return Export(Net(), randn(2, 3), randn(1, 2, 2), random_integers(2, 2), others=[(randn(2, 5), randn(1, 2, 2), random_integers(2, 2))])


@exported
def numbers_as_vectors() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            a, b, first, i = x.sum(), y.sum(), torch.tensor(0), torch.tensor([0, 0])
            return (torch.index_fill(a, 0, i, 2.0), torch.index_fill(a, -1, first, b), torch.index_add(a, 0, first, b), torch.index_add(a, 0, i[:1], b, alpha=3),
                    torch.index_add(x, 0, first, y[:1]), F.cosine_similarity(a, b, 0), F.cosine_similarity(a, -b, dim=-1), F.pairwise_distance(a, b),
                    torch.linalg.vander(a, N=4), torch.diagflat(a, 1))
    return Export(Net(), randn(3), randn(3), others=[(randn(4), randn(4))])


@exported
def empty_lists_of_axes() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return torch.squeeze(x, ()), torch.flip(x, ()), torch.tile(x, ()), torch.squeeze(x, ()) * x
    return Export(Net(), randn(1, 4), others=[(randn(1, 6),)])


@exported
def copies_and_masks() -> Export:
    class Net(nn.Module):
        def forward(self, x, z):
            return *torch.native_dropout(x, 0.5, False), x.chalf().to(torch.complex64), z.chalf().to(torch.complex64)
    return Export(Net(), randn(2, 3), randn(2, dtype=torch.complex64), others=[(randn(4, 3), randn(2, dtype=torch.complex64))])


@direct
def aten_lu_with_info(model: Model) -> None:
    for dtype in (torch.float32, torch.float64):
        model.op("aten::_lu_with_info", randn(2, 3, 3, dtype=dtype), f=torch._lu_with_info, pivot=True, check_errors=True)


@exported
def random_integers_of_inputs() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return x.clone().random_(), x.clone().random_(7), x.clone().random_(-3, 4), x.long().random_(-3, None), torch.binomial(torch.full_like(x, 9.0), torch.sigmoid(x))
    return Export(Net(), randn(2, 3), others=[(randn(5, 3),)], values=False)
