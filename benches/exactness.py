"""Measures how exact Ixion's results are in f32, beside PyTorch's own: both are compared with PyTorch in f64.

    pip install -r benches/requirements.txt -r tests/export/requirements.txt
    python benches/exactness.py --json exactness.json --markdown benches/results/exactness.md
    python benches/exactness.py --models resnet18,hrnet --threads 1 --rounds 0
    python benches/exactness.py --ixion target/release/ixion --folder target/compare --no-make

Each network of `benches/compare.py`, and ten of `tests/export/networks.py`, is run on several random inputs: by PyTorch in
f64 and in f32 with the same weights, and by Ixion with its default plan, with --fast, and with --interpret. An error is the
distance from PyTorch's output in f64, relative to the largest absolute value of that output. The rule: the largest and the
mean error of the default plan and of the interpreter are at most twice those of PyTorch in f32.

The interpreter also runs each network in f64. There it must agree with PyTorch in f64, both with the weights of PNNX's file,
which differ from those of the network where PNNX has folded batch norms.

Exit codes:
  0  measured, and the rule is kept
  1  measured, but a network breaks the rule, or cannot be made or run
  2  a usage error, or a package or the command is missing
  130  interrupted; earlier measurements are reported
"""

import argparse
import json
import sys
from importlib.metadata import PackageNotFoundError

NEEDED = "pip install -r benches/requirements.txt -r tests/export/requirements.txt"

try:
    from compare import exact, exact_report, machine
except ModuleNotFoundError as error:
    print(f"{error}: {NEEDED}", file=sys.stderr)
    sys.exit(2)

from compare.arguments import at_least, child, keep, new_parser, parsed, publish, say
from compare.peers import BuildError, ixion_command
from compare.recipe import NETWORKS, read_made

VERSION = 1
"""The version of the JSON file, incremented when the meaning of a field changes."""
FEWEST = 4
"""The minimum number of inputs: the largest error of a single one is mostly chance."""


def parse() -> argparse.Namespace:
    parser = new_parser(__doc__, exact.ALL)
    parser.add_argument("--inputs", type=at_least(FEWEST, int), default=FEWEST,
                        help=f"sets of random inputs of each network (default: {FEWEST})")
    parser.add_argument("--rounds", type=at_least(0, int), default=5,
                        help="turns of measuring times; 0: no times (default: 5)")
    parser.add_argument("--no-make", action="store_true",
                        help="use the networks of `compare.py` that are in --folder, whatever versions made them")
    parser.add_argument("--ixion", metavar="PROGRAM", help="a build of the command `ixion` instead of this source's")
    return parsed(parser)


def prepare(name: str, arguments: argparse.Namespace) -> None:
    """Makes a network and its references, unless they exist."""
    folder = arguments.folder / name
    if name in NETWORKS:
        is_made = folder.is_dir() if arguments.no_make else read_made(folder) is not None
        if not is_made and arguments.no_make:
            raise exact.Failed(f"{folder} does not exist")
        if not is_made and (reason := child("make.py", arguments.folder, name)):
            raise exact.Failed(reason)
    try:
        known = json.loads((folder / "exact/exact.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = None
    script = folder / f"{name}.pt"
    # The references are older than a network that was made again.
    is_old = script.is_file() and known and script.stat().st_mtime > (folder / "exact/exact.json").stat().st_mtime
    if known != exact.recipe(arguments.inputs) or is_old:
        if reason := child("references.py", "network", arguments.folder, name, arguments.inputs):
            raise exact.Failed(reason)


def document(arguments: argparse.Namespace, program: str, of: str) -> dict:
    """The document before any measurement."""
    return {"version": VERSION, "machine": machine.describe(), "ixion": {"program": program, "version": of},
            "rule": exact.RULE, "rule_in_f64": exact.WIDE_RULE, "threads": arguments.threads,
            "rounds": arguments.rounds, "seconds": arguments.seconds, **exact.recipe(arguments.inputs),
            "busy": None, "networks": {}}


def measure_all(arguments: argparse.Namespace, known: dict) -> None:
    """Adds the results, and writes the `--json` file after each network."""
    shares = []
    for name in arguments.models:
        try:
            prepare(name, arguments)
            subject = exact.Subject(known["ixion"]["program"], arguments.folder / name, arguments.inputs)
            shares.append(machine.busy())
            result = exact.measure(subject, arguments.threads, arguments.rounds, arguments.seconds,
                                   lambda text, name=name: say(f"{name}: {text}"))
            result |= {"broken": exact.broken(result)}
        except exact.Failed as reason:
            result = {"reason": str(reason)}
            say(f"{name}: {reason}")
        known["networks"][name] = result
        known["busy"] = max((share for share in shares if share is not None), default=None)
        keep(known, arguments)


def is_wrong(result: dict) -> bool:
    """Whether a network breaks a rule, or could not be measured."""
    return "reason" in result or "reason" in result["f64"] or bool(result["broken"])


def main() -> int:
    arguments = parse()
    try:
        program, of = ixion_command(arguments.ixion, arguments.target_dir, say)
    except BuildError as error:
        say(str(error))
        return 2
    known, code = document(arguments, program, of), 0
    try:
        measure_all(arguments, known)
    except PackageNotFoundError as error:
        say(f"{error}: {NEEDED}")
        return 2
    except KeyboardInterrupt:
        code = 130
    publish(exact_report.markdown(known), arguments)
    return code or int(any(map(is_wrong, known["networks"].values())))


if __name__ == "__main__":
    sys.exit(main())
