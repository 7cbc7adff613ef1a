"""The networks that are compared: built from code with seeded weights, nothing is downloaded."""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision import models

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "model_file"))

from random_weights import calibrate, fill  # noqa: E402

from . import yolov5  # noqa: E402

CALIBRATION_PICTURES = 2


@dataclass(frozen=True)
class Network:
    """How to build a network, and what goes in."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    """Creates the input for a batch of this size."""


class UpBlock(nn.Module):
    """Upsampling by 2, concatenation with the encoder's features, and two convolutions."""

    def __init__(self, channels: int, passed: int, outputs: int):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(channels + passed, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x: Tensor, passed: Tensor | None) -> Tensor:
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.convs(x if passed is None else torch.cat((x, passed), 1))


class UNet(nn.Module):
    """A UNet whose encoder is ResNet-18: pictures N×3×H×W → scores N×classes×H×W, sides being multiples of 32."""

    def __init__(self, classes: int = 21):
        super().__init__()
        encoder = models.resnet18(weights=None)
        self.stem = nn.Sequential(encoder.conv1, encoder.bn1, encoder.relu)
        self.pool = encoder.maxpool
        self.stages = nn.ModuleList((encoder.layer1, encoder.layer2, encoder.layer3, encoder.layer4))
        self.ups = nn.ModuleList((UpBlock(512, 256, 256), UpBlock(256, 128, 128), UpBlock(128, 64, 64),
                                  UpBlock(64, 64, 32), UpBlock(32, 0, 16)))
        self.head = nn.Conv2d(16, classes, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        passed: list[Tensor | None] = [None, self.stem(x)]
        x = self.pool(passed[1])
        for stage in self.stages:
            passed.append(x := stage(x))
        passed.pop()
        for up in self.ups:
            x = up(x, passed.pop())
        return self.head(x)


class LastHiddenState(nn.Module):
    """A network from transformers as a function of token ids only."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, words: Tensor) -> Tensor:
        return self.network(input_ids=words).last_hidden_state


def vit() -> nn.Module:
    # Otherwise PyTorch would trace attention as one operator that no other runtime supports.
    torch.backends.mha.set_fastpath_enabled(False)
    return models.vit_b_16(weights=None)


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return LastHiddenState(BertModel(BertConfig(), add_pooling_layer=False))


def yolo() -> nn.Module:
    # Otherwise its package would check for updates and write into the home folder.
    os.environ.setdefault("YOLO_OFFLINE", "true")
    os.environ.setdefault("YOLO_CONFIG_DIR", str(Path(tempfile.gettempdir()) / "ixion-compare"))
    from ultralytics.nn.tasks import DetectionModel

    network = DetectionModel("yolov5n.yaml", verbose=False)
    # One tensor of boxes and scores, as in its own export.
    network.model[-1].export, network.model[-1].format = True, "torchscript"
    return network


def pictures(height: int, width: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.randn(batch, 3, height, width)


def classifier(name: str) -> Network:
    return Network(lambda: models.get_model(name, weights=None), pictures(224, 224))


NETWORKS: dict[str, Network] = {
    "resnet18": classifier("resnet18"),
    "resnet50": classifier("resnet50"),
    "mobilenet_v2": classifier("mobilenet_v2"),
    "mobilenet_v3_small": classifier("mobilenet_v3_small"),
    "efficientnet_b0": classifier("efficientnet_b0"),
    "vit_b_16": Network(vit, pictures(224, 224)),
    "bert_base": Network(bert, lambda batch: torch.randint(1000, 30000, (batch, 128))),
    "yolov5nu": Network(yolo, lambda batch: torch.rand(batch, 3, 640, 640)),
    "yolov5s": Network(lambda: yolov5.Detector(width=32), lambda batch: torch.rand(batch, 3, 640, 640)),
    "unet_resnet18": Network(UNet, pictures(256, 256)),
}


def prepare(name: str, seed: int, batch: int = 1) -> tuple[nn.Module, Tensor]:
    """A network in evaluation mode, calibrated so that activations keep their scale, and its input."""
    torch.manual_seed(seed)
    entry = NETWORKS[name]
    network = entry.build()
    fill(network)
    calibrate(network, lambda: [entry.inputs(CALIBRATION_PICTURES)])
    return network.eval(), entry.inputs(batch)


def folded(network: nn.Module) -> nn.Module:
    """The network in evaluation mode without batch norms, which are folded into the preceding convolutions."""
    if not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules()):
        return network
    from torch.fx.experimental.optimization import fuse

    return fuse(network).eval()
