"""Linear algebra: torch.linalg. Where signs or a basis are free, the case multiplies the parts again."""

from functools import partial

import torch
from torch import Tensor, nn

import case
from case import Export, Model, exported
from values import INF, NAN, randn

TYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
L = torch.linalg
# What is computed in double precision is as exact.
direct = partial(case.direct, double=1e-9)


def square(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Square matrices far from singular."""
    return randn(*shape, dtype=dtype) + 3 * torch.eye(shape[-1], dtype=dtype)


def positive(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Positive definite matrices."""
    a = randn(*shape, dtype=dtype)
    return a @ a.mH + torch.eye(shape[-1], dtype=dtype)


def of_rank(rank: int, rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return randn(rows, rank, dtype=dtype) @ randn(rank, columns, dtype=dtype)


SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])


def shapes(dtype: torch.dtype) -> list[Tensor]:
    """Matrices of a type: one, many, large, none."""
    return [square(3, 3, dtype=dtype), square(2, 1, 2, 2, dtype=dtype), square(1, 1, dtype=dtype),
            torch.zeros(0, 0, dtype=dtype), torch.zeros(0, 2, 2, dtype=dtype), torch.zeros(2, 0, 0, dtype=dtype)]


@direct(feature="linalg")
def linalg_determinants(model: Model) -> None:
    for dtype in TYPES:
        for a in shapes(dtype):
            model.op("aten::linalg_det", a, f=L.det)
            model.op("aten::linalg_slogdet", a, f=L.slogdet)
            model.op("aten::logdet", a @ a.mH, f=torch.logdet)
    for a in (SINGULAR, torch.stack([SINGULAR, -torch.eye(2)]), torch.diag(torch.tensor([1.0, -2.0]))):
        model.op("aten::det", a, f=torch.det)
        model.op("aten::slogdet", a, f=torch.slogdet)
        model.op("aten::logdet", a, f=torch.logdet)


@direct(feature="linalg")
def linalg_inverses(model: Model) -> None:
    for dtype in TYPES:
        for a in shapes(dtype):
            model.op("aten::linalg_inv", a, f=L.inv)
            model.op("aten::inverse", a, f=torch.inverse)
            model.op("aten::linalg_inv_ex", a, f=L.inv_ex, check_errors=True)
        model.op("aten::linalg_tensorinv", square(6, 6, dtype=dtype).reshape(2, 3, 6), f=lambda a: L.tensorinv(a, ind=2), ind=2)
        model.op("aten::linalg_tensorinv", square(6, 6, dtype=dtype).reshape(6, 3, 2), f=lambda a: L.tensorinv(a, ind=1), ind=1)
    # Beside the inverse, which is undefined, the matrix that has none is told.
    inverse = model.op("aten::linalg_inv_ex", torch.stack([torch.eye(2), SINGULAR]), f=L.inv_ex, shown=False, check_errors=False)
    model.op("Tensor.to", inverse[1], f=lambda info: info.to(torch.int64), copy=False, dtype=torch.int64, non_blocking=False)


@direct(feature="linalg")
def linalg_equations(model: Model) -> None:
    for dtype in TYPES:
        def r(*shape: int) -> Tensor:
            return randn(*shape, dtype=dtype)
        a, many = square(3, 3, dtype=dtype), square(2, 3, 3, dtype=dtype)
        for matrix, b in ((a, r(3)), (a, r(3, 2)), (many, r(2, 3)), (many, r(3, 1)), (many, r(2, 3, 2)), (many, r(4, 1, 3, 2)), (a, r(2, 3, 2)),
                          (a, r(3, 0)), (r(0, 0), r(0, 2)), (r(0, 3, 3), r(0, 3, 1))):
            model.op("aten::linalg_solve", matrix, b, f=L.solve)
            model.op("aten::linalg_solve_ex", matrix, b, f=lambda a, b: L.solve_ex(a, b, check_errors=True), left=True, check_errors=True)
        for matrix, b in ((a, r(2, 3)), (many, r(4, 3)), (many, r(2, 4, 3))):
            model.op("aten::linalg_solve", matrix, b, f=lambda a, b: L.solve(a, b, left=False), left=False)
        model.op("aten::linalg_tensorsolve", square(6, 6, dtype=dtype).reshape(2, 3, 6), r(2, 3), f=L.tensorsolve, dims=None)
        model.op("aten::linalg_tensorsolve", square(6, 6, dtype=dtype).reshape(2, 6, 3), r(2, 3), f=lambda a, b: L.tensorsolve(a, b, dims=(1,)),
                 dims=(1,))


