"""Random numbers: only shapes and types can be compared."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import randn


@direct(values=False)
def torch_randn(model: Model) -> None:
    for dtype in (torch.float32, torch.float64, torch.float16):
        model.op("torch.randn", f=lambda: torch.randn(2, 3, dtype=dtype), size=(2, 3), dtype=dtype)
    x = randn(2, 0, 3)
    model.op("torch.randn_like", x, keys=["input"])
    model.op("torch.randn_like", x, keys=["input"], dtype=torch.float64)
    model.op("torch.normal", randn(4), f=lambda x: torch.empty_like(x).normal_(1, 2), mean=1, std=2.0)
    model.op("torch.normal", randn(2, 3, dtype=torch.float64), f=lambda x: torch.empty_like(x).normal_(),
             generator=None, mean=0.0, std=0.0)


@exported
def noise_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            y = x + torch.randn_like(x)
            return y + torch.randn(x.size(0), 1, 4), x.clone().normal_(0.5, 2.0)
    return Export(Net(), randn(2, 3, 4), others=[(randn(5, 3, 4),), (randn(1, 2, 4),)], values=False)
