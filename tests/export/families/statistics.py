"""Covariances, areas, Kronecker products, windows."""

from functools import partial

import torch
from torch import nn

import case
from case import Export, Model, exported
from values import INF, randn

FLOATS = [torch.float32, torch.float64, torch.complex64, torch.complex128]
# What is computed in double precision is as exact.
direct = partial(case.direct, double=1e-9)


@direct
def aten_kron(model: Model) -> None:
    for dtype in [*FLOATS, torch.float16, torch.int64, torch.uint8]:
        for a, b in (((2,), (3,)), ((2, 3), (2,)), ((2,), (2, 1, 3)), ((2, 1, 2), (1, 3, 2)), ((), (2,)), ((), ()), ((2, 0), (3, 2)), ((0,), (2, 2))):
            model.op("aten::kron", (randn(*a) * 3).to(dtype), (randn(*b) * 3).to(dtype), f=torch.kron)
    true = torch.tensor([True, False])
    for other in (true, torch.tensor([2, 3], dtype=torch.int16), torch.tensor(2.5, dtype=torch.float64)):
        model.op("aten::kron", true, other, f=torch.kron)
        model.op("aten::kron", other, torch.tensor([1.0, 2.0]), f=torch.kron)


@direct
def aten_cov(model: Model) -> None:
    for dtype in FLOATS:
        for size in ((3, 5), (1, 4), (4,), (2, 1), (), (2, 0), (0, 3)):
            x = randn(*size, dtype=dtype)
            model.op("aten::cov", x, f=torch.cov, correction=1)
            model.op("aten::cov", x, f=lambda x: torch.cov(x, correction=0), correction=0)
            model.op("aten::corrcoef", x, f=torch.corrcoef)
        x, often, weights = randn(2, 4, dtype=dtype), torch.tensor([1, 3, 0, 2]), torch.tensor([0.5, 1.0, 2.0, 0.1], dtype=dtype.to_real())
        for correction in (0, 1, 2):
            def cov(**kept):
                return lambda x, **given: torch.cov(x, correction=correction, **given)
            model.op("aten::cov", x, named={"fweights": often}, f=cov(), correction=correction)
            model.op("aten::cov", x, named={"aweights": weights}, f=cov(), correction=correction)
            model.op("aten::cov", x, named={"fweights": often, "aweights": weights}, f=cov(), correction=correction)
    for dtype in (torch.int64, torch.uint8):
        x = torch.tensor([[1, 0, 2], [0, 1, 1]]).to(dtype)
        model.op("aten::cov", x, f=torch.cov)
        model.op("aten::corrcoef", x, f=torch.corrcoef)
    model.op("aten::corrcoef", torch.tensor([[1.0, 1.0], [1.0, 2.0]]), f=torch.corrcoef)


@direct
def aten_trapezoid(model: Model) -> None:
    kinds = [("aten::trapezoid", torch.trapezoid), ("aten::trapz", torch.trapz), ("aten::cumulative_trapezoid", torch.cumulative_trapezoid)]
    for op_type, f in kinds:
        for dtype in FLOATS:
            sizes = [((5,), -1), ((2, 3), 0), ((2, 3, 4), 1), ((2, 1), 1), ((2, 0), 1), ((0, 3), 1)]
            for size, dim in sizes if dtype == torch.float32 else sizes[:2]:
                y = randn(*size, dtype=dtype)
                model.op(op_type, y, f=lambda y: f(y, dim=dim), dx=1, dim=dim)
                model.op(op_type, y, f=lambda y: f(y, dx=0.5, dim=dim), dx=0.5, dim=dim)
                model.op(op_type, y, named={"dx": randn(size[dim], dtype=dtype.to_real())}, f=lambda y, dx: f(y, dx, dim=dim), dim=dim)
                model.op(op_type, y, named={"dx": randn(*size, dtype=dtype)}, f=lambda y, dx: f(y, dx, dim=dim), dim=dim)
            model.op(op_type, randn(4, 2, 3, dtype=dtype), named={"dx": randn(2, 3, dtype=dtype.to_real())}, f=lambda y, dx: f(y, dx))
            model.op(op_type, randn(1, 3, dtype=dtype), named={"dx": randn(4, 3, dtype=dtype.to_real())}, f=lambda y, dx: f(y, dx))
        for dtype in (torch.int64, torch.uint8, torch.int32):
            y = torch.tensor([[1, 2, 6], [0, 2, 0]]).to(dtype)
            model.op(op_type, y, f=lambda y: f(y, dx=2), dx=2, dim=-1)
            model.op(op_type, y, named={"dx": torch.tensor([1, 2, 4])}, f=lambda y, dx: f(y, dx))