@direct(feature="linalg", tolerance=1e-3)
def linalg_least_squares(model: Model) -> None:
    def lstsq(driver: str | None = None, rcond: float | None = None):
        return lambda a, b: L.lstsq(a, b, rcond=rcond, driver=driver)
    for dtype in TYPES:
        for a, b in (((5, 3), (5, 2)), ((5, 3), (5,)), ((3, 5), (3, 2)), ((2, 4, 2), (2, 4, 3)), ((2, 4, 2), (2, 4))):
            matrix, sides = randn(*a, dtype=dtype), randn(*b, dtype=dtype)
            model.op("aten::linalg_lstsq", matrix, sides, f=lstsq())
            for driver in ("gels", "gelsy", "gelsd", "gelss"):
                model.op("aten::linalg_lstsq", matrix, sides, f=lstsq(driver), rcond=None, driver=driver)
        model.op("aten::linalg_lstsq", of_rank(1, 3, 3, dtype=dtype), randn(3, 2, dtype=dtype), f=lstsq("gelsd"), driver="gelsd")
        poor = torch.diag(torch.tensor([1.0, 1e-3, 1e-9])).to(dtype)
        model.op("aten::linalg_lstsq", poor, randn(3, 1, dtype=dtype), f=lstsq("gelsd", 1e-2), rcond=1e-2, driver="gelsd")


@direct(feature="linalg")
def linalg_cholesky_factors(model: Model) -> None:
    for dtype in TYPES:
        for a in (positive(3, 3, dtype=dtype), positive(2, 1, 2, 2, dtype=dtype), torch.zeros(0, 0, dtype=dtype), torch.zeros(0, 2, 2, dtype=dtype)):
            for upper in (False, True):
                # Only one triangle is read.
                half = a.triu() if upper else a.tril()
                model.op("aten::linalg_cholesky", half, f=lambda a: L.cholesky(a, upper=upper), upper=upper)
                model.op("aten::cholesky", half, f=lambda a: L.cholesky(a, upper=upper), upper=upper)
                model.op("aten::linalg_cholesky_ex", half, f=lambda a: L.cholesky_ex(a, upper=upper, check_errors=True), upper=upper, check_errors=True)
    both = torch.stack([torch.eye(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]])])
    factor = model.op("aten::linalg_cholesky_ex", both, f=L.cholesky_ex, shown=False, upper=False, check_errors=False)
    model.op("Tensor.to", factor[1], f=lambda info: info.to(torch.int64), copy=False, dtype=torch.int64, non_blocking=False)


@direct
def linalg_triangles(model: Model) -> None:
    for dtype in TYPES:
        for a, b in (((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 1)), ((2, 1, 2, 2), (3, 2, 2)), ((0, 0), (0, 2)), ((2, 2), (2, 0)), ((0, 2, 2), (2, 1))):
            matrix, sides = square(*a, dtype=dtype), randn(*b, dtype=dtype)
            for upper in (False, True):
                for unit in (False, True):
                    model.op("aten::linalg_solve_triangular", matrix, sides, f=lambda a, b: L.solve_triangular(a, b, upper=upper, unitriangular=unit),
                             upper=upper, unitriangular=unit)
                right = sides.mT.contiguous()
                model.op("aten::linalg_solve_triangular", matrix, right, f=lambda a, b: L.solve_triangular(a, b, upper=upper, left=False),
                         upper=upper, left=False)
                for transpose in (False, True):
                    model.op("aten::triangular_solve", sides, matrix, f=lambda b, a: torch.triangular_solve(b, a, upper=upper, transpose=transpose),
                             upper=upper, transpose=transpose, unitriangular=False)
                model.op("aten::cholesky_solve", sides, matrix, f=lambda b, a: torch.cholesky_solve(b, a, upper=upper), upper=upper)
            factor = L.cholesky(matrix @ matrix.mH + torch.eye(a[-1], dtype=dtype))
            model.op("aten::cholesky_inverse", factor, f=torch.cholesky_inverse, upper=False)
            model.op("aten::cholesky_inverse", factor.mH.contiguous(), f=lambda a: torch.cholesky_inverse(a, upper=True), upper=True)
    # A 0 on the diagonal divides.
    holed = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    model.op("aten::linalg_solve_triangular", holed, torch.ones(2, 1), f=lambda a, b: L.solve_triangular(a, b, upper=True), upper=True)


