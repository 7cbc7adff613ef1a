"""Choosing values: clamp, where, masks."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, FLOATS, INF, INTEGERS, NAN, randn, random_bools, random_integers, special, values_of

SHAPES = [(), (1,), (0,), (2, 0), (2, 1, 3), (1, 2, 1, 2, 1, 1, 1, 2)]


@direct
def torch_clamp(model: Model) -> None:
    for dtype in FLOATS:
        x = randn(2, 3, dtype=dtype)
        for name in ("torch.clamp", "torch.clip", "Tensor.clamp"):
            model.op(name, x, min=-0.5, max=None)
            model.op(name, x, min=-0.5, max=1)
    for dtype in INTEGERS:
        model.op("torch.clamp", random_integers(4, dtype=dtype), min=1, max=3)
    nothing = randn(0, 3)
    model.op("torch.clamp", nothing, min=None, max=0.0)
    model.op("torch.clamp", torch.tensor([NAN, INF, -0.0]), min=-1.0, max=1.0)
    # The upper bound wins.
    model.op("torch.clamp", randn(5), min=2, max=-2)
    x, low, high = randn(2, 3), randn(3), randn(2, 1)
    model.op("torch.clamp", x, named={"min": low, "max": high})


@direct
def torch_clamp_odd(model: Model) -> None:
    for dtype in (torch.float32, torch.float16):
        model.op("torch.clamp", special(dtype), min=-1, max=2.5)
        model.op("torch.clamp", special(dtype), min=-INF, max=INF)
    model.op("torch.clamp", special(), min=NAN, max=None)
    # A NaN among the bounds wins too; so does that of the input.
    odd = torch.tensor([NAN, 0.0, INF, -INF])
    model.op("torch.clamp", odd.reshape(-1, 1), named={"min": odd.clone()})
    model.op("torch.clamp", odd.reshape(-1, 1), named={"max": odd.clone()})
    # Bounds of a wider kind make the result one of it.
    model.op("torch.clamp", random_integers(4), min=1.5, max=None)
    model.op("torch.clamp", torch.tensor([1, 200], dtype=torch.uint8), min=None, max=99.5)
    model.op("torch.clamp", random_integers(4, dtype=torch.int32), named={"min": torch.tensor([2]), "max": torch.tensor([5.0])})
    model.op("torch.clamp", randn(4, dtype=torch.float16), named={"max": torch.tensor([0.1, 0.2, 0.3, 0.4])})
    model.op("torch.clamp", randn(4), named={"min": torch.tensor(0.25, dtype=torch.float64)})
    model.op("torch.clamp", torch.tensor([-2**63, 0, 2**63 - 1]), min=-2**62, max=2**62)
    for shape in SHAPES:
        model.op("torch.clamp", randn(*shape), min=0, max=0.5)


@direct
def torch_where(model: Model) -> None:
    condition = random_bools(2, 3)
    for dtype in ALL:
        model.op("torch.where", condition, values_of(dtype, 2, 3), values_of(dtype, 3), keys=["condition", "input", "other"])
    for shape in SHAPES:
        model.op("torch.where", random_bools(*shape), randn(*shape), randn(*shape), keys=["condition", "input", "other"])
    model.op("torch.where", random_bools(2, 1, 1), randn(3, 1), randn(4), keys=["condition", "input", "other"])
    model.op("torch.where", random_bools(3), torch.tensor(2.0), torch.tensor([NAN, INF, -INF]), keys=["condition", "input", "other"])


@direct
def torch_where_promotion(model: Model) -> None:
    condition = random_bools(4)
    pairs = [(torch.float32, torch.float64), (torch.int64, torch.float16), (torch.uint8, torch.int8), (torch.bool, torch.int32),
             (torch.complex64, torch.float64), (torch.bfloat16, torch.float16)]
    for first, second in pairs:
        model.op("torch.where", condition, values_of(first, 4), values_of(second, 4), keys=["condition", "input", "other"])
    model.op("torch.where", condition, randn(4), torch.tensor(0.1, dtype=torch.float64), keys=["condition", "input", "other"])
    for dtype in (torch.float32, torch.float16, torch.int32, torch.uint8, torch.bool, torch.complex64):
        x = values_of(dtype, 4)
        for number in (2, 0.5, True):
            model.op("torch.where", condition, x, f=lambda c, x: torch.where(c, x, number), keys=["condition", "input"], other=number)
            model.op("torch.where", condition, x, f=lambda c, x: torch.where(c, number, x), keys=["condition", "other"], input=number)
    for first, second in ((1.0, 0.0), (1, 0), (True, False), (1, 0.5), (INF, -INF)):
        model.op("torch.where", condition, f=lambda c: torch.where(c, first, second), keys=["condition"], input=first, other=second)


@direct
def tensor_masked_fill(model: Model) -> None:
    mask = random_bools(2, 3)
    for dtype in ALL:
        x = values_of(dtype, 2, 3)
        for value in (1, 2.5):
            if dtype.is_floating_point or dtype.is_complex or value != 2.5:
                model.op("Tensor.masked_fill", x, mask, keys=["input", "mask"], value=value)
        model.op("torch.masked_fill", x, mask, values_of(dtype), keys=["input", "mask", "value"])


@direct
def tensor_masked_fill_odd(model: Model) -> None:
    for value in (INF, -INF, NAN, -3.4028234663852886e38, 0.0):
        model.op("Tensor.masked_fill", randn(4), random_bools(4), keys=["input", "mask"], value=value)
    model.op("Tensor.masked_fill", randn(4, dtype=torch.float16), random_bools(4), keys=["input", "mask"], value=-INF)
    model.op("Tensor.masked_fill", randn(4, dtype=torch.float16), random_bools(4), keys=["input", "mask"], value=-65504.0)
    model.op("Tensor.masked_fill", random_integers(4), random_bools(4), keys=["input", "mask"], value=2**40)
    # Both are broadcast.
    model.op("Tensor.masked_fill", randn(3, 1), random_bools(2, 1, 4), keys=["input", "mask"], value=7)
    model.op("Tensor.masked_fill", randn(2, 3, 4), random_bools(4), keys=["input", "mask"], value=7)
    model.op("Tensor.masked_fill", randn(2), random_bools(2), torch.tensor(3), keys=["input", "mask", "value"])
    model.op("Tensor.masked_fill", randn(2), random_bools(2), torch.tensor(3.7, dtype=torch.float64), keys=["input", "mask", "value"])
    for shape in SHAPES:
        model.op("Tensor.masked_fill", randn(*shape), random_bools(*shape), keys=["input", "mask"], value=-1)


@direct
def torch_masked_select(model: Model) -> None:
    for dtype in ALL:
        model.op("torch.masked_select", values_of(dtype, 2, 3), random_bools(2, 3), keys=["input", "mask"])
    model.op("torch.masked_select", randn(2, 1, 3), random_bools(4, 1), keys=["input", "mask"])
    model.op("torch.masked_select", randn(3), torch.zeros(3, dtype=torch.bool), keys=["input", "mask"])
    model.op("torch.masked_select", torch.tensor(2.5), torch.tensor(True), keys=["input", "mask"])
    model.op("torch.masked_select", torch.tensor(2.5), random_bools(5), keys=["input", "mask"])
    for shape in SHAPES[2:]:
        model.op("torch.masked_select", randn(*shape), random_bools(*shape), keys=["input", "mask"])


@exported
def clamp_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, low):
            return torch.clamp(x, low), x.clamp(max=0.5), x.clamp_min(-0.25)
    return Export(Net(), randn(1, 3, 4), randn(4), others=[(randn(1, 5, 4), randn(4)), (randn(1, 1, 4), randn(4))])


@exported
def clamps_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, i):
            return (torch.clamp(x, -0.5, 0.5), torch.clip(x, min=0.1), x.clamp(max=1), torch.clamp(x, 0, 1), i.clamp(0, 3), i.clamp(min=2),
                    torch.clamp_max(x, 0.3), x.clamp_min(0))
    return Export(Net(), randn(2, 3), random_integers(2, 3, low=-9, high=9))


@exported
def masks_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            mask = x > 0
            return (torch.where(mask, x, y), torch.where(mask, x, 0.0), torch.where(mask, 1.0, x), torch.where(x > y, x, y * 2),
                    x.masked_fill(mask, 2), x.masked_fill(~mask, float("-inf")), x.masked_fill(y > 0, torch.finfo(torch.float32).min),
                    torch.masked_fill(x, mask, 0.5), torch.masked_select(x, mask), torch.where(mask, x, torch.tensor(0.5)))
    return Export(Net(), randn(2, 3), randn(3), others=[(randn(4, 3), randn(3)), (randn(1, 3), randn(3))])
