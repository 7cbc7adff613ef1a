"""Compares the plans that Ixion makes of a network's ONNX file and of its PNNX file: operators, results and times.

    pip install -r tests/export/requirements.txt ultralytics==8.4.190
    python tests/export/onnx_networks.py make target/onnx_nets resnet18 bert_base    no names: all nine
    python tests/export/onnx_networks.py run target/onnx_nets

The networks are those of `benches/compare.py`, with seeded weights. For each, `benches/compare/make.py` writes the PNNX file and
`NAME.onnx`, by PyTorch's tracing exporter; `make` adds `NAME.dynamo.onnx`, by the newer one, and `NAME.dynamic.onnx`, whose batch
has any size (for words, their number, too). The plan of an ONNX file should have the same operators as that of the PNNX file, and
take as long. `--binary` is that of `onnx_suite.py`.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from onnxing.engines import Crashed, Ixion, Refused
from onnxing.timing import geometric_mean, in_turns

BENCHES = Path(__file__).resolve().parents[2] / "benches"
NAMES = "resnet18 resnet50 mobilenet_v2 mobilenet_v3_small efficientnet_b0 vit_b_16 bert_base yolov5nu unet_resnet18".split()
VARIANTS = ["onnx", "dynamo.onnx", "dynamic.onnx"]
# That of `benches/compare/make.py`: exporters fold batch norms.
TOLERANCE = 1e-3
# The differences between two plans that are printed, the first ones.
SHOWN = 6


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("make", "export the networks"), ("run", "compare the plans"), ("one", argparse.SUPPRESS)):
        command = commands.add_parser(name, help=what)
        command.add_argument("folder", type=Path)
        command.add_argument("names", nargs="*", help="networks (default: all nine)")
        command.add_argument("--binary", metavar="CMD", default="", help="a command that converts a file to PNNX")
        command.add_argument("--rounds", type=int, default=5, help="turns of each plan (default: 5; 0: no times)")
        command.add_argument("--all", action="store_true", help="print all differences between plans")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in NAMES]:
        parser.error(f"unknown network {unknown[0]!r}; there are {', '.join(NAMES)}")
    return arguments


def main() -> int:
    arguments = parse()
    if arguments.command == "one":
        one(arguments.folder / arguments.names[0], arguments)
        return 0
    names = arguments.names or NAMES
    if arguments.command == "run":
        return run(names, arguments)
    for name in names:
        # Each network has a process of its own, which keeps memory small.
        folder = arguments.folder / name
        if not (folder / f"{name}.pnnx.param").is_file() or not (folder / f"{name}.onnx").is_file():
            subprocess.run([sys.executable, BENCHES / "compare" / "make.py", arguments.folder, name], check=True)
        if not all((folder / f"{name}.{variant}").is_file() for variant in VARIANTS):
            code = f"import onnx_networks; onnx_networks.export({name!r}, {str(folder)!r})"
            path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
            subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": path})
        print(name, flush=True)
    return 0


def export(name: str, folder: str) -> None:
    """Writes the files of the newer exporter."""
    import torch

    sys.path.insert(0, str(BENCHES))
    from compare import nets
    from compare.recipe import SEED

    torch.set_num_threads(1)
    network, x = nets.prepare(name, SEED, 1)
    dynamic = {0: torch.export.Dim("batch")}
    if name == "bert_base":
        dynamic[1] = torch.export.Dim("words", max=512)
    for variant, shapes, sample in (("dynamo", None, x), ("dynamic", (dynamic,), torch.cat([x, x]))):
        path = Path(folder) / f"{name}.{variant}.onnx"
        with torch.no_grad():
            torch.onnx.export(network, (sample,), path, input_names=["in0"], output_names=["out0"], dynamo=True,
                              dynamic_shapes=shapes, external_data=False, verbose=False)


def run(names: list[str], arguments: argparse.Namespace) -> int:
    ratios, failed = [], 0
    print(f"{'file':<34}{'verdict':<9}{'operators':>10}{'plan':>11}{'difference':>12}{'ms':>9}{'pnnx ms':>9}{'ratio':>7}")
    for name in names:
        for line in in_process(name, arguments):
            failed += line["verdict"] != "pass" or bool(line["differences"])
            found = line.get("reason", "")
            if not found:
                same = "other" if line["differences"] else "the same"
                found = f"{line['operators']:>10}{same:>11}{line['difference']:>12.1e}"
            if "ms" in line:
                ratios.append(line["ms"] / line["pnnx"])
                found += f"{line['ms']:>9.2f}{line['pnnx']:>9.2f}{ratios[-1]:>7.3f}"
            print(f"{line['file']:<34}{line['verdict']:<9}{found}", flush=True)
            shown = len(line["differences"]) if arguments.all else SHOWN
            for difference in line["differences"][:shown]:
                print(f"    {difference}")
            if line["differences"][shown:]:
                print(f"    and {len(line['differences']) - shown} further ones: --all")
    if ratios:
        print(f"geometric mean of the times by ONNX / by PNNX: {geometric_mean(ratios):.3f}")
    return 1 if failed else 0


def in_process(name: str, arguments: argparse.Namespace) -> list[dict]:
    command = [sys.executable, __file__, "one", arguments.folder, name, f"--binary={arguments.binary}", f"--rounds={arguments.rounds}"]
    child = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or [""]
        lines.append({"file": name, "verdict": "crashed", "reason": f"exit code {child.returncode}: {last[0]}", "differences": []})
    return lines


def one(folder: Path, arguments: argparse.Namespace) -> None:
    name = folder.name
    x, wanted = np.load(folder / "in_0.npy"), np.load(folder / "out_0.npy")
    by_pnnx, engine = Ixion([]).load(folder / f"{name}.pnnx.param"), Ixion(shlex.split(arguments.binary))
    reference = operators(by_pnnx, x)
    for variant in VARIANTS:
        path = folder / f"{name}.{variant}"
        line = {"file": path.name, "differences": []}
        try:
            plan = engine.load(path)
            difference = float(np.abs(plan([x])[0] - wanted).max() / np.abs(wanted).max())
            found = operators(plan, x)
            line |= {"verdict": "pass" if difference <= TOLERANCE else "wrong", "difference": difference,
                     "operators": found.total(), "differences": differences(found, reference)}
            if arguments.rounds:
                line["ms"], line["pnnx"] = in_turns([lambda: plan([x]), lambda: by_pnnx([x])], arguments.rounds)
        except (Refused, Crashed) as error:
            reason = " ".join(str(error).replace(str(path), path.name).split())[:300]
            line |= {"verdict": type(error).__name__.lower(), "reason": reason}
        print(json.dumps(line), flush=True)


def operators(run, x: np.ndarray) -> Counter[str]:
    """The operators of a plan as they run: types, and the shapes of what goes in and out."""
    profile = run.model.profile(x, runs=1)
    return Counter(f"{plain(each.type)}: {', '.join(each.inputs)} → {', '.join(each.outputs)}" for each in profile.operators)


def plain(operator: str) -> str:
    """The name without its namespace: `nn.AdaptiveAvgPool2d` and `F.adaptive_avg_pool2d` are one operator."""
    return operator.rpartition(".")[2].replace("_", "").lower()


def differences(found: Counter[str], wanted: Counter[str]) -> list[str]:
    return [f"more: {count} × {operator}" for operator, count in sorted((found - wanted).items())] + \
        [f"less: {count} × {operator}" for operator, count in sorted((wanted - found).items())]


if __name__ == "__main__":
    sys.exit(main())