@direct
def linalg_powers(model: Model) -> None:
    for dtype in TYPES:
        for a in (randn(3, 3, dtype=dtype), randn(2, 1, 2, 2, dtype=dtype), torch.zeros(0, 0, dtype=dtype), torch.zeros(0, 2, 2, dtype=dtype)):
            for n in (0, 1, 2, 5):
                model.op("aten::linalg_matrix_power", a, f=lambda a: L.matrix_power(a, n), n=n)
            model.op("aten::matrix_power", a, f=lambda a: L.matrix_power(a, 3), n=3)
            model.op("aten::linalg_matrix_exp", a, f=L.matrix_exp)
            model.op("aten::matrix_exp", a / 8, f=torch.matrix_exp)
    model.op("aten::matrix_exp", torch.tensor([[0.0, 20.0], [-20.0, 0.0]], dtype=torch.float64), f=torch.matrix_exp)


@direct(feature="linalg")
def linalg_negative_powers(model: Model) -> None:
    for dtype in TYPES:
        for a in (square(3, 3, dtype=dtype), square(2, 2, 2, dtype=dtype), torch.zeros(0, 0, dtype=dtype)):
            for n in (-1, -3):
                model.op("aten::linalg_matrix_power", a, f=lambda a: L.matrix_power(a, n), n=n)


def turned(model: Model, x: Tensor) -> Tensor:
    """The conjugate transpose, computed by the model."""
    conjugate = model.op("aten::conj_physical", x, f=torch.conj_physical, shown=False)[0] if x.dtype.is_complex else x
    return model.op("torch.transpose", conjugate, dim0=-2, dim1=-1, shown=False)[0]


SIZES = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 0), (3, 0), (0, 3), (0, 2, 2)]


@direct(feature="linalg", tolerance=1e-3)
def linalg_qr(model: Model) -> None:
    for dtype in TYPES:
        for size in SIZES:
            a = randn(*size, dtype=dtype)
            for mode in ("reduced", "complete"):
                q, r = model.op("aten::linalg_qr", a, f=lambda a: L.qr(a, mode=mode), mode=mode, shown=False)
                model.op("torch.matmul", q, named={"other": r})
                unit = turned(model, q)
                model.op("torch.matmul", unit, named={"other": q})
            q, r = model.op("aten::linalg_qr", a, f=lambda a: L.qr(a, mode="r"), mode="r", shown=False)
            model.op("aten::abs", r, f=torch.abs)


@direct(feature="linalg", tolerance=1e-3)
def linalg_svd(model: Model) -> None:
    for dtype in TYPES:
        for size in SIZES:
            a = randn(*size, dtype=dtype)
            model.op("aten::linalg_svdvals", a, f=L.svdvals, driver=None)
            u, s, vh = model.op("aten::linalg_svd", a, f=lambda a: L.svd(a, full_matrices=False), full_matrices=False, driver=None, shown=False)
            wide = model.op("torch.unsqueeze", s, dim=-2, shown=False)[0]
            scaled = model.op("aten::mul", u, wide, f=torch.mul, shown=False)[0]
            model.op("torch.matmul", scaled, named={"other": vh})
            u, s, vh = model.op("aten::linalg_svd", a, f=L.svd, shown=False)
            for factor in (u, vh):
                unit = turned(model, factor)
                model.op("torch.matmul", unit, named={"other": factor})
            u, s, v = model.op("aten::svd", a, f=torch.svd, some=True, compute_uv=True, shown=False)
            wide = model.op("torch.unsqueeze", s, dim=-2, shown=False)[0]
            scaled = model.op("aten::mul", u, wide, f=torch.mul, shown=False)[0]
            vh = turned(model, v)
            model.op("torch.matmul", scaled, named={"other": vh})
        model.op("aten::svd", randn(3, 2, dtype=dtype), f=lambda a: torch.svd(a, compute_uv=False), some=True, compute_uv=False)


