"""Runs models in PyTorch that `ixion convert --python` has written, and compares their results with the stored ones.

    python tests/export/converted.py target/release/ixion                        the cases of tests/cases
    python tests/export/converted.py target/release/ixion 'tests/cases/torch_*'  some of them
    python tests/export/converted.py target/release/ixion FOLDER ...             models of other folders

A model is a folder with a `.param`, and with the inputs and outputs of PyTorch: `arrays.npz`, `arrays_1.npz` and so on,
or `in_0.npy`, `out_0.npy` and so on. A folder of such folders stands for all of them. Every model with outputs is

    right    its results are the stored ones, for all sets of inputs,
    skipped  PyTorch itself does not give the stored results, or a package is missing,
    refused  the command lists operators that it cannot write, and ends with exit code 1,
    failed   the command or the Python source fails in another way, or
    wrong    its results differ.

All but the right ones are printed, then the counts. The exit code is 1 if a model failed or is wrong.
"""

import argparse
import collections
import glob
import importlib.util
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch

CASES = Path(__file__).resolve().parent.parent / "cases"
# Cases whose results are not those of a single call of PyTorch.
BEYOND_PYTORCH = {
    "complex_halves": "PyTorch has no functions of complex halves",
    "numerics_sums": "PyTorch's sums of millions of elements are less exact",
    "torch_prod": "PyTorch rounds products of halves after every factor",
}
# The tolerance of `ixion verify`, relative plus absolute.
TOLERANCE = 1e-4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ixion", type=Path, help="the command")
    parser.add_argument("models", nargs="*", default=[str(CASES)], help="folders of models, or patterns of their names")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keeps the Python sources in this folder")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        sources = arguments.keep or Path(scratch)
        sources.mkdir(parents=True, exist_ok=True)
        for folder in folders(arguments.models):
            verdict, reason = check(arguments.ixion.resolve(), folder, sources / f"{folder.name}.py")
            counts[verdict] += 1
            if verdict != "right":
                print(f"{verdict:<8} {folder.name}: {reason}", flush=True)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in ("right", "skipped", "refused", "failed", "wrong")))
    return 1 if counts["failed"] + counts["wrong"] else 0


def folders(patterns: list[str]) -> list[Path]:
    """The folders of models that these patterns stand for."""
    def has_outputs(folder: Path) -> bool:
        return any(folder.glob("*.param")) and any(any(folder.glob(name)) for name in ("arrays.npz", "out_0.npy"))
    found = []
    for pattern in patterns:
        for path in sorted(map(Path, glob.glob(pattern))):
            each = [path, *sorted(path.iterdir())] if path.is_dir() else []
            found += [folder for folder in each if folder.is_dir() and has_outputs(folder)]
    return found


def check(ixion: Path, folder: Path, source: Path) -> tuple[str, str]:
    """The verdict on a model, and the reason."""
    param = sorted(folder.glob("*.param"))[0]
    command = subprocess.run([ixion, "convert", param, "--python", source], capture_output=True, text=True, check=False)
    if command.returncode != 0:
        is_refused = command.returncode == 1 and "cannot be written as Python" in command.stderr
        return "refused" if is_refused else "failed", command.stderr.strip()
    if folder.name in BEYOND_PYTORCH:
        return "skipped", BEYOND_PYTORCH[folder.name]
    try:
        model = load(source).Model(param.with_suffix(".bin"))
    except ModuleNotFoundError as error:
        return "skipped", str(error)
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    settings = (folder / "case.toml").read_text() if (folder / "case.toml").is_file() else ""
    for number, (inputs, outputs) in enumerate(sets(folder)):
        try:
            with torch.no_grad():
                results = flatten(model(*inputs))
        except Exception as error:
            return "failed", f"set {number}: {type(error).__name__}: {error}\n    {line_of(error, source)}"
        difference = differ(results, outputs, settings)
        if difference is not None:
            return "wrong", f"set {number}: {difference}"
    return "right", ""


def load(source: Path):
    """The module that a source is."""
    spec = importlib.util.spec_from_file_location(f"converted_{source.stem}", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line_of(error: Exception, source: Path) -> str:
    """The line of the source that raised an error."""
    lines = [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(source)]
    return (lines or [""])[0]


def sets(folder: Path):
    """The stored inputs and outputs."""
    loose = {path.stem: np.load(path) for path in folder.glob("*_*.npy")}
    packed = [np.load(path) for path in sorted(folder.glob("arrays*.npz"))]
    for arrays in [loose, *packed] if loose else packed:
        def numbered(prefix: str, arrays=arrays) -> list[torch.Tensor]:
            count = sum(re.fullmatch(rf"{prefix}_\d+", name) is not None for name in arrays)
            return [torch.from_numpy(arrays[f"{prefix}_{index}"]) for index in range(count)]
        yield numbered("in"), numbered("out")


def flatten(value) -> list:
    """The values in nested tuples, lists and dictionaries, depth first. A list of numbers is a tensor."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        if value and all(isinstance(item, (bool, int, float)) for item in value):
            return [torch.as_tensor(value)]
        return [item for each in value for item in flatten(each)]
    return [value]


def differ(results: list, outputs: list[torch.Tensor], settings: str) -> str | None:
    """The first difference between results and stored outputs; `None` if there is none."""
    if len(results) != len(outputs):
        return f"{len(results)} outputs, not {len(outputs)}"
    tolerance = re.search(r"^tolerance = (\S+)", settings, re.MULTILINE)
    tolerance = float(tolerance[1]) if tolerance else TOLERANCE
    for index, (result, output) in enumerate(zip(results, outputs)):
        if not isinstance(result, torch.Tensor):
            result = torch.as_tensor(result).to(output.dtype)
        result = result.int_repr() if result.is_quantized else result.resolve_conj().resolve_neg()
        if (result.shape, result.dtype) != (output.shape, output.dtype):
            return f"output {index}: {list(result.shape)} {result.dtype}, not {list(output.shape)} {output.dtype}"
        if "values = false" in settings:
            continue
        if output.is_floating_point() or output.is_complex():
            error = tolerance + rounding(output, tolerance)
            same = torch.isclose(result, output, rtol=tolerance, atol=error, equal_nan=True)
        else:
            same = result == output
        if not same.all():
            place = tuple((~same).nonzero()[0].tolist())
            return f"output {index} at {list(place)}: {result[place].item()}, not {output[place].item()}"
    return None


def rounding(output: torch.Tensor, tolerance: float) -> float:
    """The rounding error of the largest element, which sums that cancel out may have. `ixion verify` accepts as much."""
    if output.dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        return 0.0
    parts = torch.view_as_real(output) if output.is_complex() else output
    largest = parts[parts.isfinite()].abs().max().item() if parts.isfinite().any() else 0.0
    return min(torch.finfo(output.dtype).eps * largest, 100 * tolerance)


if __name__ == "__main__":
    sys.exit(main())
