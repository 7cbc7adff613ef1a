"""Compares Ixion with PyTorch on a GPU: f32 with TF32 and f16, from the input in the CPU's page-locked memory to the output there.

    python benches/compare_cuda.py pack networks          # needs PNNX; writes no weights
    cargo build --profile dist --features cuda --example compare
    python benches/compare_cuda.py run networks --ixion target/dist/examples/compare --rows resnet50/1/f16,bert_base/32/f32

A row is NETWORK/BATCH/PRECISION. Weights are drawn where rows are measured, so that a folder of all networks is small. PyTorch
runs eagerly and as `torch.compile(mode="reduce-overhead")` has it, which captures CUDA graphs; convolutional networks in the
layout that its guide recommends for tensor cores. All of them take turns in one run, and every output is compared with that
of PyTorch in f32 without TF32.

Exit codes:
  0  measured, and Ixion ran every row correctly
  1  measured, but Ixion failed at a row, or its results differ
  2  a usage error, or a package, a network or a program is missing
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare.arguments import say
from compare.measure import difference, summarise, warm_up
from compare.process import PeerError, Process

ROOT = Path(__file__).resolve().parents[1]
NETWORKS = {"resnet50": (1, 64), "mobilenet_v2": (1, 64), "vit_b_16": (1, 32), "bert_base": (1, 32), "yolov5s": (1,)}
ROWS = [f"{name}/{batch}/{precision}" for name, batches in NETWORKS.items() for batch in batches
        for precision in ("f32", "f16")]
TOLERANCE = {"f32": 2e-2, "f16": 5e-2}
"""How far from PyTorch's output in f32 is wrong, as a share of its largest number: TF32 has 10 bits behind the point, as f16."""


def pack(folder: Path, names: list[str]) -> int:
    """Writes the graphs of networks, and the PyTorch weights that each of their weights consists of."""
    for name in names:
        for batch in NETWORKS[name]:
            say(f"packing {name} for {batch}")
            command = [sys.executable, str(ROOT / "benches/compare/pack.py"), str(folder), name, str(batch)]
            if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
                return 2
    return 0


def row(text: str) -> tuple[str, int, str]:
    if text not in ROWS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(ROWS)}, got {text!r}")
    name, batch, precision = text.split("/")
    return name, int(batch), precision


def ixion(program: Path, device: str, precision: str) -> list[str]:
    command = [str(program)] if device == "cpu" else [str(program), "--device", device]
    return command if precision == "f32" else [*command, "--precision", precision]


def measure(arguments: argparse.Namespace, name: str, batch: int, precision: str, scratch: Path) -> dict[str, dict]:
    """The time and the error of each execution mode."""
    from compare import packed

    folder = arguments.folder / f"{name}-{batch}"
    network, x = packed.unpack(folder, name, batch, scratch)
    wanted = packed.output(network, x)
    results: dict[str, dict] = {}
    runs = {}
    for way in ("eager", "compiled"):
        try:
            runs[way] = packed.Torch(network, x, precision, way == "compiled", arguments.device)
            results[way] = {"difference": difference(runs[way].output(), wanted)}
        except Exception as error:  # Any error of a compiler becomes the reason in the report.
            say(f"{name}/{batch}/{precision}: {way}: {error}")
            results[way] = {"reason": f"{type(error).__name__}: {error}"[:500]}
            runs.pop(way, None)
    try:
        process = Process(tuple(ixion(arguments.ixion, arguments.device, precision)), 1)
        started = time.perf_counter()
        process.load(scratch / f"{name}.pnnx.param", [scratch / "in_0.npy"])
        process.run(2)
        first = time.perf_counter() - started
        process.ask("output", scratch / "out.npy")
        import numpy as np

        results["ixion"] = {"difference": difference(np.load(scratch / "out.npy"), wanted), "first_s": first}
        runs["ixion"] = process
    except PeerError as error:
        say(f"{name}/{batch}/{precision}: ixion: {error}")
        results["ixion"] = {"reason": str(error)}
    minima, medians = {way: [] for way in runs}, {way: [] for way in runs}
    counts = {way: warm_up(run, arguments.seconds) for way, run in runs.items()}
    for _ in range(arguments.rounds):
        for way, run in runs.items():
            times = sorted(run.run(counts[way]))
            minima[way].append(times[0])
            medians[way].append(times[len(times) // 2])
    for way, run in runs.items():
        results[way] |= summarise(minima[way], medians[way])
        run.close()
    return results


def line(title: str, results: dict[str, dict]) -> str:
    """A row of the table: milliseconds, and Ixion's time relative to the faster PyTorch mode."""
    def milliseconds(way: str) -> float | None:
        return results.get(way, {}).get("median_ms")

    peers = [taken for way in ("eager", "compiled") if (taken := milliseconds(way))]
    own = milliseconds("ixion")
    ratio = f"{own / min(peers):.2f}" if own and peers else "–"
    texts = [f"{taken:.3f}" if (taken := milliseconds(way)) else "–" for way in ("eager", "compiled", "ixion")]
    return f"| {title} | {' | '.join(texts)} | {ratio} |"


def is_right(results: dict[str, dict], precision: str) -> bool:
    return results["ixion"].get("difference", float("inf")) <= TOLERANCE[precision]


def run(arguments: argparse.Namespace) -> int:
    known: dict[str, dict] = {}
    right = True
    print("| network/batch/precision | eager, ms | compiled, ms | Ixion, ms | Ixion / faster |", flush=True)
    print("|---|---|---|---|---|", flush=True)
    for name, batch, precision in arguments.rows:
        title = f"{name}/{batch}/{precision}"
        with tempfile.TemporaryDirectory() as scratch:
            known[title] = measure(arguments, name, batch, precision, Path(scratch))
        right &= is_right(known[title], precision)
        print(line(title, known[title]), flush=True)
        if arguments.json:
            written = arguments.json.with_suffix(".part")
            written.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
            os.replace(written, arguments.json)
    return 0 if right else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packs = commands.add_parser("pack", help="writes graphs without weights")
    packs.add_argument("folder", type=Path)
    packs.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS),
                       help=f"of {','.join(NETWORKS)}")
    runs = commands.add_parser("run", help="measures rows")
    runs.add_argument("folder", type=Path)
    runs.add_argument("--ixion", type=Path, required=True, help="the example `compare`, built with the feature cuda")
    runs.add_argument("--rows", type=lambda text: [row(word) for word in text.split(",")],
                      default=[row(text) for text in ROWS], help="of NETWORK/BATCH/PRECISION (default: all)")
    runs.add_argument("--device", default="cuda", help="Ixion's name of the device; cpu tests the script (default: cuda)")
    runs.add_argument("--rounds", type=int, default=5, help="turns of each (default: 5)")
    runs.add_argument("--seconds", type=float, default=0.3, help="how long a turn takes (default: 0.3)")
    runs.add_argument("--json", type=Path, metavar="FILE", help="write all measurements as JSON")
    arguments = parser.parse_args()
    if unknown := set(getattr(arguments, "networks", [])) - set(NETWORKS):
        parser.error(f"no such network: {', '.join(sorted(unknown))}")
    return arguments


def main() -> int:
    arguments = parse()
    try:
        if arguments.command == "pack":
            return pack(arguments.folder.resolve(), arguments.networks)
        return run(arguments)
    except ModuleNotFoundError as error:
        say(f"{error}: pip install -r benches/requirements.txt")
        return 2


if __name__ == "__main__":
    sys.exit(main())