@direct(feature="linalg", tolerance=1e-3)
def linalg_eigenvalues(model: Model) -> None:
    for dtype in TYPES:
        for size in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2)):
            a = randn(*size, dtype=dtype)
            whole = a + a.mH
            for half in ("L", "U"):
                # Only one triangle is read.
                one = whole.tril() if half == "L" else whole.triu()
                model.op("aten::linalg_eigvalsh", one, f=lambda a: L.eigvalsh(a, UPLO=half), UPLO=half)
                values, vectors = model.op("aten::linalg_eigh", one, f=lambda a: L.eigh(a, UPLO=half), UPLO=half, shown=False)
                wide = model.op("torch.unsqueeze", values, dim=-2, shown=False)[0]
                scaled = model.op("aten::mul", vectors, wide, f=torch.mul, shown=False)[0]
                vh = turned(model, vectors)
                model.op("torch.matmul", scaled, named={"other": vh})
            # The sum of the eigenvalues is the trace, and that of their squares that of the square.
            values = model.op("aten::linalg_eigvals", a, f=L.eigvals, shown=False)[0]
            model.op("torch.sum", values, dim=(-1,), keepdim=False)
            squares = model.op("aten::square", values, f=torch.square, shown=False)[0]
            model.op("torch.sum", squares, dim=(-1,), keepdim=False)
            if dtype.is_complex:
                values, vectors = model.op("aten::linalg_eig", a, f=L.eig, shown=False)
                wide = model.op("torch.unsqueeze", values, dim=-2, shown=False)[0]
                inverse = model.op("aten::linalg_inv", vectors, f=L.inv, shown=False)[0]
                scaled = model.op("aten::mul", vectors, wide, f=torch.mul, shown=False)[0]
                model.op("torch.matmul", scaled, named={"other": inverse})
    # Turning by a right angle has the eigenvalues i and −i.
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    values, vectors = model.op("aten::linalg_eig", turn, f=L.eig, shown=False)
    model.op("aten::abs", vectors, f=torch.abs)
    model.op("aten::square", values, f=torch.square)


@direct(feature="linalg", tolerance=1e-3)
def linalg_ranks(model: Model) -> None:
    for dtype in TYPES:
        poor = [of_rank(2, 4, 3, dtype=dtype), of_rank(1, 3, 3, dtype=dtype), square(2, 3, 3, dtype=dtype), torch.zeros(2, 3, dtype=dtype),
                torch.zeros(0, 3, dtype=dtype), torch.zeros(0, 2, 2, dtype=dtype)]
        for a in poor:
            model.op("aten::linalg_matrix_rank", a, f=L.matrix_rank)
            model.op("aten::linalg_matrix_rank", a, f=lambda a: L.matrix_rank(a, atol=0.5, rtol=0.2), atol=0.5, rtol=0.2, hermitian=False)
            model.op("aten::linalg_matrix_rank", a, f=lambda a: L.matrix_rank(a, tol=1.0), atol=1.0, hermitian=False)
            model.op("aten::linalg_pinv", a, f=lambda a: L.pinv(a, rtol=1e-3), atol=None, rtol=1e-3, hermitian=False)
            model.op("aten::linalg_pinv", a, f=lambda a: L.pinv(a, atol=0.5), atol=0.5, rtol=None, hermitian=False)
            model.op("aten::pinverse", a, f=lambda a: torch.pinverse(a, rcond=1e-3), rcond=1e-3)
        model.op("aten::linalg_pinv", square(3, 3, dtype=dtype), f=L.pinv)
        # Of a Hermitian matrix only the lower triangle is read.
        half = positive(3, 3, dtype=dtype).tril()
        model.op("aten::linalg_matrix_rank", half, f=lambda a: L.matrix_rank(a, hermitian=True), atol=None, rtol=None, hermitian=True)
        model.op("aten::linalg_pinv", half, f=lambda a: L.pinv(a, hermitian=True), atol=None, rtol=None, hermitian=True)
    # Without any tolerance, not even the usual relative one.
    small = torch.diag(torch.tensor([1.0, 1e-12]))
    model.op("aten::linalg_matrix_rank", small, f=lambda a: L.matrix_rank(a, tol=0.0), hermitian=False, tol=0.0)
    model.op("aten::linalg_matrix_rank", small, f=lambda a: L.matrix_rank(a, atol=0.0), atol=0.0, hermitian=False)


