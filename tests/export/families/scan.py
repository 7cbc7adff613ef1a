"""Sums and products of all elements so far."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, INF, NAN, randn, random_bools, random_integers, values_of


def scans(model: Model, op: str) -> None:
    for dtype in ALL:
        model.op(op, values_of(dtype, 2, 4), dim=1)
    for dim in (0, 1, 2, -1, -3):
        model.op(op, randn(2, 3, 2), dim=dim)
    for dtype in (torch.float64, torch.float16, torch.int32, torch.int8, torch.complex64):
        model.op(op, random_integers(2, 5, low=1, high=6), dim=1, dtype=dtype)
    model.op(op, random_bools(6), dim=0, dtype=torch.float32)
    model.op(op, torch.tensor([1.0, 2.0, NAN, 3.0]), dim=0)
    model.op(op, torch.tensor([1.0, INF, -INF, 3.0]), dim=0)
    model.op(op, torch.tensor([0.0, INF, -0.0]), dim=0)
    model.op(op, torch.tensor([100, 100, 100], dtype=torch.int8), dim=0)
    model.op(op, torch.full((3,), 2**62), dim=0)
    model.op(op, torch.tensor(2.5), dim=0)
    model.op(op, torch.tensor(3), dim=-1)
    for shape in ((0,), (2, 0), (0, 3)):
        model.op(op, randn(*shape), dim=-1)
    model.op(op, randn(1, 2, 1, 2, 1, 1, 1, 3), dim=-1)
    model.op(op, torch.full((40,), 1.001, dtype=torch.float16), dim=0)
    model.op(op, torch.full((40,), 1.01, dtype=torch.bfloat16), dim=0)


@direct
def torch_cumsum(model: Model) -> None:
    scans(model, "torch.cumsum")


@direct
def torch_cumprod(model: Model) -> None:
    scans(model, "torch.cumprod")


@exported
def scans_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return (torch.cumsum(x, 0), x.cumsum(-1), torch.cumprod(x, 1), x.cumprod(-3), (x > 0).cumsum(1),
                    x.cumsum(1, dtype=torch.float64))
    return Export(Net(), randn(2, 3, 4), others=[(randn(1, 5, 2),), (randn(3, 1, 1),)])
