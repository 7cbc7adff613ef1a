"""Exports torchvision's ViT-B/32 with random weights: about 350 MB, to measure the time to open a large model.

    python benches/make_vit.py [FOLDER]

FOLDER is `target/bench-models` of this repository by default. Needs the packages in model_file/requirements.txt.
"""

import argparse
import sys
from pathlib import Path

import torch
from torch import nn
from torchvision.models import vit_b_32

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "model_file"))
from export_common import export, seed_everything  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description="Export ViT-B/32 with random weights.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "target" / "bench-models")
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)

    # Without gradients PyTorch runs attention as one fused call, with them as many: a trace would differ from its check.
    torch.backends.mha.set_fastpath_enabled(False)
    seed_everything(0)
    model = vit_b_32(weights=None)
    # torchvision starts the last layer at zero; then every logit would be zero, whatever the rest computes.
    nn.init.normal_(model.heads.head.weight, std=0.02)
    export(model, folder, "vit_b_32", [torch.randn(1, 3, 224, 224)])

    # Every weight is in the archive, with at least 4 bytes per parameter.
    size = (folder / "vit_b_32.pnnx.bin").stat().st_size
    assert size >= 4 * sum(parameter.numel() for parameter in model.parameters())
    print(f"vit_b_32: {size / 1e6:.0f} MB in {folder}")


if __name__ == "__main__":
    main()
