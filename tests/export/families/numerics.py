"""The numerical guarantees: sums of many elements, half precision, accuracy compared with f64.

The tensors are large but created inside the model, and PyTorch computes the expected values in f64.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from case import Model, direct
from formula import UNARY, evaluate, expression
from values import INF, NAN, rand, randn

MILLION = 1_000_000


def full(model: Model, size: list[int], value: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return model.op("torch.full", size=size, fill_value=value, dtype=dtype, shown=False)[0]


def waves(model: Model, count: int) -> Tensor:
    """`count` numbers between 0 and 1 that look as if they were random: fractions of multiples of the golden ratio."""
    places = model.op("torch.arange", end=count, dtype=torch.float64, shown=False)[0]
    turns = expression(model, "remainder(mul(@0,0.618033989),1.0)", places, shown=False)
    return expression(model, "torch.float(@0)", turns, shown=False)


def double(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function in f64, rounded to the type of its input once."""
    return lambda x, *rest: function(x.double(), *[other.double() for other in rest]).to(x.dtype)


@direct(tolerance=1e-6)
def numerics_sums(model: Model) -> None:
    # A running sum in f32 makes 1,087,937 of ten million tenths, and stays at 2²⁴ (under 17 million) when it adds ones.
    tenths, ones = full(model, [10 * MILLION], 0.1), full(model, [17 * MILLION], 1.0)
    for x in (tenths, ones, waves(model, MILLION)):
        model.op("torch.sum", x, f=double(torch.sum))
        model.op("torch.mean", x, f=double(torch.mean))
        model.op("torch.norm", x, f=double(torch.norm), p=2)
        model.op("torch.norm", x, f=double(lambda x: torch.norm(x, p=1)), p=1)
    rows = model.op("Tensor.reshape", waves(model, MILLION), shape=[4, -1], shown=False)[0]
    model.op("torch.sum", rows, f=double(lambda x: x.sum(1)), dim=[1], keepdim=False)
    columns = model.op("torch.transpose", rows, dim0=0, dim1=1, shown=False)[0]
    model.op("torch.mean", columns, f=double(lambda x: x.mean(0)), dim=[0], keepdim=False)


@direct(tolerance=1e-6)
def numerics_spreads(model: Model) -> None:
    # The mean is ten thousand times the deviation: a sum of squares less the square of the sum would leave nothing.
    x = expression(model, "add(@0,10000.0)", waves(model, MILLION), shown=False)
    for correction in (0, 1):
        model.op("torch.var", x, f=double(lambda x: x.var(correction=correction)), correction=correction)
        model.op("torch.std", x, f=double(lambda x: x.std(correction=correction)), correction=correction)
    model.op("torch.logsumexp", x, f=double(lambda x: x.logsumexp(0)), dim=[0], keepdim=False)


@direct(tolerance=1e-6)
def numerics_softmax(model: Model) -> None:
    # Of a million equal numbers each has a millionth; of large ones there is no overflow.
    x = expression(model, "mul(@0,1000.0)", waves(model, MILLION), shown=False)
    soft = model.op("F.softmax", x, f=double(lambda x: F.softmax(x, 0)), dim=0, shown=False)[0]
    model.op("torch.sum", soft, f=double(torch.sum))
    model.op("torch.amax", soft, dim=[0])
    logarithms = model.op("F.log_softmax", x, f=double(lambda x: F.log_softmax(x, 0)), dim=0, shown=False)[0]
    model.op("torch.mean", logarithms, f=double(torch.mean))


@direct(tolerance=1e-4)
def numerics_normalization(model: Model) -> None:
    rows = model.op("Tensor.reshape", waves(model, MILLION), shape=[2, -1], shown=False)[0]
    x = expression(model, "add(@0,100.0)", rows, shown=False)
    length = MILLION // 2
    for op, function, params in (
        ("F.layer_norm", lambda x: F.layer_norm(x, [length]), {"normalized_shape": [length], "eps": 1e-5}),
        ("F.rms_norm", lambda x: F.rms_norm(x, [length], eps=1e-5), {"normalized_shape": [length], "eps": 1e-5}),
    ):
        y = model.op(op, x, f=double(function), shown=False, **params)[0]
        model.op("torch.amax", y, dim=[1])
        model.op("torch.amin", y, dim=[1])


