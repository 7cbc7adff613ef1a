"""Random numbers: only shapes and types can be compared."""

import torch
import torch.nn.functional as F
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


@exported
def draws_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            p, n = torch.sigmoid(x), x.size(0)
            return (torch.rand(n, 4), torch.randint(3, 9, (n, 5)), torch.randint(7, (2, n)), torch.randperm(n), torch.bernoulli(p), torch.bernoulli(x, 0.3),
                    torch.multinomial(p, 2), torch.multinomial(p, 6, True), torch.randint_like(x, 2, 9), torch.randint_like(x, 9), x.clone().uniform_(2, 3),
                    x.clone().exponential_(2.0), x.clone().bernoulli_(0.25), torch.poisson(p * 3), x.clone().cauchy_(), x.clone().geometric_(0.5),
                    x.clone().log_normal_(0.1, 0.2), F.rrelu(x, training=True))
    return Export(Net(), randn(2, 3), others=[(randn(5, 3),)], values=False)
