"""Exports `linear`: one fully connected layer and a sigmoid, the smallest network with weights."""

import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export_common import export, read_card, save_arrays, seed_everything  # noqa: E402


class Model(nn.Module):
    """f32 N×32 → N×128, every element in 0..1."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 128)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        return self.sigmoid(self.linear(x))


def main():
    read_card(HERE)
    seed_everything(0)
    model = Model()
    inputs = [torch.randn(1, 32)]
    export(model, HERE, "linear", inputs)
    (output,) = save_arrays(model, HERE, inputs)
    assert output.shape == (1, 128)
    assert ((output > 0) & (output < 1)).all()


if __name__ == "__main__":
    main()
