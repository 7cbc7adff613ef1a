"""Quantises a network that `make.py` has written to int8, in the formats of the runtimes that can run it.

    python benches/compare/quantize.py FOLDER NETWORK BATCH IXION

FOLDER/NAME, where NAME is NETWORK or NETWORK_batchBATCH, gets `calibration/0.npy` and so on, random inputs of which none is
measured, and with their ranges `NAME.qdq.onnx`, by onnxruntime, and `NAME.scales.json`, by the command IXION. `int8.json` has
versions, and why a file is missing.

Each network has its own process, which keeps the memory of the driver small and isolates failures.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compare import machine, nets  # noqa: E402
from compare.recipe import SEED, folder_name, quantized_recipe  # noqa: E402

SAMPLES = 8
"""Pictures or texts for calibration, in batches of the network's size."""


class Samples(CalibrationDataReader):
    """Inputs in the order in which they are read."""

    def __init__(self, inputs: Iterator[np.ndarray]):
        self.inputs = inputs

    def get_next(self) -> dict[str, np.ndarray] | None:
        array = next(self.inputs, None)
        return None if array is None else {"in0": array}


def draw(network: str, batch: int, folder: Path) -> list[np.ndarray]:
    """Writes the inputs for calibration, which are none of those that `make.py` draws."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    torch.manual_seed(SEED + 1)
    arrays = [nets.NETWORKS[network].inputs(batch).numpy() for _ in range(max(1, SAMPLES // batch))]
    for at, array in enumerate(arrays):
        np.save(folder / f"{at}.npy", array)
    return arrays


def to_qdq(onnx: Path, arrays: list[np.ndarray], to: Path) -> None:
    """As its documentation recommends for x86: unsigned activations and signed weights, which have 7 bits where products of
    bytes may saturate, on x86 without VNNI."""
    features = machine.describe()["features"]
    saturates = "sse4_2" in features and not any("vnni" in feature for feature in features)
    with tempfile.TemporaryDirectory() as scratch:
        prepared = Path(scratch) / "prepared.onnx"
        quant_pre_process(onnx, prepared)
        quantize_static(prepared, to, Samples(iter(arrays)), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                        reduce_range=saturates)


def to_scales(ixion: str, param: Path, inputs: Path, to: Path) -> None:
    command = [ixion, "calibrate", param, "--inputs", inputs, "-o", to]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise RuntimeError(f"ixion calibrate: {done.stderr.strip()[-500:]}")


def quantize(network: str, batch: int, folder: Path, ixion: str) -> dict[str, str]:
    """Writes the files into the folder of a network; returns the reasons for missing ones."""
    samples, name = folder / "calibration", folder.name
    arrays = draw(network, batch, samples)
    qdq, scales = folder / f"{name}.qdq.onnx", folder / f"{name}.scales.json"
    steps = {qdq: lambda: to_qdq(folder / f"{name}.onnx", arrays, qdq),
             scales: lambda: to_scales(ixion, folder / f"{name}.pnnx.param", samples, scales)}
    missing = {}
    for file, run in steps.items():
        file.unlink(missing_ok=True)
        try:
            run()
        except Exception as error:  # A tool may fail in any way; the other file is not affected.
            missing[file.name] = f"{type(error).__name__}: {error}"
    document = quantized_recipe() | {"missing": missing, "samples": len(arrays)}
    (folder / "int8.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    return missing


def main() -> None:
    folder, network, batch, ixion = Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    name = folder_name(network, batch)
    warnings.filterwarnings("ignore")
    for file, reason in quantize(network, batch, folder / name, ixion).items():
        print(f"{name}: no {file}: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
