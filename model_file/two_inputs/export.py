"""Exports `two_inputs`: two branches of different resolution that are concatenated and then added."""

import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export_common import export, read_card, save_arrays, seed_everything  # noqa: E402


class Model(nn.Module):
    """f32 N×3×16×16 (a picture) and f32 N×4×8×8 (a map of half its size) → N×8×8×8."""

    def __init__(self):
        super().__init__()
        self.picture_branch = nn.Sequential(nn.Conv2d(3, 8, kernel_size=3, stride=2, padding=1), nn.ReLU())
        self.map_branch = nn.Sequential(nn.Conv2d(4, 8, kernel_size=1), nn.ReLU())
        self.mix = nn.Conv2d(16, 8, kernel_size=3, padding=1)

    def forward(self, picture, feature_map):
        left = self.picture_branch(picture)
        right = self.map_branch(feature_map)
        # Each branch is used twice: a runtime must not let go of either after the concatenation.
        return self.mix(torch.cat([left, right], dim=1)) + left + right


def main():
    read_card(HERE)
    seed_everything(0)
    model = Model()
    inputs = [torch.randn(2, 3, 16, 16), torch.randn(2, 4, 8, 8)]
    export(model, HERE, "two_inputs", inputs)
    (output,) = save_arrays(model, HERE, inputs)
    assert output.shape == (2, 8, 8, 8)


if __name__ == "__main__":
    main()