@direct(feature="linalg", tolerance=1e-3)
def linalg_conditions(model: Model) -> None:
    for dtype in TYPES:
        a = square(2, 3, 3, dtype=dtype)
        for p in (None, 2, -2, 1, -1, INF, -INF, "fro", "nuc"):
            model.op("aten::linalg_cond", a, f=lambda a: L.cond(a, p), p=p)
        model.op("aten::linalg_cond", randn(4, 2, dtype=dtype), f=L.cond, p=None)
        model.op("aten::linalg_cond", torch.zeros(0, 0, dtype=dtype), f=L.cond, p=None)
        for order in (2, -2, "nuc"):
            x = randn(2, 3, 4, dtype=dtype)
            model.op("aten::linalg_matrix_norm", x, f=lambda x: L.matrix_norm(x, ord=order), ord=order, dim=(-2, -1), keepdim=False, dtype=None)
            model.op("aten::linalg_matrix_norm", x, f=lambda x: L.matrix_norm(x, ord=order, dim=(2, 0), keepdim=True), ord=order, dim=(2, 0), keepdim=True,
                     dtype=None)
            model.op("aten::linalg_norm", x[0], f=lambda x: L.norm(x, order), ord=order, dim=None, keepdim=False, dtype=None)
        model.op("aten::nuclear_norm", randn(3, 2, dtype=dtype), f=torch.nuclear_norm, keepdim=False)
        model.op("aten::nuclear_norm", randn(2, 3, 2, dtype=dtype), f=lambda x: torch.nuclear_norm(x, dim=(0, 2), keepdim=True), dim=(0, 2), keepdim=True)
    model.op("aten::linalg_cond", SINGULAR, f=lambda a: L.cond(a, 1), p=1)
    # PyTorch's word for what is not a number; the nuclear norm divides singular values.
    for p in (1, -1, INF, -INF, "fro"):
        model.op("aten::linalg_cond", torch.tensor([[1.0, NAN], [2.0, 1.0]]), f=lambda a: L.cond(a, p), p=p)
    model.op("aten::linalg_cond", torch.zeros(2, 2), f=lambda a: L.cond(a, "nuc"), p="nuc")


@exported
def linalg_triangular_systems() -> Export:
    class Net(nn.Module):
        def forward(self, a, b):
            return (L.solve_triangular(a, b, upper=True), L.solve_triangular(a, b.mT, upper=False, left=False, unitriangular=True),
                    *torch.triangular_solve(b, a), *torch.triangular_solve(b, a, upper=False, transpose=True, unitriangular=True),
                    L.matrix_exp(a / 4), torch.matrix_exp(a), L.matrix_power(a, 3), a.matrix_power(2), torch.chain_matmul(a, a, b),
                    L.multi_dot([a, a, b]))
    return Export(Net(), square(3, 3), randn(3, 2))


@exported
def linalg_solving() -> Export:
    class Net(nn.Module):
        def forward(self, a, b, p):
            return (L.det(a), a.det(), *L.slogdet(a), *torch.slogdet(a), p.logdet(), L.inv(a), torch.inverse(a), *L.inv_ex(a), L.solve(a, b), L.solve(a, b[:, 0]),
                    L.solve(a, b.T, left=False), *L.solve_ex(a, b), L.lstsq(b, a[:, :1]).solution, *L.lstsq(b, a, driver="gelsd"), L.cholesky(p),
                    L.cholesky(p, upper=True), *L.cholesky_ex(p), torch.cholesky_solve(b, L.cholesky(p)), torch.cholesky_inverse(L.cholesky(p)),
                    L.matrix_power(a, -2), L.tensorsolve(a, b[:, 0]), L.tensorinv(a, ind=1))
    return Export(Net(), square(3, 3), randn(3, 2), positive(3, 3), feature="linalg")


