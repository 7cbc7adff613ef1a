"""Complex numbers of every precision, through all that takes them."""

import torch
import torch.nn.functional as F

from case import Export, Model, direct, exported
from modules import Each
from values import randn

FIRST = torch.tensor([1, 0])
ROW = torch.zeros(1, 4, dtype=torch.long)


def elementwise(z, w):
    functions = (torch.abs, torch.acos, torch.acosh, torch.angle, torch.asin, torch.asinh, torch.atan, torch.atanh, torch.cos, torch.cosh, torch.exp,
                 torch.exp2, torch.expm1, torch.log, torch.log10, torch.log1p, torch.log2, torch.neg, torch.positive, torch.reciprocal, torch.rsqrt, torch.sgn,
                 torch.sigmoid, torch.sin, torch.sinc, torch.sinh, torch.sqrt, torch.square, torch.tan, torch.tanh, torch.conj, torch.conj_physical,
                 torch.real, torch.imag, torch.isfinite, torch.isinf, torch.isnan, torch.isreal, torch.logical_not, F.silu, F.tanhshrink)
    return [function(z) for function in functions]


def arithmetic(z, w):
    r = w.real
    return [z + w, z - w, 2 - z, z * w, z / w, z ** w, z ** 2, z ** 0.5, 2 ** z, z + 1.5, z + (1 + 2j), z * 2.5, z * (1 - 2j), z / 4, 3 / z, z + r, z * r, r / z,
            torch.add(z, w, alpha=2), torch.sub(z, w, alpha=2j), torch.true_divide(z, w), torch.float_power(z, 2), torch.float_power(r, z),
            torch.addcmul(z, w, w, value=0.5), torch.addcdiv(z, w, w + 1, value=0.5), torch.lerp(z, w, 0.3), torch.polar(z.abs(), z.angle()), z * w.conj(),
            z == w, z != w, z == z.clone(), z == (1 + 2j), z != 0, torch.logical_and(z, w), torch.logical_or(z, w), torch.logical_xor(z, w), torch.isclose(z, w),
            torch.where(r > 0, z, w), torch.where(r > 0, z, 0.0), z.masked_fill(r > 0, 0.5), torch.nan_to_num(z / 0)]


def reductions(z, w):
    return [z.sum(), z.mean(), z.prod(), z.std(), z.var(), torch.any(z), torch.all(z), torch.count_nonzero(z), z.sum(1), z.mean(0, keepdim=True), z.prod(1),
            z.std(1), z.var(0), *torch.std_mean(z, 1), *torch.var_mean(z, 1), z.cumsum(1), z.cumprod(1), torch.logsumexp(z, 1), torch.norm(z), torch.norm(z, dim=1),
            torch.linalg.vector_norm(z, 1, dim=1), torch.linalg.matrix_norm(z), torch.dist(z, w), torch.diff(z), torch.any(z, 1), torch.all(z, 0),
            torch.count_nonzero(z, 1), F.normalize(z, dim=1)]


def products(z, w):
    a, b = z[:, :3], w[:, :3]
    return [torch.mm(z, w.t()), torch.matmul(z, w.mT), torch.bmm(z[None], w.mT[None]), torch.mv(z, w[0]), torch.dot(z[0], w[0]), torch.vdot(z[0], w[0]),
            torch.outer(z[0], w[0]), torch.addmm(a, z, w.t(), beta=0.5, alpha=2), torch.addmv(z[:, 0], z, w[0]), torch.baddbmm(a[None], z[None], w.mT[None]),
            torch.einsum("ij,kj->ik", z, w), torch.tensordot(z, w, ([1], [1])), F.linear(z, w, w[:, 0]), torch.linalg.cross(a, b), torch.matrix_power(a, 3), z.mH @ w]


