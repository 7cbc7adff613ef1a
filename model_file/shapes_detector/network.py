"""A detector after YOLOv5: stem, C3 blocks, SPPF, features joined upwards and downwards, three heads with anchors.

Scaled down to pictures of 128×128 and four classes; the parts and their names are YOLOv5's (Ultralytics, 2020).
"""

import torch
from torch import Tensor, nn

STRIDES = (8, 16, 32)
# Width and height in pixels, three for each head.
ANCHORS = (((14, 14), (18, 18), (22, 22)), ((26, 26), (31, 31), (36, 36)), ((40, 40), (46, 46), (52, 52)))


class Conv(nn.Module):
    """Convolution, normalisation, SiLU."""

    def __init__(self, channels: int, outputs: int, kernel: int = 1, stride: int = 1, padding: int | None = None):
        super().__init__()
        padding = kernel // 2 if padding is None else padding
        self.conv = nn.Conv2d(channels, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    """Two convolutions, and what came in added where `shortcut` says so."""

    def __init__(self, channels: int, shortcut: bool):
        super().__init__()
        self.cv1 = Conv(channels, channels)
        self.cv2 = Conv(channels, channels, 3)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return x + self.cv2(self.cv1(x)) if self.shortcut else self.cv2(self.cv1(x))


class C3(nn.Module):
    """Half of the channels go through a bottleneck, half go past it (after CSPNet)."""

    def __init__(self, channels: int, outputs: int, shortcut: bool = True):
        super().__init__()
        half = outputs // 2
        self.cv1 = Conv(channels, half)
        self.cv2 = Conv(channels, half)
        self.cv3 = Conv(2 * half, outputs)
        self.m = Bottleneck(half, shortcut)

    def forward(self, x: Tensor) -> Tensor:
        return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), 1))


class SPPF(nn.Module):
    """Maxima over windows of 5, 9 and 13, as three poolings of 5 in a row."""

    def __init__(self, channels: int, outputs: int):
        super().__init__()
        half = channels // 2
        self.cv1 = Conv(channels, half)
        self.cv2 = Conv(half * 4, outputs)
        self.m = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cv1(x)
        once = self.m(x)
        twice = self.m(once)
        return self.cv2(torch.cat((x, once, twice, self.m(twice)), 1))


class Detect(nn.Module):
    """The heads. In training they give N×3×H×W×(5 + classes) as it is; otherwise N×rows×(5 + classes) in pixels:
    centre x and y, width, height, whether there is something, and which class."""

    def __init__(self, channels: tuple[int, ...], classes: int, size: int):
        super().__init__()
        self.outputs = 5 + classes
        self.m = nn.ModuleList(nn.Conv2d(channel, 3 * self.outputs, 1) for channel in channels)
        for level, (stride, anchors) in enumerate(zip(STRIDES, ANCHORS)):
            cells = torch.arange(size // stride).float()
            rows, columns = torch.meshgrid(cells, cells, indexing="ij")
            grid = torch.stack((columns, rows), 2) - 0.5
            self.register_buffer(f"grid{level}", grid[None, None].clone())
            self.register_buffer(f"anchors{level}", torch.tensor(anchors).float()[None, :, None, None].clone())

    def forward(self, features: list[Tensor]):
        raw = []
        for layer, x in zip(self.m, features):
            batch, _, height, width = x.shape
            raw.append(layer(x).view(batch, 3, self.outputs, height, width).permute(0, 1, 3, 4, 2))
        return raw if self.training else torch.cat([self.decode(x, level) for level, x in enumerate(raw)], 1)

    def decode(self, x: Tensor, level: int) -> Tensor:
        """Boxes in pixels from the numbers of one head."""
        grid, anchors = getattr(self, f"grid{level}"), getattr(self, f"anchors{level}")
        xy, wh, rest = x.sigmoid().split((2, 2, self.outputs - 4), 4)
        xy = (xy * 2 + grid) * STRIDES[level]
        wh = (wh * 2) ** 2 * anchors
        return torch.cat((xy, wh, rest), 4).view(x.shape[0], -1, self.outputs)


class ShapesDetector(nn.Module):
    """Pictures N×3×128×128 → boxes N×1008×(5 + classes)."""

    def __init__(self, classes: int, size: int = 128):
        super().__init__()
        self.stem = Conv(3, 12, 6, 2, 2)
        self.down4 = nn.Sequential(Conv(12, 24, 3, 2), C3(24, 24))
        self.down8 = nn.Sequential(Conv(24, 48, 3, 2), C3(48, 48))
        self.down16 = nn.Sequential(Conv(48, 80, 3, 2), C3(80, 80))
        self.down32 = nn.Sequential(Conv(80, 112, 3, 2), C3(112, 112), SPPF(112, 112))
        self.side32 = Conv(112, 80)
        self.up16 = C3(160, 80, shortcut=False)
        self.side16 = Conv(80, 48)
        self.up8 = C3(96, 48, shortcut=False)
        self.back16 = Conv(48, 48, 3, 2)
        self.out16 = C3(96, 80, shortcut=False)
        self.back32 = Conv(80, 80, 3, 2)
        self.out32 = C3(160, 112, shortcut=False)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.detect = Detect((48, 80, 112), classes, size)

    def forward(self, x: Tensor):
        x8 = self.down8(self.down4(self.stem(x)))
        x16 = self.down16(x8)
        side32 = self.side32(self.down32(x16))
        side16 = self.side16(self.up16(torch.cat((self.upsample(side32), x16), 1)))
        out8 = self.up8(torch.cat((self.upsample(side16), x8), 1))
        out16 = self.out16(torch.cat((self.back16(out8), side16), 1))
        out32 = self.out32(torch.cat((self.back32(out16), side32), 1))
        return self.detect([out8, out16, out32])
