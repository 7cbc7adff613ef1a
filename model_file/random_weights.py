"""Random weights with which a network's parts all matter, for export scripts that can't or needn't download any."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

CALIBRATION_BATCHES = 2


def fill(network: nn.Module) -> None:
    """Gives numbers to what starts as zeros, ones or another constant, so that no branch is without effect."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.numel() > 1 and parameter.min() == parameter.max():
                middle = 1.0 if parameter.flatten()[0] == 1 else 0.0
                parameter.copy_(middle + 0.1 * torch.randn_like(parameter))


def calibrate(network: nn.Module, inputs: Callable[[], list[Tensor]]) -> None:
    """Lets batch norms see `inputs`, so that numbers keep their size through the whole depth."""
    norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    network.train()
    with torch.no_grad():
        for _ in range(CALIBRATION_BATCHES):
            network(*inputs())
    network.eval()
