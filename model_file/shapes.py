"""What the scripts that train on shapes share."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from scenes import FIRST_UNSEEN_SEED, Scene, render

SIZE = 128  # height and width of what the networks take
MEASURED_SEED = FIRST_UNSEEN_SEED + 1
SAMPLES = ((SIZE, SIZE), (192, SIZE), (SIZE, 192), (SIZE, SIZE))  # width and height


def render_many(seed: int, count: int) -> list[Scene]:
    """The first scenes of a seed, in the networks' size."""
    return [render(seed, index, SIZE, SIZE) for index in range(count)]


def as_input(scenes: list[Scene]) -> Tensor:
    """f32 N×3×128×128 in 0..1."""
    return torch.from_numpy(np.stack([scene.pixels for scene in scenes])).permute(0, 3, 1, 2).float() / 255


def write_samples(folder: Path, card: dict, first: int) -> None:
    """Writes `samples/0.png` … from scenes that no training saw: square, wide and high."""
    assert card["input"]["size"] == [SIZE, SIZE] and card["input"]["fit"] == "letterbox"
    (folder / "samples").mkdir(exist_ok=True)
    for index, (width, height) in enumerate(SAMPLES):
        scene = render(FIRST_UNSEEN_SEED, first + index, width, height)
        Image.fromarray(scene.pixels).save(folder / "samples" / f"{index}.png")
