"""Tensors of given and counted values."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, COMPLEX, FLOATS, INF, INTEGERS, NAN, randn, random_integers, values_of

SIZES = [[], [1], [0], [2, 0, 3], [2, 3], [1, 2, 1, 2, 1, 1, 1, 2]]


def of_a_size(model: Model, op: str, **params) -> None:
    for size in SIZES:
        model.op(op, size=size, **params)
    for dtype in [None, *ALL]:
        model.op(op, size=[2], dtype=dtype, **params)
    for sizes in ([2, 3], [0], [4]):
        model.op(op, torch.tensor(sizes), f=lambda s: getattr(torch, op.split(".")[1])(s.tolist(), **params), keys=["size"], **params)


@direct
def torch_zeros(model: Model) -> None:
    of_a_size(model, "torch.zeros")


@direct
def torch_ones(model: Model) -> None:
    of_a_size(model, "torch.ones")


@direct
def torch_full(model: Model) -> None:
    of_a_size(model, "torch.full", fill_value=2)
    for value in (2.5, -1, True, 0, 1e30, INF, -INF, NAN, 1.5 - 2j):
        model.op("torch.full", size=[2], fill_value=value, f=lambda: torch.full([2], value))
    for dtype, value in ((torch.int32, 2.7), (torch.int32, -2.7), (torch.bool, 0.5), (torch.float16, 6e4), (torch.bfloat16, 0.1),
                         (torch.float64, 0.1), (torch.complex64, 2.5), (torch.uint8, 255), (torch.int8, -128), (torch.float32, True),
                         (torch.int64, 2**40)):
        model.op("torch.full", size=[2], fill_value=value, dtype=dtype)


@direct(values=False)
def torch_empty(model: Model) -> None:
    of_a_size(model, "torch.empty")


def like(model: Model, op: str, **params) -> None:
    for dtype in ALL:
        model.op(op, values_of(dtype, 2), **params)
    for size in SIZES:
        model.op(op, randn(*size), **params)
    x = randn(2)
    for dtype in [None, *ALL]:
        model.op(op, x, dtype=dtype, **params)
    name = op.split(".")[1]
    model.op(op, x, f=lambda x: getattr(torch, name)(x, **params), memory_format="torch.preserve_format", **params)


@direct
def torch_zeros_like(model: Model) -> None:
    like(model, "torch.zeros_like")


@direct
def torch_ones_like(model: Model) -> None:
    like(model, "torch.ones_like")


@direct(values=False)
def torch_empty_like(model: Model) -> None:
    like(model, "torch.empty_like")


@direct
def torch_full_like(model: Model) -> None:
    like(model, "torch.full_like", fill_value=1)
    for dtype in (torch.int32, torch.bool, torch.float16, torch.uint8, torch.complex64):
        for value in (2.7, True, 0):
            model.op("torch.full_like", values_of(dtype, 2), fill_value=value)
    model.op("torch.full_like", randn(2), fill_value=INF)


def of_another(model: Model, name: str, **params) -> None:
    op = f"Tensor.{name}"
    for dtype in (torch.float64, torch.int32, torch.bool, torch.complex64):
        model.op(op, values_of(dtype, 1), size=[2], **params)
    x = randn(2, 3)
    for size in SIZES:
        model.op(op, x, size=size, **params)
    for dtype in [None, *ALL]:
        model.op(op, x, size=[2], dtype=dtype, **params)


@direct
def tensor_new_zeros(model: Model) -> None:
    of_another(model, "new_zeros")


@direct
def tensor_new_ones(model: Model) -> None:
    of_another(model, "new_ones")


@direct(values=False)
def tensor_new_empty(model: Model) -> None:
    of_another(model, "new_empty")


@direct
def tensor_new_full(model: Model) -> None:
    of_another(model, "new_full", fill_value=3)
    for value in (2.5, True, INF, -1e30):
        model.op("Tensor.new_full", randn(1), size=[2], fill_value=value)
    model.op("Tensor.new_full", random_integers(1), size=[2], fill_value=2.7)


def filled(x, value):
    return x.clone().fill_(value)


@direct
def tensor_fill(model: Model) -> None:
    for dtype in ALL:
        model.op("Tensor.fill", values_of(dtype, 2), f=lambda x: filled(x, 7), value=7)
        model.op("Tensor.fill", values_of(dtype, 2), torch.tensor(3), f=filled, keys=["input", "value"])
    for value in (0.22, -1.5, True, INF, NAN):
        model.op("Tensor.fill", randn(2), f=lambda x: filled(x, value), value=value)
    model.op("Tensor.fill", random_integers(2), f=lambda x: filled(x, 2.7), value=2.7)
    model.op("Tensor.fill", random_integers(2), torch.tensor(2.7), f=filled, keys=["input", "value"])
    model.op("Tensor.fill", torch.zeros(2, dtype=torch.bool), f=lambda x: filled(x, 0.5), value=0.5)
    model.op("Tensor.fill", randn(2), torch.tensor(2.5, dtype=torch.float64), f=filled, keys=["input", "value"])
    for size in SIZES:
        model.op("Tensor.fill", randn(*size), f=lambda x: filled(x, 7), value=7)


@direct
def torch_arange(model: Model) -> None:
    for arguments in ({"end": 5}, {"end": 2.5}, {"end": 0}, {"start": 2, "end": 7}, {"start": 2, "end": 7, "step": 2},
                      {"start": 7, "end": 2, "step": -2}, {"start": 0, "end": 1, "step": 0.1}, {"start": 1, "end": 2.5, "step": 0.5},
                      {"start": -3, "end": 3}, {"start": 0.5, "end": 3}, {"start": 3, "end": 3}, {"start": 1.5, "end": -1, "step": -0.75},
                      {"start": 2**40, "end": 2**40 + 3}):
        model.op("torch.arange", f=lambda: torch.arange(**arguments), **arguments)
        model.op("torch.arange", f=lambda: torch.arange(**arguments), **{"dtype": None} | arguments)
    for dtype in FLOATS + INTEGERS:
        model.op("torch.arange", start=1, end=6, step=2, dtype=dtype)
        model.op("torch.arange", end=4, dtype=dtype)
    model.op("torch.arange", start=0.5, end=4, step=1.5, dtype=torch.int64)
    model.op("torch.arange", start=0, end=1, step=0.125, dtype=torch.float16)
    model.op("torch.arange", torch.tensor(4), f=lambda end: torch.arange(end), keys=["end"])
    model.op("torch.arange", torch.tensor(1), torch.tensor(9), torch.tensor(3), f=torch.arange, keys=["start", "end", "step"])
    model.op("torch.arange", torch.tensor(2.5), f=lambda end: torch.arange(end), keys=["end"])
    model.op("torch.arange", torch.tensor(4), f=lambda end: torch.arange(end, dtype=torch.float32), keys=["end"], dtype=torch.float32)


@exported
def creation_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            n, c, w = x.shape
            return (torch.zeros(n, c), torch.ones(c, 2), torch.full((n, 3), 0.5), torch.full((2, w), 7), torch.arange(w), torch.arange(n, n + c),
                    torch.arange(0, w, 2), torch.arange(w, dtype=torch.float32), torch.zeros_like(x), torch.ones_like(x),
                    torch.full_like(x, 2), x.new_zeros(c, 2), x.new_ones(n), x.new_full((w, 1), -1.5), x.clone().fill_(3),
                    torch.zeros(n, dtype=torch.long), x.new_zeros(c, dtype=torch.int32), torch.ones_like(x, dtype=torch.bool))
    return Export(Net(), randn(2, 3, 4), others=[(randn(1, 5, 6),), (randn(3, 1, 1),)])


@exported
def positions_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            length = x.shape[1]
            positions = torch.arange(length)
            causal = positions[None, :] <= positions[:, None]
            return x + positions[None, :, None], x.masked_fill((positions % 2 == 0)[None, :, None], 0.0), causal
    return Export(Net(), randn(1, 3, 2), others=[(randn(2, 5, 2),), (randn(1, 1, 2),)])


@exported
def constants_of_a_network() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(randn(3))
            self.register_buffer("mask", torch.tensor([True, False, True]))
            self.register_buffer("scale", torch.tensor(0.5))

        def forward(self, x):
            return (torch.zeros(2, 3) + x, torch.ones(3) * x, torch.full((3,), 2.5) - x, torch.arange(3) * x, x * self.table,
                    torch.where(self.mask, x, self.scale), torch.empty_like(x).fill_(1) + x, torch.tensor([1.0, 2.0, 3.0]) * x)
    return Export(Net(), randn(2, 3))
