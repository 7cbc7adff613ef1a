"""The recipe of the networks: cached networks with another recipe are rebuilt. Needs no packages."""

import json
from importlib.metadata import version
from pathlib import Path

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "vit_b_16", "bert_base",
            "yolov5nu", "unet_resnet18")
RECIPE = 2
QUANTIZED_RECIPE = 1
"""Both are incremented when the output changes with the same packages: the second one also when `ixion calibrate` does."""
SEED = 0
OPSET = 17
PACKAGES = ("torch", "torchvision", "transformers", "ultralytics", "pnnx", "onnx", "MNN", "numpy")
QUANTIZED_PACKAGES = ("onnxruntime", "onnx", "numpy")


def folder_name(network: str, batch: int) -> str:
    """The name of the folder of a network whose input has this batch, and of the files in it."""
    return network if batch == 1 else f"{network}_batch{batch}"


def recipe() -> dict:
    return {"recipe": RECIPE, "seed": SEED, "opset": OPSET, "versions": {name: version(name) for name in PACKAGES}}


def read_made(folder: Path) -> dict | None:
    """The made.json of a network, if it was built with this recipe and is complete."""
    try:
        made = json.loads((folder / "made.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    wanted = recipe()
    is_complete = all((folder / file).is_file() for file in made.get("files", [""]))
    return made if is_complete and {key: made.get(key) for key in wanted} == wanted else None


def quantized_recipe() -> dict:
    """The recipe of what `quantize.py` makes of a network."""
    return {"recipe": QUANTIZED_RECIPE, "seed": SEED, "versions": {name: version(name) for name in QUANTIZED_PACKAGES}}


def read_quantized(folder: Path) -> dict | None:
    """The int8.json of a network, if it was quantised by this recipe, after it was made."""
    path = folder / "int8.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        is_new = path.stat().st_mtime >= (folder / "made.json").stat().st_mtime
    except (OSError, ValueError):
        return None
    wanted = quantized_recipe()
    return found if is_new and {key: found.get(key) for key in wanted} == wanted else None
