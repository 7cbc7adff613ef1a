"""Modules for exported cases."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from case import Export, exported


class Each(nn.Module):
    """Several modules or functions; every one gets all inputs, and the results come in their order."""

    def __init__(self, *parts: Callable):
        super().__init__()
        self.parts = parts
        self.owned = nn.ModuleList(part for part in parts if isinstance(part, nn.Module))

    def forward(self, *inputs: Tensor):
        results = tuple(part(*inputs) for part in self.parts)
        return results if len(results) > 1 else results[0]


class Zipped(Each):
    """Several modules or functions; each gets the input of its position."""

    def forward(self, *inputs: Tensor):
        return tuple(part(x) for part, x in zip(self.parts, inputs, strict=True))


def scrambled(module: nn.Module) -> nn.Module:
    """The module with random weights and statistics; the initial values 0 and 1 would hide bugs."""
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if not tensor.is_floating_point():
                continue
            tensor.copy_(torch.randn(tensor.shape) * 0.5)
            if name.endswith("var"):
                tensor.abs_().add_(0.25)
    return module.eval()


def export_each(name: str, make: Callable[[], Export]) -> None:
    """Registers an exported case whose name is computed."""
    make.__name__ = name
    exported(make)
