"""Writes the cases of `tests/cases`: models, inputs, and PyTorch's results.

    python tests/export/cases.py                 all cases
    python tests/export/cases.py 'torch_*' nn_GRU  those whose names match
    python tests/export/cases.py --list          their names

Needs the packages of `requirements.txt`. Every case has its own seed, so that it can be rewritten alone.
"""

import argparse
import fnmatch
import importlib
import shutil
import sys
import traceback
from pathlib import Path

import torch

from case import CASES, ROOT, TOLD_ROOT, root_of, write_case

FAMILIES = Path(__file__).resolve().parent / "families"


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the cases of tests/cases.")
    parser.add_argument("patterns", nargs="*", default=["*"], help="names, or patterns such as 'torch_*'")
    parser.add_argument("--list", action="store_true", help="prints the names and writes nothing")
    arguments = parser.parse_args()
    for family in sorted(FAMILIES.glob("[a-z]*.py")):
        importlib.import_module(f"families.{family.stem}")
    names = [name for name in CASES if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.patterns)]
    if arguments.list:
        print("\n".join(names))
        return 0
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    return write(names, remove=arguments.patterns == ["*"])


def write(names: list[str], remove: bool) -> int:
    """Writes these cases; with `remove`, removes folders without a case."""
    failed, size = [], 0
    for index, name in enumerate(names):
        print(f"\r\033[K{index + 1}/{len(names)} {name}", end="", flush=True, file=sys.stderr)
        try:
            size += write_case(name)
        except Exception:
            failed.append(name)
            print(f"\n{name}:\n{traceback.format_exc()}", file=sys.stderr)
            shutil.rmtree(root_of(name) / name)
    print(f"\r\033[K{len(names) - len(failed)} cases, {size / 1e6:.2f} MB", file=sys.stderr)
    if remove:
        for folder in [*ROOT.iterdir(), *TOLD_ROOT.iterdir()]:
            if folder.is_dir() and (folder.name not in CASES or folder.parent != root_of(folder.name)):
                shutil.rmtree(folder)
    if failed:
        print(f"not written: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
