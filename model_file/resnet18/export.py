"""Exports `resnet18`: the structure of torchvision's ResNet-18 without weights, to be tried with random ones."""

import sys
from pathlib import Path

import torch
from torchvision.models import resnet18

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export_common import export, read_card, run, seed_everything  # noqa: E402


def main():
    card = read_card(HERE)
    seed_everything(0)
    model = resnet18(weights=None)
    inputs = [torch.randn(1, 3, *card["input"]["size"])]
    export(model, HERE, "resnet18", inputs, keep_weights=False)
    (output,) = run(model, inputs)
    assert output.shape == (1, 1000)
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_689_512


if __name__ == "__main__":
    main()