@direct(tolerance=1e-6)
def numerics_scans(model: Model) -> None:
    x = full(model, [MILLION], 0.1)
    sums = model.op("torch.cumsum", x, f=double(lambda x: x.cumsum(0)), dim=0, shown=False)[0]
    model.op("torch.amax", sums, dim=[0])
    product = full(model, [MILLION], 1.000001)
    products = model.op("torch.cumprod", product, f=double(lambda x: x.cumprod(0)), dim=0, shown=False)[0]
    model.op("torch.amax", products, dim=[0])


@direct(tolerance=1e-3)
def numerics_halves(model: Model) -> None:
    # A running sum in f16 would stay at 2048, one in bf16 at 256.
    for dtype in (torch.float16, torch.bfloat16):
        ones = full(model, [50_000], 1.0, dtype)
        x = model.op("Tensor.to", waves(model, 20_000), f=lambda x: x.to(dtype), copy=False, dtype=dtype, shown=False)[0]
        model.op("torch.sum", ones, f=double(torch.sum))
        model.op("torch.mean", ones, f=double(torch.mean))
        for op, function, params in (
            ("torch.sum", torch.sum, {}), ("torch.mean", torch.mean, {}), ("torch.var", torch.var, {}),
            ("torch.norm", torch.norm, {"p": 2}),
            ("torch.logsumexp", lambda x: x.logsumexp(0), {"dim": [0], "keepdim": False}),
        ):
            model.op(op, x, f=double(function), **params)
        soft = model.op("F.softmax", ones, f=double(lambda x: F.softmax(x, 0)), dim=0, shown=False)[0]
        model.op("torch.amax", soft, dim=[0])
        row, column = full(model, [1, 5000], 1.0, dtype), full(model, [5000, 1], 1.0, dtype)
        model.op("torch.matmul", row, column, f=double(torch.matmul))
        normed = model.op("F.layer_norm", x, f=double(lambda x: F.layer_norm(x, [20_000])), normalized_shape=[20_000], shown=False)[0]
        model.op("torch.amax", normed, dim=[0])


@direct
def numerics_integer_sums(model: Model) -> None:
    for dtype in (torch.int32, torch.uint8, torch.int8, torch.bool):
        ones = model.op("torch.ones", size=[3 * MILLION], dtype=dtype, shown=False)[0]
        model.op("torch.sum", ones)
    large = model.op("torch.full", size=[3000], fill_value=2**31 - 1, dtype=torch.int32, shown=False)[0]
    model.op("torch.sum", large)
    model.op("torch.sum", large, dtype=torch.int32)
    counted = model.op("torch.cumsum", large, dim=0, shown=False)[0]
    model.op("torch.amax", counted, dim=[0])


def domains(name: str) -> tuple[float, float]:
    return {"acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1, 50), "log": (1e-3, 100), "log10": (1e-3, 100),
            "log1p": (-0.99, 50), "sqrt": (0, 100), "rsqrt": (1e-3, 100), "reciprocal": (0.01, 10), "exp": (-20, 5), "expm1": (-20, 5),
            "sinh": (-5, 5), "cosh": (-5, 5), "tan": (-1.5, 1.5)}.get(name, (-20, 20))


def accuracy(model: Model, dtype: torch.dtype, skipped: list[str]) -> None:
    for name in UNARY:
        if name in skipped:
            continue
        low, high = domains(name)
        x = rand(40, low=low, high=high, dtype=dtype)
        model.op("pnnx.Expression", x, f=lambda x: evaluate(f"{name}(@0)", (x.double(),)).to(dtype), expr=f"{name}(@0)")


