"""Scenes of plain shapes, with the truth about them: what the detector and the UNet learn from and are measured on.

A scene is made of whole numbers only, from a seed and an index, so that `scenes.rs` beside this file makes the same
pixels in Rust; `scenes.json` holds checksums that a test compares. Run this file to write them again:

    python model_file/scenes.py            # writes scenes.json
    python model_file/scenes.py 7 out/     # writes scene 0 to 9 of seed 7 as PNG
"""

import json
import math
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("circle", "square", "triangle", "star")
# Seeds below this one are for training; whatever is measured is made from another.
FIRST_UNSEEN_SEED = 1000

MASK64 = (1 << 64) - 1
GAMMA = 0x9E37_79B9_7F4A_7C15
ANGLES = 64  # steps of a full turn
ONE = 1 << 14  # 1.0 in fixed point
UNIT = 8  # places per pixel
SAMPLES = 4  # samples per pixel, along each axis
COSINES = [round(ONE * math.cos(2 * math.pi * step / ANGLES)) for step in range(ANGLES)]


class Random:
    """SplitMix64 (Steele, Lea, Flood 2014). Drawing an array gives what as many single draws would give."""

    def __init__(self, seed: int, index: int):
        self.state = ((seed << 32) + index) & MASK64

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        return int(self.many(1, bound)[0])

    def within(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def many(self, count: int, bound: int) -> np.ndarray:
        """As many draws of `below(bound)`."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA) + np.uint64(self.state)
        self.state = (self.state + count * GAMMA) & MASK64
        steps = (steps ^ (steps >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
        steps = (steps ^ (steps >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
        steps ^= steps >> np.uint64(31)
        return ((steps >> np.uint64(32)) * np.uint64(bound) >> np.uint64(32)).astype(np.int64)


@dataclass
class Scene:
    """A picture and the truth about it."""

    pixels: np.ndarray  # u8, height×width×3
    mask: np.ndarray  # u8, height×width: 0 for the background, 1 + class elsewhere
    boxes: list[tuple[int, int, int, int, int]]  # class, left, top, right, bottom; right and bottom are outside


def render(seed: int, index: int, width: int, height: int) -> Scene:
    """Scene number `index` of a seed; the sizes are at least 64."""
    random = Random(seed, index)
    corners = random.many(12, 256).reshape(2, 2, 3)
    pixels = gradient(corners, width, height)
    mask = np.zeros((height, width), np.uint8)
    boxes = []
    for _ in range(random.below(5)):
        line = thin_line(random, width, height)
        paint(pixels, coverage(pixels.shape, line), random.many(3, 256))
    for _ in range(random.within(1, 6)):
        shape = place(random, boxes, width, height)
        color = contrasting(random, corners)
        if shape is None:
            continue
        kind, outline = shape
        cover = coverage(pixels.shape, outline)
        paint(pixels, cover, color)
        inside = 2 * cover[2] >= SAMPLES * SAMPLES
        top, left = cover[0], cover[1]
        mask[top:top + inside.shape[0], left:left + inside.shape[1]][inside] = 1 + kind
        rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
        boxes.append((kind, left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1))
    loudness = random.below(13)
    noise = random.many(pixels.size, 2 * loudness + 1).reshape(pixels.shape) - loudness
    return Scene((pixels + noise).clip(0, 255).astype(np.uint8), mask, boxes)


def gradient(corners: np.ndarray, width: int, height: int) -> np.ndarray:
    """The colours of four corners, mixed over the picture."""
    across, down = np.arange(width).reshape(1, -1, 1), np.arange(height).reshape(-1, 1, 1)
    top = corners[0, 0] * (width - 1 - across) + corners[0, 1] * across
    bottom = corners[1, 0] * (width - 1 - across) + corners[1, 1] * across
    return (top * (height - 1 - down) + bottom * down) // ((width - 1) * (height - 1))


def turned(x: int, y: int, angle: int) -> tuple[int, int]:
    """A point turned around the origin by so many steps."""
    cosine, sine = COSINES[angle % ANGLES], COSINES[(angle + 3 * ANGLES // 4) % ANGLES]
    return (x * cosine - y * sine) // ONE, (x * sine + y * cosine) // ONE


def thin_line(random: Random, width: int, height: int) -> tuple:
    """A line that means nothing, as a polygon."""
    x, y = random.below(width * UNIT), random.below(height * UNIT)
    reach, thick, angle = random.within(10, 60) * UNIT, random.within(UNIT // 2, UNIT), random.below(ANGLES)
    corners = [(-reach, -thick), (reach, -thick), (reach, thick), (-reach, thick)]
    return "polygon", x, y, reach + thick, [turned(*corner, angle) for corner in corners]


def place(random: Random, boxes: list, width: int, height: int):
    """A shape that covers little of those that are there, or none."""
    kind = random.below(len(CLASSES))
    for _ in range(10):
        radius = random.within(9 * UNIT, 26 * UNIT)
        reach = radius // UNIT + 2
        x = random.within(reach * UNIT, (width - reach) * UNIT)
        y = random.within(reach * UNIT, (height - reach) * UNIT)
        angle = random.below(ANGLES)
        box = (x // UNIT - reach, y // UNIT - reach, x // UNIT + reach, y // UNIT + reach)
        if all(barely_meet(box, other[1:]) for other in boxes):
            return kind, outline(kind, x, y, radius, angle)
    return None


def barely_meet(a: tuple, b: tuple) -> bool:
    """Whether two boxes have less than a tenth of the smaller one in common."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return width <= 0 or height <= 0 or 10 * width * height < smaller


def outline(kind: int, x: int, y: int, radius: int, angle: int) -> tuple:
    """A shape around a point: its kind of outline, its centre, its reach, and its corners from there."""
    if kind == 0:
        return "circle", x, y, radius, []
    # Corners around the centre; a star has every other one at two fifths of the radius.
    corners, inner = {1: (4, 5), 2: (3, 5), 3: (10, 2)}[kind]
    points = []
    for corner in range(corners):
        length = radius * inner // 5 if corner % 2 else radius
        points.append(turned(length, 0, angle + ANGLES * corner // corners))
    return "polygon", x, y, radius, points


def coverage(shape: tuple, figure: tuple) -> tuple[int, int, np.ndarray]:
    """Top, left, and for each pixel from there how many of its samples lie inside."""
    kind, x, y, reach, points = figure
    height, width, _ = shape
    top, bottom = max((y - reach) // UNIT - 1, 0), min((y + reach) // UNIT + 2, height)
    left, right = max((x - reach) // UNIT - 1, 0), min((x + reach) // UNIT + 2, width)
    step = UNIT // SAMPLES
    px = (np.arange(left * SAMPLES, right * SAMPLES) * step + step // 2 - x).reshape(1, -1)
    py = (np.arange(top * SAMPLES, bottom * SAMPLES) * step + step // 2 - y).reshape(-1, 1)
    if kind == "circle":
        inside = px * px + py * py <= reach * reach
    else:
        # Even-odd rule: a sample is inside when a ray to the right crosses an odd number of edges.
        inside = np.zeros((py.size, px.size), bool)
        for (x1, y1), (x2, y2) in zip(points, points[1:] + points[:1]):
            if y1 == y2:
                continue
            if y1 > y2:
                x1, y1, x2, y2 = x2, y2, x1, y1
            crosses = (y1 <= py) & (py < y2)
            inside ^= crosses & ((px - x1) * (y2 - y1) < (x2 - x1) * (py - y1))
    counts = inside.reshape(bottom - top, SAMPLES, right - left, SAMPLES).sum((1, 3))
    return top, left, counts


def contrasting(random: Random, corners: np.ndarray) -> np.ndarray:
    """A colour that differs from the middle of the background."""
    middle = corners.reshape(4, 3).sum(0) // 4
    for _ in range(20):
        color = random.many(3, 256)
        if np.abs(color - middle).sum() >= 150:
            return color
    return 255 - middle


def paint(pixels: np.ndarray, cover: tuple, color: np.ndarray) -> None:
    """Lays a colour over the pixels, as much as each is covered."""
    top, left, counts = cover
    full = SAMPLES * SAMPLES
    part = pixels[top:top + counts.shape[0], left:left + counts.shape[1]]
    part[:] = (part * (full - counts[..., None]) + color * counts[..., None] + full // 2) // full


def checksums() -> list[dict]:
    """What `scenes.rs` must give for some scenes."""
    wanted = []
    for seed, index, width, height in [(0, 0, 160, 160), (1, 5, 128, 128), (1000, 3, 160, 96), (4096, 77, 65, 240)]:
        scene = render(seed, index, width, height)
        wanted.append({"seed": seed, "index": index, "width": width, "height": height,
                       "pixels": zlib.crc32(scene.pixels.tobytes()), "mask": zlib.crc32(scene.mask.tobytes()),
                       "boxes": scene.boxes})
    return wanted


def main() -> None:
    if len(sys.argv) == 3:
        seed, folder = int(sys.argv[1]), Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(10):
            Image.fromarray(render(seed, index, 160, 160).pixels).save(folder / f"{seed}_{index}.png")
    else:
        lines = ",\n  ".join(json.dumps(scene) for scene in checksums())
        Path(__file__).with_suffix(".json").write_text(f"[\n  {lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
