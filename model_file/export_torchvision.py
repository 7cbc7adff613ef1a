"""Exports a network of torchvision, ready to run and to verify.

    python model_file/export_torchvision.py resnet50              # pretrained, where there is network
    python model_file/export_torchvision.py resnet50 --random     # seeded weights, without network
    python model_file/export_torchvision.py --list

The folder (`--output`, default: the network's name) gets `NAME.pnnx.param`, `NAME.pnnx.bin`, `model.toml` with what
the network's own transforms do and its labels, an input `in_0.npy`, what PyTorch makes of it, `out_0.npy`, and `case.toml` with the
tolerance for comparing. Then

    ixion run NAME/NAME.pnnx.param --input picture.jpg
    ixion verify NAME
"""

import argparse
import json
import sys
from pathlib import Path
from unittest import mock

import torch
import torchvision
from torch import Tensor, nn
from torchvision import models
from torchvision.models.swin_transformer import ShiftedWindowAttentionV2

from export_common import export, save_arrays, seed_everything
from random_weights import calibrate, fill

FRAMES = 16  # of a clip, for networks that see videos
CALIBRATION_PICTURES = 4

# PNNX folds batch norms into convolutions: PyTorch, too, gives results that far apart before and after.
CASE = "tolerance = 1e-3\n"


class OnlyResult(nn.Module):
    """Segmentation networks return a dictionary; its entry `out` is the result."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)["out"]


def kind_of(name: str) -> str:
    """`classification`, `segmentation` or `video`."""
    module = models.get_model_builder(name).__module__.removeprefix("torchvision.models.")
    group = module.split(".")[0]
    if group in ("detection", "quantization", "optical_flow"):
        sys.exit(f"{name}: networks of torchvision.models.{group} cannot go through PNNX as a whole")
    return group if group in ("segmentation", "video") else "classification"


def exportable() -> list[str]:
    """The names of all networks that this script takes."""
    groups = (models, models.segmentation, models.video)
    return sorted(name for group in groups for name in models.list_models(group))


def clear_key_bias(network: nn.Module) -> bool:
    """Makes the keys' bias of a Swin V2 zero; tells whether the network is one.

    The network does that itself in every run, in place on a part of a copy. PNNX loses the rest of the copy then; so it is
    done here, once, and the network exported without it.
    """
    attentions = [module for module in network.modules() if isinstance(module, ShiftedWindowAttentionV2)]
    for attention in attentions:
        length = attention.qkv.bias.numel() // 3
        with torch.no_grad():
            attention.qkv.bias[length:2 * length] = 0
    return bool(attentions)


def text(value) -> str:
    """A string, number or list as TOML writes it."""
    return json.dumps(value, ensure_ascii=False)


def input_table(kind: str, transforms, size: list[int]) -> list[str]:
    """The table [input]: what the network's transforms do with a picture."""
    if kind == "video":
        return []
    lines = ["", "[input]", 'color = "rgb"', f"size = {text(size)}"]
    if kind == "classification":
        lines += ['fit = "crop"', f"resize = {max(transforms.resize_size[0], *size)}"]
    else:
        lines += ['fit = "letterbox"']
    filters = {"bilinear": "bilinear", "bicubic": "bicubic"}
    lines += [f"filter = {text(filters[transforms.interpolation.value])}",
              f"antialias = {text(transforms.antialias)}", f"scale = {1 / 255}"]
    return lines + [f"mean = {text(transforms.mean)}", f"std = {text(transforms.std)}"]


def card(name: str, kind: str, weights, transforms, size: list[int]) -> str:
    """The text of `model.toml`."""
    origin = f"pretrained ({weights})" if weights else "with random weights"
    task = "segment" if kind == "segmentation" else "classify"
    lines = [f"name = {text(name)}", f"task = {text(task)}",
             f"description = {text(f'{name} of torchvision {torchvision.__version__}, {origin}.')}",
             f"provenance = {text('Exported by export_torchvision.py.')}"]
    lines += [f"license = {text('BSD-3-Clause')}"] if not weights else []
    lines += input_table(kind, transforms, size)
    lines += ["", "[output]", f"labels = {text(models.get_model_weights(name).DEFAULT.meta['categories'])}"]
    lines += ['activation = "softmax"'] + (["background = 0"] if task == "segment" else [])
    return "\n".join(lines) + "\n"


def make(name: str, kind: str, random: bool, shape: list[int]) -> tuple[nn.Module, object]:
    """The network in evaluation mode, and the weights it was given."""
    weights = None if random else models.get_model_weights(name).DEFAULT
    extra = {"weights_backbone": None} if kind == "segmentation" else {}
    if random and name in ("googlenet", "inception_v3"):
        extra["init_weights"] = True
    network = models.get_model(name, weights=weights, **extra)
    if random:
        fill(network)
        calibrate(network, lambda: [torch.randn(CALIBRATION_PICTURES, *shape)])
    network.eval()
    return (OnlyResult(network) if kind == "segmentation" else network), weights


def picture_size(kind: str, transforms) -> list[int]:
    """Height and width of what the network takes."""
    size = transforms.resize_size if kind == "segmentation" else transforms.crop_size
    return [size[0], size[-1]]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", help="a network's name in torchvision, such as resnet50")
    parser.add_argument("--random", action="store_true", help="seeded weights instead of pretrained ones")
    parser.add_argument("--seed", type=int, default=0, help="for the weights and the input (default: 0)")
    parser.add_argument("--size", type=int, nargs=2, metavar=("HEIGHT", "WIDTH"), help="default: as it was trained")
    parser.add_argument("--output", type=Path, help="the folder to write into (default: the network's name)")
    parser.add_argument("--list", action="store_true", help="prints the names of all networks")
    arguments = parser.parse_args()
    if not arguments.list and arguments.name is None:
        parser.error("name a network; --list prints all")
    if arguments.name and arguments.name not in models.list_models():
        parser.error(f"torchvision has no network {arguments.name!r}; --list prints all")
    return arguments


def main() -> None:
    arguments = parse()
    if arguments.list:
        print("\n".join(exportable()))
        return
    name, kind = arguments.name, kind_of(arguments.name)
    seed_everything(arguments.seed)
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    size = arguments.size or picture_size(kind, transforms)
    shape = [3, FRAMES, *size] if kind == "video" else [3, *size]
    network, weights = make(name, kind, arguments.random, shape)

    folder = (arguments.output or Path(name)).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    inputs = [torch.randn(1, *shape)]
    save_arrays(network, folder, inputs)
    if clear_key_bias(network):
        with mock.patch.object(Tensor, "zero_", lambda tensor: tensor):
            export(network, folder, name, inputs, tolerance=None)
    else:
        export(network, folder, name, inputs, tolerance=None)
    (folder / "model.toml").write_text(card(name, kind, weights, transforms, size), encoding="utf-8")
    (folder / "case.toml").write_text(CASE, encoding="utf-8")


if __name__ == "__main__":
    main()