@direct
def aten_unfold(model: Model) -> None:
    for dtype in [*FLOATS, torch.float16, torch.int64, torch.bool]:
        x = (randn(3, 6) * 3).to(dtype)
        for dimension, size, step in ((0, 2, 1), (1, 2, 3), (-1, 6, 1), (1, 0, 2), (1, 1, 9)):
            model.op("aten::unfold", x, f=lambda x: x.unfold(dimension, size, step), dimension=dimension, size=size, step=step)
    model.op("aten::unfold", torch.tensor(2.0), f=lambda x: x.unfold(0, 1, 1), dimension=0, size=1, step=1)
    model.op("Tensor.unfold", randn(2, 3, 5), f=lambda x: x.unfold(2, 3, 2), dimension=2, size=3, step=2)


@direct
def aten_logcumsumexp_complex(model: Model) -> None:
    for dtype in (torch.complex64, torch.complex128):
        for size, dim in (((5,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 3, 2), 1), ((), 0), ((0, 2), 0)):
            model.op("aten::logcumsumexp", randn(*size, dtype=dtype) * 3, f=lambda z: torch.logcumsumexp(z, dim), dim=dim)
        z = torch.tensor([complex(-INF, 1), complex(-INF, 2), complex(1, 2), complex(INF, 1), complex(0, 3)], dtype=dtype)
        model.op("aten::logcumsumexp", z, f=lambda z: torch.logcumsumexp(z, 0), dim=0)


@exported
def aten_statistics() -> Export:
    class Net(nn.Module):
        def forward(self, a, b, v):
            return (torch.kron(a, b), torch.cov(a), torch.cov(a, correction=0, aweights=v.abs()), torch.corrcoef(a), torch.trapezoid(a), torch.trapezoid(a, v),
                    torch.trapezoid(a, dx=2.0, dim=0), torch.trapz(a), torch.trapz(a, v), torch.cumulative_trapezoid(a), torch.cumulative_trapezoid(a, v),
                    torch.cumulative_trapezoid(a, dx=0.5, dim=0), a.unfold(0, 2, 1), a.unfold(1, 1, 2), torch.logcumsumexp(torch.complex(a, -a), 0))
    return Export(Net(), randn(3, 4), randn(2), randn(4))


@direct
def aten_quantile(model: Model) -> None:
    special = torch.tensor([[1.0, INF, 2.0, -INF], [0.5, float("nan"), 3.0, 2.0], [float("nan")] * 4, [4.0, -1.0, 0.0, -0.0]], dtype=torch.float64)
    for name, f in (("quantile", torch.quantile), ("nanquantile", torch.nanquantile)):
        op, results = f"aten::{name}", []
        for dtype in (torch.float32, torch.float64):
            x, q = randn(3, 7, dtype=dtype), torch.tensor([0.0, 0.3, 0.5, 0.91, 1.0, 0.25], dtype=dtype)
            for mode in ("linear", "lower", "higher", "nearest", "midpoint"):
                model.op(op, x, named={"q": q}, f=lambda x, q: f(x, q, dim=1, interpolation=mode), dim=1, interpolation=mode)
        for q in (0, 0.25, 0.6, 1):
            results += model.op(op, special, f=lambda x: f(x, float(q), dim=1), keys=["input"], q=q, dim=1, shown=False)
        model.op("torch.stack", results, dim=0)
        x = randn(2, 3, 4)
        model.op(op, x, f=lambda x: f(x, 0.4), keys=["input"], q=0.4)
        model.op(op, x, f=lambda x: f(x, 0.4, keepdim=True), keys=["input"], q=0.4, dim=None, keepdim=True)
        model.op(op, x, named={"q": torch.tensor(0.7)}, f=lambda x, q: f(x, q, dim=0, keepdim=True), dim=0, keepdim=True)
        model.op(op, x, named={"q": torch.tensor([0.2, 0.7])}, f=lambda x, q: f(x, q, dim=-2, keepdim=True), dim=-2, keepdim=True)
        model.op(op, torch.tensor(2.0), named={"q": torch.tensor([0.2, 0.7])}, f=lambda x, q: f(x, q, dim=0), dim=0)


