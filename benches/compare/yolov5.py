"""A detector of the shape of YOLOv5, from its published description: a CSP backbone, a path aggregation neck, three heads."""

import torch
from torch import Tensor, nn


class Conv(nn.Module):
    """Convolution, batch norm and SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, padding: int | None = None):
        super().__init__()
        padding = kernel // 2 if padding is None else padding
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, channels: int, is_residual: bool):
        super().__init__()
        self.first, self.second, self.is_residual = Conv(channels, channels), Conv(channels, channels, 3), is_residual

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x))
        return x + y if self.is_residual else y


class C3(nn.Module):
    """Half of the channels go through bottlenecks, the others bypass them."""

    def __init__(self, inputs: int, outputs: int, count: int, is_residual: bool = True):
        super().__init__()
        hidden = outputs // 2
        self.inner, self.outer, self.join = Conv(inputs, hidden), Conv(inputs, hidden), Conv(2 * hidden, outputs)
        self.blocks = nn.Sequential(*(Bottleneck(hidden, is_residual) for _ in range(count)))

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat((self.blocks(self.inner(x)), self.outer(x)), 1))


class SPPF(nn.Module):
    """Fast spatial pyramid pooling: features at four scales."""

    def __init__(self, channels: int):
        super().__init__()
        self.first, self.last = Conv(channels, channels // 2), Conv(2 * channels, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        seen = [self.first(x)]
        for _ in range(3):
            seen.append(self.pool(seen[-1]))
        return self.last(torch.cat(seen, 1))


class Detector(nn.Module):
    """Pictures N×3×H×W → N×(anchors)×(5 + classes) as the heads give them, sides being multiples of 32."""

    def __init__(self, width: int, classes: int = 80, anchors: int = 3):
        super().__init__()
        w, self.anchors = width, anchors
        self.stem = nn.Sequential(Conv(3, w, 6, 2, 2), Conv(w, 2 * w, 3, 2), C3(2 * w, 2 * w, 1))
        self.third = nn.Sequential(Conv(2 * w, 4 * w, 3, 2), C3(4 * w, 4 * w, 2))
        self.fourth = nn.Sequential(Conv(4 * w, 8 * w, 3, 2), C3(8 * w, 8 * w, 3))
        self.fifth = nn.Sequential(Conv(8 * w, 16 * w, 3, 2), C3(16 * w, 16 * w, 1), SPPF(16 * w), Conv(16 * w, 8 * w))
        self.up_fourth = nn.Sequential(C3(16 * w, 8 * w, 1, False), Conv(8 * w, 4 * w))
        self.small = C3(8 * w, 4 * w, 1, False)
        self.to_medium, self.medium = Conv(4 * w, 4 * w, 3, 2), C3(8 * w, 8 * w, 1, False)
        self.to_large, self.large = Conv(8 * w, 8 * w, 3, 2), C3(16 * w, 16 * w, 1, False)
        self.grow = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.heads = nn.ModuleList(nn.Conv2d(channels, anchors * (5 + classes), 1) for channels in (4 * w, 8 * w, 16 * w))

    def forward(self, x: Tensor) -> Tensor:
        third = self.third(self.stem(x))
        fourth = self.fourth(third)
        fifth = self.fifth(fourth)
        up = self.up_fourth(torch.cat((self.grow(fifth), fourth), 1))
        small = self.small(torch.cat((self.grow(up), third), 1))
        medium = self.medium(torch.cat((self.to_medium(small), up), 1))
        large = self.large(torch.cat((self.to_large(medium), fifth), 1))
        found = [head(seen).flatten(2) for head, seen in zip(self.heads, (small, medium, large), strict=True)]
        return torch.cat(found, 2).sigmoid()
