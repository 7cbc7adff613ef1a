"""The network behind `digits`: ResNet's building blocks, on 8×8 pictures."""

from torch import nn


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut: `relu(f(x) + shortcut(x))`.

    The shortcut is the input itself, or a 1×1 convolution where the number of channels or the size changes.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU()
        self.shortcut = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class DigitsNet(nn.Module):
    """f32 N×1×8×8 in 0..1 → N×10 logits."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU())
        self.stage1 = ResidualBlock(24, 24)
        self.stage2 = ResidualBlock(24, 48, stride=2)
        self.stage3 = ResidualBlock(48, 48)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        x = self.stage3(self.stage2(self.stage1(self.stem(x))))
        return self.head(self.pool(x).flatten(1))
