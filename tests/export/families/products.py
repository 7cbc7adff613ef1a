"""Products of matrices and tensors: matmul, mm, bmm, addmm, baddbmm, einsum, cross."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import COMPLEX, FLOATS, INTEGERS, NAN, randn, random_integers, values_of

SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2)),
          ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2)), ((2, 1, 3), (1, 3, 2)), ((1, 2, 3), (2, 3, 1)), ((2, 1, 2, 3), (2, 3, 2)),
          ((3,), (1, 2, 3, 2)), ((1, 2, 2, 3), (3,)), ((1, 2, 1, 2, 3), (2, 1, 1, 3, 1)), ((1, 1, 2, 1, 3), (3,)),
          ((3,), (1, 2, 1, 3, 1)), ((2, 3), (1, 1, 2, 3, 1))]
EMPTY = [((2, 0), (0, 3)), ((0, 2), (2, 3)), ((0,), (0,)), ((2, 0, 3), (3, 2)), ((0, 2, 3), (0, 3, 1)), ((2, 0), (0,)),
         ((0, 2, 2), (2,)), ((2, 2, 0), (2, 0, 2))]


@direct
def torch_matmul(model: Model) -> None:
    for first, second in SHAPES + EMPTY:
        model.op("torch.matmul", randn(*first), named={"other": randn(*second)})
    turned = model.op("torch.transpose", randn(2, 3, 2), dim0=0, dim1=2)[0]
    model.op("torch.matmul", turned, named={"other": randn(2, 2, 3)[:1].repeat(1, 1, 1).transpose(1, 2).contiguous()[:, :2]})
    model.op("Tensor.matmul", randn(2, 3), named={"other": randn(3)})


@direct
def torch_matmul_of_types(model: Model) -> None:
    for dtype in FLOATS + INTEGERS + COMPLEX:
        model.op("torch.matmul", values_of(dtype, 2, 3), named={"other": values_of(dtype, 3, 2)})
        model.op("torch.mm", values_of(dtype, 2, 2), named={"mat2": values_of(dtype, 2, 1)})
        model.op("torch.mv", values_of(dtype, 2, 2), named={"vec": values_of(dtype, 2)})
        model.op("torch.bmm", values_of(dtype, 2, 1, 2), named={"mat2": values_of(dtype, 2, 2, 2)})
    # Integers wrap around.
    model.op("torch.mm", torch.full((1, 4), 100, dtype=torch.int8), named={"mat2": torch.full((4, 1), 3, dtype=torch.int8)})


@direct
def torch_mm(model: Model) -> None:
    for first, second in (((2, 3), (3, 4)), ((1, 1), (1, 1)), ((0, 2), (2, 3)), ((2, 0), (0, 3))):
        model.op("torch.mm", randn(*first), named={"mat2": randn(*second)})
        model.op("torch.bmm", randn(2, *first), named={"mat2": randn(2, *second)})
        model.op("torch.mv", randn(*first), named={"vec": randn(second[0])})
    model.op("torch.bmm", randn(0, 2, 3), named={"mat2": randn(0, 3, 2)})
    turned = model.op("torch.t", randn(3, 2))[0]
    model.op("torch.mm", turned, named={"mat2": randn(3, 2)})
    model.op("torch.mm", randn(3, 2), named={"mat2": turned})


@direct
def torch_addmm(model: Model) -> None:
    a, b = randn(2, 3), randn(3, 4)
    for shape in ((2, 4), (4,), (2, 1), (1,), ()):
        model.op("torch.addmm", randn(*shape), named={"mat1": a, "mat2": b})
        model.op("torch.addmm", randn(*shape), named={"mat1": a, "mat2": b}, beta=0.5, alpha=-2)
    # With beta 0 the input is ignored, even NaN.
    model.op("torch.addmm", torch.full((2, 4), NAN), named={"mat1": a, "mat2": b}, beta=0, alpha=1)
    model.op("torch.addmm", torch.full((4,), NAN), named={"mat1": a, "mat2": b}, beta=1, alpha=0)
    for dtype in FLOATS + INTEGERS + COMPLEX:
        x, y, z = values_of(dtype, 2), values_of(dtype, 2, 3), values_of(dtype, 3, 2)
        model.op("torch.addmm", x, named={"mat1": y, "mat2": z}, beta=2, alpha=3)
    model.op("torch.addmm", randn(3), named={"mat1": randn(0, 2), "mat2": randn(2, 3)}, beta=1, alpha=1)
    model.op("torch.addmm", randn(3), named={"mat1": randn(2, 0), "mat2": randn(0, 3)}, beta=1.4, alpha=0.7)


@direct
def torch_baddbmm(model: Model) -> None:
    a, b = randn(2, 2, 3), randn(2, 3, 2)
    for shape in ((2, 2, 2), (2, 1, 2), (1, 2, 1), (2, 2), (2,), ()):
        model.op("torch.baddbmm", randn(*shape), named={"batch1": a, "batch2": b}, beta=1.4, alpha=0.7)
    model.op("torch.baddbmm", randn(2, 2, 2), named={"batch1": a, "batch2": b})
    model.op("torch.baddbmm", torch.full((2, 2, 2), NAN), named={"batch1": a, "batch2": b}, beta=0, alpha=0.5)
    model.op("torch.baddbmm", torch.full((1, 2, 1), NAN), named={"batch1": a, "batch2": b}, beta=0.0, alpha=1)
    for dtype in FLOATS + INTEGERS + COMPLEX:
        x, y, z = values_of(dtype, 1, 2, 1), values_of(dtype, 1, 2, 3), values_of(dtype, 1, 3, 2)
        model.op("torch.baddbmm", x, named={"batch1": y, "batch2": z}, beta=2, alpha=3)
    model.op("torch.baddbmm", randn(2, 3, 3), named={"batch1": randn(2, 3, 0), "batch2": randn(2, 0, 3)}, beta=2, alpha=3)


EQUATIONS = [
    ("ii", (3, 3)), ("ii->i", (3, 3)), ("ij->ji", (2, 3)), ("ij", (2, 3)), ("ba", (2, 3)), ("ij->", (2, 3)), ("ij->j", (2, 3)),
    ("i->i", (3,)), ("->", ()), ("iij->j", (2, 2, 3)), ("iji->j", (2, 3, 2)), ("...ii->...i", (3, 2, 2)), ("...ij->...ji", (2, 2, 3)),
    ("...", (2, 3)), ("i...->...", (2, 3)), ("...i->...", (2, 3)), ("iij", (2, 2, 3)), ("aabb->ab", (2, 2, 3, 3)),
    ("i,i", (3,), (3,)), ("i,j", (2,), (3,)), ("i,j->ji", (2,), (3,)), ("ij,jk", (2, 3), (3, 2)), ("ij,jk->ki", (2, 3), (3, 2)),
    ("ij,ij->ij", (2, 3), (2, 3)), ("ij,ij->", (2, 3), (2, 3)), ("ij,kj->ik", (2, 3), (4, 3)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    ("bhid,bhjd->bhij", (1, 2, 2, 3), (1, 2, 2, 3)), ("b...d,...de->b...e", (2, 2, 3), (2, 3, 2)), ("...ij,...jk->...ik", (2, 1, 2, 3), (2, 3, 2)),
    ("ij,j->i", (2, 3), (3,)), ("ijk,jil->kl", (2, 3, 2), (3, 2, 2)), (",ij->ij", (), (2, 3)), ("i,->i", (3,), ()),
    ("ij,jk->ik", (2, 1), (3, 2)), ("ij,ij->ij", (2, 1), (1, 3)), ("ii,i->i", (3, 3), (3,)), ("ab,cd->dacb", (2, 1), (3, 2)),
    ("aB,Ba->", (2, 3), (3, 2)), ("ij , jk -> ik", (2, 2), (2, 2)), ("i,j,k->ijk", (2,), (3,), (2,)), ("bn,anm,bm->ba", (2, 3), (2, 3, 2), (2, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)), ("i,j,k,l->ijkl", (2,), (1,), (3,), (2,)), ("...a,...a,...a->...", (2, 3), (3,), (1, 3)),
    ("ij,jk->ik", (0, 3), (3, 2)), ("ij,jk->ik", (2, 0), (0, 2)), ("i->", (0,)),
]


@direct
def torch_einsum(model: Model) -> None:
    for equation, *shapes in EQUATIONS:
        tensors = [randn(*shape) for shape in shapes]
        model.op("torch.einsum", *tensors, f=lambda *x: torch.einsum(equation, *x), equation=equation.replace(" ", ""))


@direct
def torch_einsum_of_types(model: Model) -> None:
    for dtype in FLOATS + INTEGERS + COMPLEX:
        for equation, *shapes in (("ij,jk->ik", (2, 3), (3, 2)), ("ii->i", (2, 2)), ("ij->j", (2, 3)), ("i,i", (3,), (3,))):
            tensors = [values_of(dtype, *shape) for shape in shapes]
            model.op("torch.einsum", *tensors, f=lambda *x: torch.einsum(equation, *x), equation=equation)


@direct
def torch_cross(model: Model) -> None:
    for first, second, dim in (((3,), (3,), None), ((2, 3), (2, 3), -1), ((3, 2), (3, 2), 0), ((2, 3), (1, 3), 1),
                               ((2, 3, 3), (2, 3, 3), 1), ((2, 1, 3), (1, 2, 3), -1), ((0, 3), (0, 3), 1), ((4, 3, 3), (4, 3, 3), None)):
        model.op("torch.cross", randn(*first), named={"other": randn(*second)}, f=lambda x, other: torch.cross(x, other, dim=dim), dim=dim)
    for dtype in FLOATS + INTEGERS + COMPLEX:
        model.op("torch.cross", values_of(dtype, 3), named={"other": values_of(dtype, 3)}, dim=0)


@exported
def products() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(randn(3, 4)), nn.Parameter(randn(4))

        def forward(self, x, y, v):
            flat = x[0]
            return (
                x @ y, torch.matmul(flat, v), torch.matmul(v, y), v @ v, x @ self.weight, x.matmul(self.weight),
                torch.mm(flat, y[1]), flat.mv(v), torch.bmm(x, y), x.bmm(y), torch.addmm(self.bias, flat, self.weight),
                torch.addmm(self.bias, flat, self.weight, beta=0.5, alpha=2), self.bias.addmm(flat, self.weight, beta=0),
                torch.baddbmm(x[:, :1, :2], x, y, beta=1.4, alpha=0.7), torch.einsum("bij,bjk->bik", x, y),
                torch.einsum("bij,j,bjk", x, v, y), torch.einsum("bii->b", x @ x.mT),
                torch.cross(x, x.flip(0), dim=-1), torch.linalg.cross(flat, v[None]), torch.einsum("i,j->ij", v, v),
            )
    return Export(Net(), randn(2, 2, 3), randn(2, 3, 2), randn(3))


@exported
def products_of_any_size() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.key, self.value = nn.Parameter(randn(4, 4)), nn.Parameter(randn(4, 4))

        def forward(self, x, mask):
            b, n, c = x.shape
            q, k, v = x.view(b, n, 2, 2).transpose(1, 2), (x @ self.key).view(b, n, 2, 2), torch.einsum("bnc,cd->bnd", x, self.value)
            scores = torch.matmul(q, k.permute(0, 2, 3, 1)) / c ** 0.5 + mask
            weights = scores.softmax(-1)
            mixed = torch.einsum("bhij,bjhd->bihd", weights, v.view(b, n, 2, -1)).reshape(b, n, c)
            return mixed, torch.bmm(x, x.transpose(1, 2)), torch.einsum("bnc,bmc->bnm", x, mixed), torch.addmm(x[0, 0], x[0], self.key)
    return Export(Net(), randn(1, 3, 4), randn(3, 3), others=[(randn(2, 2, 4), randn(2, 2)), (randn(1, 1, 4), randn(1, 1)),
                                                            (randn(3, 5, 4), randn(5, 5))])


@exported
def grouped_products() -> Export:
    """Groups of rows, of columns, and of both, as in a mixture of experts."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.Parameter(randn(2, 4, 8))
            self.register_buffer("ends", torch.tensor([3, 8], dtype=torch.int32))

        def forward(self, x, y):
            product = torch.nn.functional.grouped_mm
            rows = product(x, self.experts, offs=self.ends)
            columns = product(self.experts.transpose(1, 2), y, offs=self.ends)
            return rows, columns, product(x.t(), rows, offs=self.ends), product(self.experts.transpose(1, 2), self.experts)
    return Export(Net(), randn(8, 4), randn(4, 8))


@direct(tolerance=1e-2)
def aten_grouped_mm(model: Model) -> None:
    ends, keys = torch.tensor([1, 1, 4], dtype=torch.int32), ["input", "mat2", "offs"]
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x, matrices = randn(4, 8, dtype=dtype), randn(3, 8, 8, dtype=dtype)
        model.op("aten::_grouped_mm", x, matrices, ends, f=torch._grouped_mm, keys=keys)
        model.op("aten::_grouped_mm", x.repeat(2, 1).t(), x.repeat(2, 1), ends * 2, f=torch._grouped_mm, keys=keys)