@direct(tolerance=1.5e-7)
def accuracy_of_f32(model: Model) -> None:
    accuracy(model, torch.float32, ["neg", "abs", "sign", "ceil", "floor", "round", "trunc"])


@direct(tolerance=1e-3)
def accuracy_of_f16(model: Model) -> None:
    accuracy(model, torch.float16, ["neg", "abs", "sign", "ceil", "floor", "round", "trunc", "tan"])


@direct
def numerics_nan(model: Model) -> None:
    x = torch.tensor([[1.0, NAN, 3.0, 2.0], [INF, 1.0, -INF, NAN], [NAN, NAN, NAN, NAN], [4.0, 3.0, 2.0, 1.0]])
    for op in ("torch.max", "torch.min"):
        model.op(op, x, dim=1, keepdim=False)
    for op in ("torch.argmax", "torch.argmin", "torch.cumsum", "torch.cumprod"):
        model.op(op, x, dim=1)
    for op in ("torch.amax", "torch.amin", "torch.sum", "torch.mean", "torch.var", "torch.logsumexp"):
        model.op(op, x, dim=[1])
    model.op("torch.norm", x, dim=[1], keepdim=False, p=2)
    model.op("torch.topk", x[:2].contiguous(), k=3, dim=1, largest=True, sorted=True)
    model.op("F.softmax", x, dim=1)
    image = x.reshape(1, 1, 4, 4)
    model.op("F.max_pool2d", image, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1], ceil_mode=False, return_indices=False)
    model.op("F.avg_pool2d", image, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], ceil_mode=False, count_include_pad=True, divisor_override=None)
    model.op("F.adaptive_max_pool2d", image, output_size=[2, 2], return_indices=False)
    model.op("F.relu", x)
    model.op("torch.clamp", x, min=0.0, max=2.0)
    for op in ("torch.eq", "torch.ne", "torch.lt", "torch.ge"):
        model.op(op, x, other=1.0)
    model.op("torch.logical_not", x)
    model.op("Tensor.to", x, f=lambda x: x.bool(), copy=False, dtype=torch.bool)


@direct
def numerics_ties(model: Model) -> None:
    # The first of equal elements, even of 70: PyTorch's own kernels take blocks from some length on.
    for length in (3, 8, 17, 70):
        x = model.op("torch.full", size=[2, length], fill_value=1.5, shown=False)[0]
        for op in ("torch.argmax", "torch.argmin"):
            model.op(op, x, dim=1)
            model.op(op, x)
        for op in ("torch.max", "torch.min"):
            model.op(op, x, dim=1, keepdim=False)
    image = torch.ones(1, 1, 4, 4)
    model.op("F.max_pool2d", image, kernel_size=[2, 2], stride=[2, 2], padding=[1, 1], dilation=[1, 1], ceil_mode=False, return_indices=True)


@direct
def numerics_empty(model: Model) -> None:
    nothing = torch.zeros(2, 0)
    for op in ("torch.sum", "torch.mean", "torch.var", "torch.std", "torch.all", "torch.any", "torch.logsumexp"):
        model.op(op, nothing, dim=[1])
    model.op("torch.prod", nothing, dim=1)
    model.op("torch.norm", nothing, dim=[1], keepdim=False, p=2)
    for op in ("torch.cumsum", "torch.cumprod"):
        model.op(op, nothing, dim=1)
    # No rows are no error, even where a row without elements would be one.
    no_rows = torch.zeros(0, 3)
    for op in ("torch.amax", "torch.amin", "torch.argmax", "torch.argmin"):
        model.op(op, no_rows, dim=1)
    model.op("torch.max", no_rows, dim=1, keepdim=False)
    model.op("F.softmax", nothing, dim=1)
    model.op("torch.matmul", torch.zeros(2, 0), torch.zeros(0, 3))
