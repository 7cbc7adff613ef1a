"""What `cargo run --release --example evaluate` measures, by PyTorch; both must agree to 0.001.

The network comes from the model's own files, through the Python source that `ixion convert` writes:

    cargo run --release -- convert model_file/NAME/NAME.pnnx.param --python NAME_pnnx.py
    python model_file/evaluate.py NAME SEED NAME_pnnx.py
"""

import importlib.util
import sys
from pathlib import Path

import torch

from metrics import mean_average_precision, mean_iou
from shapes import as_input, render_many

SCENES = 500


def network(source: Path) -> torch.nn.Module:
    """The class `Model` of a Python source."""
    spec = importlib.util.spec_from_file_location("exported", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Model().eval()


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    name, seed, source = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).resolve()
    model = network(source)
    scenes = render_many(seed, SCENES)
    with torch.no_grad():
        outputs = torch.cat([model(batch) for batch in as_input(scenes).split(1)])
    if name == "shapes_detector":
        print(f"mAP@0.5 {mean_average_precision(outputs.numpy(), scenes):.4f} on {SCENES} scenes of seed {seed}")
    else:
        print(f"mean IoU {mean_iou(outputs.argmax(1).numpy(), scenes):.4f} on {SCENES} scenes of seed {seed}")


if __name__ == "__main__":
    main()
