"""A UNet (Ronneberger, Fischer, Brox 2015) for pictures whose sides are multiples of 8."""

import torch
from torch import Tensor, nn


class Double(nn.Sequential):
    """Two convolutions of 3×3, each with normalisation and ReLU."""

    def __init__(self, channels: int, outputs: int):
        super().__init__(
            nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class ShapesUNet(nn.Module):
    """Pictures N×3×H×W → scores N×classes×H×W."""

    def __init__(self, classes: int, width: int = 8):
        super().__init__()
        widths = [width << level for level in range(4)]
        self.inc = Double(3, widths[0])
        self.down = nn.ModuleList(Double(a, b) for a, b in zip(widths, widths[1:]))
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(Double(2 * a, a) for a in widths[:-1])
        self.outc = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        passed = [self.inc(x)]
        for down in self.down:
            passed.append(down(self.pool(passed[-1])))
        x = passed.pop()
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = join(torch.cat((passed.pop(), up(x)), 1))
        return self.outc(x)