@exported
def quantiles_of_any_size() -> Export:
    """Dynamic thresholds, as samplers of diffusion models use them, and quantiles that depend on a size."""
    class Net(nn.Module):
        def forward(self, x):
            limit = torch.quantile(x.abs().flatten(1), 0.9, dim=1).clamp(min=1.0)[:, None]
            several = torch.quantile(x, torch.tensor([0.25, 0.5]), dim=1, keepdim=True, interpolation="nearest")
            return x.clamp(-limit, limit) / limit, several, torch.nanquantile(x, 1 / x.shape[0]), x.nanquantile(x[0, 0].sigmoid(), dim=0)
    return Export(Net(), randn(2, 8) * 2, others=[(randn(3, 5),), (randn(1, 1),)])


@direct(double=1e-6)
def aten_gradient(model: Model) -> None:
    def call(*args: torch.Tensor, f=torch.gradient, **params) -> None:
        model.op("aten::gradient", *args, f=f, keys=["input", "spacing"][:len(args)] + [None] * (len(args) - 2), **params)
    for dtype in [*FLOATS, torch.float16, torch.int64, torch.int8]:
        call((randn(5) * 4).to(dtype))
    x, places, rows = randn(3, 4), torch.tensor([0.0, 0.5, 2.0, 2.5]), torch.tensor([1.0, 3.0, 4.0], dtype=torch.float64)
    call(x, f=lambda x: torch.gradient(x, spacing=0.5, edge_order=2), spacing=0.5, edge_order=2)
    call(x, f=lambda x: torch.gradient(x, spacing=(0.5, 2.0)), spacing=(0.5, 2.0))
    call(x, f=lambda x: torch.gradient(x, dim=(1, 0)), dim=(1, 0))
    call(x, f=lambda x: torch.gradient(x, spacing=-2, dim=-1), spacing=-2, dim=-1)
    call(x, rows, places, f=lambda x, a, b: torch.gradient(x, spacing=(a, b)))
    call(x, places, f=lambda x, a: torch.gradient(x, spacing=(a,), dim=1, edge_order=2), dim=1, edge_order=2)
    call(torch.tensor([1, 4, 9]), torch.tensor([0, 1, 3]), f=lambda x, a: torch.gradient(x, spacing=(a,)))
    call(torch.tensor([1.0, INF, 3.0, 4.0, float("nan"), 6.0]))
    call(randn(0, 2), f=lambda x: torch.gradient(x, dim=1), dim=1)


@exported
def gradients() -> Export:
    class Net(nn.Module):
        def forward(self, x, places):
            return (*torch.gradient(x), *torch.gradient(x, spacing=2.0, dim=1, edge_order=2), *torch.gradient(x, dim=(1, 0)), *torch.gradient(x, spacing=1 / x.shape[1]),
                    *torch.gradient(x, spacing=(places,), dim=1), *torch.gradient(x, spacing=(torch.arange(3.0), places)), torch.stack(torch.gradient(x)))
    return Export(Net(), randn(3, 4), torch.tensor([0.0, 1.0, 1.5, 4.0]))


@exported
def gradients_of_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return *torch.gradient(x, spacing=1 / x.shape[1]), torch.gradient(x, spacing=(x[0].cumsum(0),), dim=1)[0]
    return Export(Net(), randn(3, 4).abs(), others=[(randn(2, 5).abs(),)])
