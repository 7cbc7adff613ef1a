"""The entries of the network tables: suitable random weights, and a wrapper that PyTorch can trace."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from unittest import mock

import torch
from torch import Tensor, nn

from random_weights import calibrate, fill


@dataclass(frozen=True)
class Network:
    """An entry of a table: how to build a network, and what to feed it."""

    build: Callable[[], nn.Module]
    """Builds it, from a configuration, with any weights."""
    inputs: Callable[..., list[Tensor]]
    """Makes its inputs for one of `sizes`."""
    sizes: tuple[tuple[int, ...], ...]
    """The size to export with. With more, what differs between the first two is dynamic, and each is a set of arrays."""
    random: bool = True
    """Whether all weights are drawn anew by `strengthen`."""
    patches: tuple[tuple[object, str, object], ...] = ()
    """Objects, names and what stands there during export: the same by other operators, where PNNX fails at the real one."""

    def patched(self) -> ExitStack:
        """The context of an export."""
        stack = ExitStack()
        for target, name, replacement in self.patches:
            stack.enter_context(mock.patch.object(target, name, replacement))
        return stack


class Outputs(nn.Module):
    """A network of transformers with inputs by position and, as a tuple of tensors, the outputs that are named."""

    def __init__(self, network: nn.Module, inputs: str, outputs: str, **fixed):
        super().__init__()
        self.network, self.inputs, self.outputs, self.fixed = network, inputs.split(), outputs.split(), fixed

    def forward(self, *tensors: Tensor):
        result = self.network(**dict(zip(self.inputs, tensors, strict=True)), **self.fixed)
        found = tuple(result[name] for name in self.outputs)
        return found if len(found) > 1 else found[0]


def strengthen(network: nn.Module) -> None:
    """Draws weights so large that every part matters: attention is selective, gates open and close, no branch is near zero."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                fan_in = max(1, parameter[0].numel())
                parameter.copy_(torch.randn_like(parameter) * fan_in ** -0.5)
    fill(network)


def complete_norms(network: nn.Module) -> None:
    """Gives a bias of zeros to layer norms that have a weight alone: PNNX forgets the weight otherwise."""
    for norm in network.modules():
        if isinstance(norm, nn.LayerNorm) and norm.weight is not None and norm.bias is None:
            norm.bias = nn.Parameter(torch.zeros_like(norm.weight))


def prepare(entry: Network) -> nn.Module:
    """The network of an entry with its weights, in evaluation mode."""
    network = entry.build()
    if entry.random:
        strengthen(network)
    complete_norms(network)
    calibrate(network, lambda: entry.inputs(*entry.sizes[0]))
    return network.eval()


def ids(vocabulary: int, *shape: int) -> Tensor:
    """Random numbers of words, i64."""
    return torch.randint(3, vocabulary, shape)


def lengths_mask(batch: int, length: int) -> Tensor:
    """A mask of ones, i64, in which each row of the batch ends one place earlier than that before it."""
    return (torch.arange(length) < length - torch.arange(batch)[:, None]).long()


def added_mask(batch: int, length: int, causal: bool = False) -> Tensor:
    """`lengths_mask` in the form that is added to scores, f32 of four axes: 0 where attention may look, else -10000."""
    seen = lengths_mask(batch, length)[:, None, None, :].bool()
    if causal:
        seen = seen & torch.ones(length, length, dtype=torch.bool).tril()
    return torch.where(seen, 0.0, -1e4)


def picture(channels: int = 3) -> Callable[..., list[Tensor]]:
    """Makes a batch of random pictures of some size."""
    return lambda batch, height, width: [torch.randn(batch, channels, height, width)]