@exported
def linalg_parts() -> Export:
    class Net(nn.Module):
        def forward(self, a, p):
            (q, r), (full_q, full_r), r_alone = L.qr(a), L.qr(a, mode="complete"), L.qr(a, mode="r")[1]
            u, s, vh = L.svd(a, full_matrices=False)
            full_u, full_s, full_vh = L.svd(a)
            old_u, old_s, old_v = torch.svd(a)
            values, vectors = L.eigh(p)
            upper_values, upper_vectors = L.eigh(p, UPLO="U")
            tolerance = a[0, 0].abs() / 100
            return (q @ r, full_q @ full_r, r_alone.abs(), (u * s) @ vh, full_s, full_u @ full_u.mT, full_vh @ full_vh.mT, (old_u * old_s) @ old_v.mT,
                    L.svdvals(a), (vectors * values) @ vectors.mT, upper_values, upper_vectors.abs(), L.eigvalsh(p), L.eigvals(p).abs().sum(),
                    L.matrix_rank(a), L.matrix_rank(a, tol=0.1), L.matrix_rank(a, tol=tolerance), L.matrix_rank(a, atol=0.1, rtol=0.2),
                    L.matrix_rank(p, hermitian=True), L.pinv(a), torch.pinverse(a), L.pinv(a, rcond=0.01), L.pinv(p, hermitian=True),
                    L.cond(p), L.cond(p, 1), L.cond(p, "fro"), L.norm(a, 2), L.norm(a, "nuc"), L.matrix_norm(a, -2), torch.nuclear_norm(a))
    return Export(Net(), randn(4, 3), positive(3, 3), feature="linalg", tolerance=1e-3)


def some(dtype: torch.dtype, items: list) -> list:
    """All of them for one type, the first three for the others."""
    return items if dtype == torch.float32 else items[:3]


@direct
def linalg_elimination(model: Model) -> None:
    for dtype in TYPES:
        for size in some(dtype, [(2, 3, 3), (4, 2), (2, 4), (2, 1, 3, 3), (1, 1), (0, 0), (3, 0), (0, 2, 2)]):
            a = randn(*size, dtype=dtype)
            model.op("aten::linalg_lu", a, f=L.lu)
            model.op("aten::linalg_lu_factor_ex", a, f=L.lu_factor_ex, pivot=True, check_errors=False)
            factors, pivots = model.op("aten::linalg_lu_factor", a, f=L.lu_factor)
            model.op("aten::lu_unpack", factors, pivots, f=torch.lu_unpack)
            model.op("aten::lu_unpack", factors, pivots, f=lambda a, p: torch.lu_unpack(a, p, unpack_data=False), unpack_data=False)
            model.op("aten::lu_unpack", factors, pivots, f=lambda a, p: torch.lu_unpack(a, p, unpack_pivots=False), unpack_pivots=False)
        for a, b in some(dtype, [((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 1)), ((2, 1, 2, 2), (3, 2, 2)), ((0, 0), (0, 2)), ((2, 2), (2, 0))]):
            factors, pivots = model.op("aten::linalg_lu_factor", square(*a, dtype=dtype), f=L.lu_factor, shown=False)
            sides = randn(*b, dtype=dtype)
            model.op("aten::lu_solve", sides, factors, pivots, f=torch.lu_solve)
            for adjoint in (False, True):
                model.op("aten::linalg_lu_solve", factors, pivots, sides, f=lambda a, p, b: L.lu_solve(a, p, b, adjoint=adjoint), adjoint=adjoint)
                model.op("aten::linalg_lu_solve", factors, pivots, sides.mT.contiguous(), left=False, adjoint=adjoint,
                         f=lambda a, p, b: L.lu_solve(a, p, b, left=False, adjoint=adjoint))
    model.op("aten::linalg_lu_factor_ex", torch.stack([torch.eye(2), SINGULAR, torch.zeros(2, 2)]), f=L.lu_factor_ex)