def movement(z, w):
    return [torch.cat([z, w]), torch.cat([z, w.real]), torch.stack([z, w]), torch.hstack([z, w]), *torch.chunk(z, 2, 1), *torch.unbind(z), z[FIRST],
            torch.index_select(z, 0, FIRST), torch.gather(z, 0, ROW), torch.take(z, FIRST), torch.take_along_dim(z, ROW, 0), torch.index_add(z, 0, FIRST, w[:2]),
            torch.index_copy(z, 0, FIRST, w[:2]), torch.index_fill(z, 0, FIRST, 2.0), torch.scatter(z, 0, ROW, w), torch.scatter_add(z, 0, ROW, w),
            torch.index_put(z, (FIRST,), w[:2]), torch.index_put(z, (FIRST,), w[:2], accumulate=True), torch.select_scatter(z, w[0], 0, 1), torch.diagonal(z),
            torch.diag_embed(z), torch.tril(z), torch.triu(z), torch.flip(z, [0]), torch.roll(z, 1, 0), torch.rot90(z), F.pad(z, (1, 1)), torch.tile(z, (2, 1)),
            torch.repeat_interleave(z, 2, 0), torch.full_like(z, 2.5), torch.ones_like(z), z.new_zeros(2, 2), torch.view_as_complex(torch.view_as_real(z)),
            z.permute(1, 0), z.reshape(-1), z[:1].expand(3, 4), torch.masked_select(z, z.real > 0), torch.nonzero(z)]


def of_both_precisions(function):
    def compute(x, y):
        results = []
        for a, b in ((x, y), (x.double(), y.double())):
            results += function(torch.complex(a, b), torch.complex(b, a + 1))
        return tuple(torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in results)
    return Export(Each(compute), randn(3, 4), randn(3, 4), tolerance=1e-4)


@exported
def complex_elementwise() -> Export:
    return of_both_precisions(elementwise)


@exported
def complex_arithmetic() -> Export:
    return of_both_precisions(arithmetic)


@exported
def complex_reductions() -> Export:
    return of_both_precisions(reductions)


@exported
def complex_products() -> Export:
    return of_both_precisions(products)


@exported
def complex_movement() -> Export:
    return of_both_precisions(movement)


@direct(tolerance=4e-3)
def complex_halves(model: Model) -> None:
    """PyTorch computes few of these on a CPU; the results are those of single precision, rounded."""
    def rounded(function):
        def compute(*inputs):
            result = function(*(x.to(torch.complex64) for x in inputs))
            return result.to({torch.complex64: torch.complex32, torch.float32: torch.float16}.get(result.dtype, result.dtype))
        return compute
    z, w = randn(3, 4, dtype=torch.complex64).to(torch.complex32), randn(3, 4, dtype=torch.complex64).to(torch.complex32)
    for name in ("abs", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan"):
        model.op("pnnx.Expression", z, f=rounded(getattr(torch, name)), expr=f"{name}(@0)")
    for name in ("add", "sub", "mul", "div", "pow"):
        model.op("pnnx.Expression", z, w, f=rounded(getattr(torch, name)), expr=f"{name}(@0,@1)")
    model.op("pnnx.Expression", z, f=rounded(lambda z: z * 2.5), expr="mul(@0,2.5)")
    for op_type, function in (("torch.real", torch.real), ("torch.imag", torch.imag), ("torch.view_as_real", torch.view_as_real), ("aten::angle", torch.angle),
                              ("aten::conj_physical", torch.conj_physical), ("aten::sgn", torch.sgn), ("torch.sum", torch.sum), ("torch.mean", torch.mean),
                              ("torch.prod", torch.prod), ("torch.isnan", torch.isnan)):
        model.op(op_type, z, f=rounded(function))
    model.op("torch.cumsum", z, f=rounded(lambda z: z.cumsum(1)), dim=1)
    model.op("torch.mm", z, w.t().contiguous(), f=rounded(torch.mm))
    model.op("torch.matmul", z, w.t().contiguous(), f=rounded(torch.matmul))
    model.op("torch.cat", z, w, f=rounded(lambda *both: torch.cat(both)), dim=0)
    model.op("torch.eq", z, z.clone(), f=torch.eq)
    model.op("torch.ne", z, w, f=torch.ne)
