"""Exports `conv3`: three convolutions, each with other settings, so that confusing two of them shows."""

import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export_common import export, read_card, save_arrays, seed_everything  # noqa: E402


class Model(nn.Module):
    """f32 N×3×32×32 → N×128×12×14."""

    def __init__(self):
        super().__init__()
        # 32×32, unchanged: the plain case.
        self.conv1 = nn.Conv2d(3, 32, kernel_size=3, padding=1)
        self.relu1 = nn.ReLU()
        # To 16×16: strided, grouped, and not square, so that height and width cannot be swapped.
        self.conv2 = nn.Conv2d(32, 64, kernel_size=(5, 3), stride=2, padding=(2, 1), groups=4)
        self.relu2 = nn.ReLU()
        # To 12×14: dilated by another factor in each direction, no padding, no bias.
        self.conv3 = nn.Conv2d(64, 128, kernel_size=3, dilation=(2, 1), bias=False)

    def forward(self, x):
        x = self.relu1(self.conv1(x))
        x = self.relu2(self.conv2(x))
        return self.conv3(x)


def main():
    read_card(HERE)
    seed_everything(0)
    model = Model()
    inputs = [torch.randn(1, 3, 32, 32)]
    export(model, HERE, "conv3", inputs)
    (output,) = save_arrays(model, HERE, inputs)
    assert output.shape == (1, 128, 12, 14)


if __name__ == "__main__":
    main()
