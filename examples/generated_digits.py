"""Any number of pictures of digits, for the examples of Ray and Spark.

A row is made from its number alone, wherever and however often it is made: from a picture of the test split of
`model_file/digits`, moved by up to one pixel, with a little noise. A cluster that makes a row again after a failure therefore
makes the same one, and the result of a run does not depend on where the rows were.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

SEED = 2026
WHITE = 16  # the data set counts the set pixels of 4×4 blocks
SIDE = 8
NOISE = 0.1
DIGITS = Path(__file__).resolve().parents[1] / "model_file" / "digits"
MODEL = DIGITS / "digits.pnnx.param"
LEAST_ACCURACY = 0.97
"""What the model reaches with certainty: 99.3 % of the test split, and less where a stroke is moved out of the picture."""


@lru_cache(maxsize=1)
def test_split(file: str) -> tuple[np.ndarray, np.ndarray]:
    """Every picture at its 3×3 places, f32 450×3×3×8×8 in 0..1, and its digit, i64 450 holding 0..9."""
    with np.load(file) as arrays:
        padded = np.pad(arrays["images"].astype(np.float32) / WHITE, ((0, 0), (1, 1), (1, 1)))
        return np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), (1, 2)), arrays["labels"].astype(np.int64)


def scattered(keys: np.ndarray) -> np.ndarray:
    """For every u64 one that looks random, and is the same on every machine: SplitMix64."""
    mixed = (keys + np.uint64(SEED)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def pictures(rows: np.ndarray, file: str | Path = DIGITS / "test.npz") -> tuple[np.ndarray, np.ndarray]:
    """The pictures of these rows and their digits: f32 N×1×8×8 in 0..1, and i64 N."""
    placed, labels = test_split(str(file))
    keys = np.asarray(rows).astype(np.uint64)
    chosen = (keys % np.uint64(len(labels))).astype(np.int64)
    place = (scattered(keys) % np.uint64(9)).astype(np.int64)
    pixels = scattered(scattered(keys)[:, None] + np.arange(SIDE * SIDE, dtype=np.uint64))
    noise = (pixels >> np.uint64(40)).astype(np.float32) / 2**23 - 1
    images = placed[chosen, place // 3, place % 3] + NOISE * noise.reshape(-1, SIDE, SIDE)
    return images[:, None].clip(0, 1), labels[chosen]
