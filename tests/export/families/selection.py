"""Choosing values: clamp, where, masks."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import FLOATS, INTEGERS, randn, random_integers


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
    model.op("torch.clamp", torch.tensor([float("nan"), float("inf"), -0.0]), min=-1.0, max=1.0)
    # The upper bound wins.
    model.op("torch.clamp", randn(5), min=2, max=-2)
    x, low, high = randn(2, 3), randn(3), randn(2, 1)
    model.op("torch.clamp", x, named={"min": low, "max": high})


@exported
def clamp_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, low):
            return torch.clamp(x, low), x.clamp(max=0.5), x.clamp_min(-0.25)
    return Export(Net(), randn(1, 3, 4), randn(4), others=[(randn(1, 5, 4), randn(4)), (randn(1, 1, 4), randn(4))])
