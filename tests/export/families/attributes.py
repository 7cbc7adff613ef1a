"""Constants: weights of all types, numbers, filled tensors, and conversions."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, FLOATS, randn, random_integers, values_of


@direct
def pnnx_Attribute(model: Model) -> None:
    for dtype in ALL:
        data = values_of(dtype, 2, 3)
        model.op("pnnx.Attribute", f=lambda: data, weights={"data": data})
    for shape in ((), (0,), (2, 0, 3), (1, 1, 1, 1, 1, 1, 1, 2)):
        data = randn(*shape)
        model.op("pnnx.Attribute", f=lambda: data, weights={"data": data})
    weight = randn(3, 2)
    stored = model.op("pnnx.Attribute", f=lambda: weight, weights={"data": weight})[0]
    model.op("torch.matmul", randn(2, 3), named={"other": stored})


@direct
def Tensor_fill(model: Model) -> None:
    for dtype in ALL:
        x = values_of(dtype, 2, 2)
        model.op("Tensor.fill", x, f=lambda x: torch.fill(x, 1), value=1)
        model.op("Tensor.new_zeros", x, f=lambda x: x.new_zeros(3), size=[3])
        model.op("Tensor.new_ones", x, f=lambda x: x.new_ones(1, 2), size=[1, 2])
        model.op("Tensor.new_full", x, f=lambda x: x.new_full((2,), 3), size=[2], fill_value=3)
    x = randn(2, 3)
    model.op("Tensor.fill", x, f=lambda x: torch.fill(x, 0.22), value=0.22)
    model.op("Tensor.fill", x, torch.tensor(2.5), f=torch.fill, keys=["input", "value"])
    model.op("Tensor.fill", random_integers(3), torch.tensor(2.5), f=torch.fill, keys=["input", "value"])
    model.op("Tensor.new_zeros", x, f=lambda x: x.new_zeros(0, 2), size=[0, 2])
    model.op("Tensor.new_ones", x, f=lambda x: x.new_ones(2, dtype=torch.int32), size=[2], dtype=torch.int32)
    model.op("Tensor.new_full", x, f=lambda x: x.new_full((2,), 1.5, dtype=torch.float64), size=[2], fill_value=1.5, dtype=torch.float64)
    sizes = model.op("pnnx.Expression", x, f=lambda x: torch.tensor(x.shape), expr="[size(@0,0),size(@0,1)]")[0]
    model.op("Tensor.new_zeros", x, sizes, f=lambda x, size: x.new_zeros(size.tolist()), keys=["input", "size"])


@direct
def Tensor_to(model: Model) -> None:
    x = torch.tensor([-2.5, -0.5, 0.0, 0.4, 1.5, 3.7])
    for dtype in ALL:
        if dtype != torch.uint8:
            model.op("Tensor.to", x, f=lambda x: x.to(dtype), copy=False, dtype=dtype, non_blocking=False)
        model.op("Tensor.to", values_of(dtype, 4), f=lambda x: x.to(torch.bool), copy=True, dtype=torch.bool)
        model.op("Tensor.type_as", random_integers(3, high=5), named={"other": values_of(dtype, 1)})
    model.op("Tensor.to", randn(1, 2, 2, 2), f=lambda x: x.to(torch.float64), copy=False, dtype=torch.float64,
             memory_format=torch.preserve_format, non_blocking=True)
    model.op("Tensor.to", randn(0, 2), f=lambda x: x.to(torch.float16), copy=False, dtype=torch.float16)


@exported
def constants() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(randn(2, 3))
            self.scale = nn.Parameter(torch.tensor(1.5))
            self.register_buffer("steps", torch.arange(3))
            self.register_buffer("mask", torch.tensor([True, False, True]))
            self.register_buffer("wide", randn(3, dtype=torch.float64))
            self.register_buffer("halves", randn(3, dtype=torch.float16))

        def forward(self, x):
            return (
                x * self.weight + self.scale, self.steps, x[:, self.steps], x[:, self.mask], self.wide * x, self.halves.float() + x,
                torch.tensor([1.0, 2.0, 3.0]) * x, x.new_zeros(2), x.new_full((2, 3), 4.0) + x, torch.ones_like(x) * 2, torch.eye(3),
                torch.zeros(2, 3, dtype=torch.int64) + x.long(), x.to(torch.int32), x.double(), x.bool(), x.type_as(self.steps),
                x.clone().fill_(2), torch.arange(0, 3) + self.steps, torch.linspace(0, 1, 5), torch.tensor(3),
                x.int() // 2, (x > 0).float(), x.to(self.wide), x.new_ones(x.shape[1], x.shape[0]),
            )
    return Export(Net(), randn(2, 3))


@exported
def created_at_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            b, n = x.shape
            steps = torch.arange(n)
            return (
                steps, torch.arange(1, n + 1, dtype=torch.float32), torch.zeros(b, n) + x, x.new_ones(n, b), torch.full((b, 2), 0.5),
                torch.zeros_like(x), torch.ones(b * n, dtype=torch.int64), steps.float() / n, x / (n ** 0.5), x.sum(1) / n, x * (n - 1),
                torch.arange(0, n, 2), torch.arange(n - 1, -1, -1), x.new_zeros(b, 1), x + x.size(0), x.new_full((n,), 2.0), steps[None] + x.long(),
                torch.empty(b, n).fill_(2.0), x[:, : n // 2 + 1] * (b + n * 2),
            )
    return Export(Net(), randn(2, 4), others=[(randn(3, 5),), (randn(1, 2),), (randn(4, 7),)])