@direct
def linalg_symmetric(model: Model) -> None:
    for dtype in TYPES:
        for hermitian in (False, True):
            for size in some(dtype, [(4, 4), (2, 3, 3), (2, 2), (1, 1), (0, 0), (0, 2, 2)]):
                a = randn(*size, dtype=dtype)
                a = a + (a.mH if hermitian else a.mT)
                for a in (a, a - torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))):
                    # Only one triangle is read. Of a matrix without a diagonal all blocks have two rows.
                    if size[-1] % 2 and not bool((a.diagonal(dim1=-2, dim2=-1) != 0).all()):
                        continue
                    factors, pivots = model.op("aten::linalg_ldl_factor", a.tril(), f=lambda a: L.ldl_factor(a, hermitian=hermitian), hermitian=hermitian)
                    model.op("aten::linalg_ldl_factor_ex", a.tril(), f=lambda a: L.ldl_factor_ex(a, hermitian=hermitian), hermitian=hermitian)
                    sides = randn(*size[:-1], 2, dtype=dtype)
                    model.op("aten::linalg_ldl_solve", factors, pivots, sides, f=lambda a, p, b: L.ldl_solve(a, p, b, hermitian=hermitian), hermitian=hermitian)


@direct
def linalg_reflections(model: Model) -> None:
    for dtype in TYPES:
        for size, count in (((4, 3), 3), ((4, 3), 2), ((3, 3), 0), ((2, 4, 2), 1), ((2, 0), 0), ((0, 3, 2), 2)):
            a, tau = randn(*size, dtype=dtype), randn(*size[:-2], count, dtype=dtype)
            model.op("aten::linalg_householder_product", a, tau, f=L.householder_product)
            model.op("aten::orgqr", a, tau, f=torch.orgqr)


@direct
def linalg_vectors(model: Model) -> None:
    for dtype in [*TYPES, torch.float16, torch.bfloat16]:
        for a, b, dim in some(dtype, [((3,), (3,), -1), ((2, 1, 3), (4, 3), -1), ((2, 3), (3,), 0), ((3,), (2, 3), -2), ((), (), -1), ((2, 0), (2, 0), 1), ((0, 2), (2,), 1)]):
            # Whole numbers: PyTorch rounds after each sum of 16 bits, Ixion once.
            x, y = (randn(*size, dtype=dtype) * 3 for size in (a, b))
            x, y = (x.round(), y.round()) if dtype.itemsize == 2 else (x, y)
            model.op("aten::linalg_vecdot", x, y, f=lambda x, y: L.vecdot(x, y, dim=dim), dim=dim)
    for dtype in [*TYPES, torch.int64, torch.int32, torch.uint8]:
        for size in ((3,), (2, 3), (0, 2), (2, 0)):
            x = (randn(*size) * 3).abs().to(dtype)
            if size[-1] > 1:
                model.op("aten::linalg_vander", x, f=L.vander)
            model.op("aten::linalg_vander", x, f=lambda x: L.vander(x, N=4), N=4)
    for dtype in [*TYPES, torch.int64, torch.int16, torch.bool, torch.float16]:
        x = torch.tensor([1, 2, 0]).to(dtype)
        model.op("aten::vander", x, f=torch.vander, N=None, increasing=False)
        for count in (0, 1, 4):
            model.op("aten::vander", x, f=lambda x: torch.vander(x, count, increasing=True), N=count, increasing=True)


@exported
def linalg_elimination_exported() -> Export:
    class Net(nn.Module):
        def forward(self, a, b, v, tau):
            factors, pivots = L.lu_factor(a)
            symmetric = a + a.mT
            ld, rows, _ = L.ldl_factor_ex(symmetric)
            return (*L.lu(b), factors, pivots, *L.lu_factor_ex(a), L.lu_solve(factors, pivots, b), L.lu_solve(factors, pivots, b.mT, left=False, adjoint=True),
                    torch.lu_solve(b, factors, pivots), *torch.lu_unpack(factors, pivots), *L.ldl_factor(symmetric), ld, rows,
                    L.ldl_solve(ld, rows, b), L.householder_product(a, tau), torch.orgqr(a, tau), L.vander(v), L.vander(v, N=2), torch.vander(v),
                    torch.vander(v, N=2, increasing=True), L.vecdot(a, a), L.vecdot(a, v, dim=0))
    return Export(Net(), square(3, 3), randn(3, 2), randn(3), randn(2), lapack=True)
