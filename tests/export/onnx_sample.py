"""Writes small ONNX files with inputs and outputs to `tests/onnx`, in the layout of ONNX's own tests.

    pip install -r tests/export/requirements.txt
    python tests/export/onnx_sample.py                 all
    python tests/export/onnx_sample.py 'conv*'         those whose names match
    python tests/export/onnx_sample.py --list          their names

Modules in `onnxing/samples` have the samples, each with the operators of a family. Outputs are those of ONNX's reference evaluator,
and onnxruntime must agree. `tests/onnx/operators.tsv` lists the operators, the versions of the operator set in which samples have
them, and the samples; the operators of the newest set that no sample has are printed.
"""

import argparse
import collections
import fnmatch
import importlib
import shutil
import sys
import traceback
import warnings
from pathlib import Path

import onnx

from onnxing import samples
from onnxing.building import SAMPLES, write

ROOT = Path(__file__).resolve().parents[1] / "onnx"
LIST = ROOT / "operators.tsv"
MOST_BYTES = 300_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of samples, or patterns")
    parser.add_argument("--list", action="store_true", help="prints the names of all samples")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for module in sorted(Path(samples.__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"onnxing.samples.{module.stem}")
    names = [name for name in sorted(SAMPLES) if any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.patterns)]
    if arguments.list:
        print("\n".join(names))
        return 0
    failed, covered = [], collections.defaultdict(list)
    for name in names:
        try:
            made = SAMPLES[name]()
            shutil.rmtree(ROOT / name, ignore_errors=True)
            operators, unchecked = write(made, ROOT / name)
        except Exception:  # One that fails does not stop the others.
            traceback.print_exc(limit=-2)
            failed.append(name)
            continue
        if unchecked:
            print(f"{name}: not checked by onnxruntime: {unchecked}")
        for operator in operators:
            covered[operator].append((made.opsets, name))
    if arguments.patterns == ["*"]:
        finish(covered)
    if failed:
        print(f"not written: {', '.join(failed)}")
    return 1 if failed else 0


def finish(covered: dict[str, list]) -> None:
    """Removes folders of samples that are no more, writes the list, and says what is missing."""
    for folder in ROOT.iterdir():
        if folder.is_dir() and folder.name not in SAMPLES:
            shutil.rmtree(folder)
    lines = []
    for operator in sorted(covered, key=lambda name: ("." in name, name)):
        domain = operator.rpartition(".")[0]
        versions = sorted({opsets.get(domain, 0) for opsets, _ in covered[operator]})
        lines.append(f"{operator}\t{' '.join(map(str, versions))}\t{' '.join(name for _, name in covered[operator])}\n")
    LIST.write_text("".join(lines))
    newest = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain and not schema.deprecated}
    print(f"{len(SAMPLES)} samples, {len(newest & set(covered))} of {len(newest)} operators; without a sample: "
          f"{', '.join(sorted(newest - set(covered)))}")
    size = sum(file.stat().st_size for file in ROOT.rglob("*") if file.is_file())
    print(f"{size} bytes")
    assert size <= MOST_BYTES, f"more than {MOST_BYTES} bytes"


if __name__ == "__main__":
    sys.exit(main())
