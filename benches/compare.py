"""Compares Ixion with other runtimes on this machine's CPU: in f32, bf16 or int8, one image or text at a time or several.

    pip install -r benches/requirements.txt
    python benches/compare.py
    python benches/compare.py --models resnet18,bert_base --peers ixion,onnxruntime --threads 1 --rounds 3
    python benches/compare.py --peers ixion --ixion before=target/before --ixion after=target/after
    python benches/compare.py --variant bf16="--precision bf16" --tolerance 0.1
    python benches/compare.py --precision bf16 --batch 8
    python benches/compare.py --precision int8 --variant f32="--precision f32"

Networks have seeded random weights; nothing is downloaded. They are created once, in --folder. Each runtime has its own
process, which loads a network, returns its first output for comparison with PyTorch's, and then takes turns with the others:
each runs once per round.

In int8, activations and weights are quantised ahead, with ranges from random inputs: for Ixion by `ixion calibrate`, for the
others by onnxruntime's static quantisation, as a graph with QuantizeLinear and DequantizeLinear.

Exit codes:
  0  measured, and Ixion ran every network correctly
  1  measured, but Ixion failed to run a network, or its results differ from PyTorch's
  2  a usage error, or a package, a network or a program is missing
  130  interrupted; earlier measurements are reported
"""

import argparse
import shlex
import sys
import tempfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from compare import machine, report
from compare.arguments import child, chosen, keep, new_parser, parsed, positive, publish, say
from compare.peers import NAMES, PRECISIONS, BuildError, Peer, collect, ixion_command
from compare.recipe import NETWORKS, folder_name, read_made, read_quantized

NEEDED = "pip install -r benches/requirements.txt"

try:
    from compare.measure import measure
except ModuleNotFoundError as error:
    print(f"{error}: {NEEDED}", file=sys.stderr)
    sys.exit(2)

VERSION = 1
"""The version of the JSON file, incremented when the meaning of a field changes."""
TOLERANCES = {"f32": 1e-3, "bf16": 0.1, "int8": 0.5}
"""In int8, only nonsense is wrong: the report shows the deviations."""


def named(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or name in NAMES[1:]:
        raise argparse.ArgumentTypeError("expected NAME=VALUE, with a name that is not used by a peer")
    return name, value


def parse() -> argparse.Namespace:
    parser = new_parser(__doc__, NETWORKS)
    parser.add_argument("--peers", type=chosen(NAMES), default=NAMES, help=f"of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=positive(int), default=7, help="turns of each runtime (default: 7)")
    parser.add_argument("--batch", type=positive(int), default=1, help="how many images or texts at a time (default: 1)")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32",
                        help="bf16: what factors of products are rounded to, by the peers that can do so; int8: networks "
                        "that are quantised ahead (default: f32)")
    parser.add_argument("--tolerance", type=positive(float),
                        help="maximum difference from PyTorch's output in f32, relative to its largest magnitude "
                        f"(default: {', '.join(f'{of:g} in {name}' for name, of in TOLERANCES.items())})")
    parser.add_argument("--ixion", type=named, action="append", default=[], metavar="NAME=PROGRAM",
                        help="a build of the example `compare` instead of this source's; may be repeated")
    parser.add_argument("--variant", type=named, action="append", default=[], metavar="NAME=ARGUMENTS",
                        help="another run of the first Ixion with other arguments; may be repeated")
    parser.add_argument("--rust-peers", metavar="PROGRAM", help="a build of benches/peers instead of building it")
    parser.add_argument("--calibrate-with", metavar="PROGRAM",
                        help="a build of the command `ixion` instead of this source's, which finds the scales of int8 for "
                        "networks that have none yet")
    parser.add_argument("--only-make", action="store_true", help="create the networks without measuring")
    arguments = parsed(parser)
    arguments.tolerance = arguments.tolerance or TOLERANCES[arguments.precision]
    fitting = [name for name in arguments.peers if name in PRECISIONS[arguments.precision]]
    if not fitting:
        parser.error(f"none of {', '.join(arguments.peers)} runs the networks in {arguments.precision}")
    for name in arguments.peers:
        if name not in fitting:
            say(f"{name} is left out: it does not run the networks in {arguments.precision}")
    arguments.peers = fitting
    return arguments


def make(arguments: argparse.Namespace) -> bool:
    """Creates missing networks; returns whether all exist."""
    complete = True
    for name in arguments.models:
        if read_made(folder_of(arguments, name)):
            continue
        say(f"making {name}")
        if child("make.py", arguments.folder, name, arguments.batch):
            say(f"{name} could not be made")
            complete = False
    return complete


def quantize(arguments: argparse.Namespace) -> bool:
    """Quantises networks that are not yet; returns whether all are."""
    missing = [name for name in arguments.models if not read_quantized(folder_of(arguments, name))]
    complete, program = True, None
    for name in missing:
        program = program or ixion_command(arguments.calibrate_with, arguments.target_dir, say)[0]
        say(f"quantising {name}")
        if child("quantize.py", arguments.folder, name, arguments.batch, program):
            say(f"{name} could not be quantised")
            complete = False
    return complete


def document(arguments: argparse.Namespace, peers: list[Peer]) -> dict:
    """The document before any measurement."""
    return {"version": VERSION, "machine": machine.describe(), "threads": arguments.threads,
            "rounds": arguments.rounds, "seconds": arguments.seconds, "tolerance": arguments.tolerance,
            "batch": arguments.batch, "precision": arguments.precision,
            "peers": {peer.name: {"version": peer.version, "ixion": peer.is_ixion, "command": list(peer.command)}
                      for peer in peers},
            "networks": {name: read_made(folder_of(arguments, name)) for name in arguments.models}, "busy": {}, "results": {}}


def folder_of(arguments: argparse.Namespace, network: str) -> Path:
    return arguments.folder / folder_name(network, arguments.batch)


def measure_all(arguments: argparse.Namespace, peers: list[Peer], known: dict) -> None:
    """Adds the results, and writes the `--json` file after each network."""
    with tempfile.TemporaryDirectory() as scratch:
        for model in arguments.models:
            for threads in arguments.threads:
                title = f"{model}, {threads} thread{'s' if threads > 1 else ''}"
                known["busy"].setdefault(model, {})[str(threads)] = machine.busy()
                row = measure(peers, folder_of(arguments, model), threads, arguments.rounds, arguments.seconds,
                              arguments.tolerance, Path(scratch), lambda text, title=title: say(f"{title}: {text}"))
                known["results"].setdefault(model, {})[str(threads)] = row
                keep(known, arguments)


def main() -> int:
    arguments = parse()
    try:
        if not make(arguments) or (arguments.precision == "int8" and not quantize(arguments)):
            return 2
        if arguments.only_make:
            return 0
        variants = {name: shlex.split(text) for name, text in arguments.variant}
        peers = collect(arguments.peers, arguments.precision, arguments.target_dir, dict(arguments.ixion), variants,
                        arguments.rust_peers, say)
    except PackageNotFoundError as error:
        say(f"{error}: {NEEDED}")
        return 2
    except BuildError as error:
        say(str(error))
        return 2
    known, code = document(arguments, peers), 0
    try:
        measure_all(arguments, peers, known)
    except KeyboardInterrupt:
        code = 130
    publish(report.markdown(known), arguments)
    own = {peer.name for peer in peers if peer.is_ixion}
    rows = [row for of in known["results"].values() for row in of.values()]
    failed = any(row[name]["status"] != "fine" for row in rows for name in own & row.keys())
    return code or int(failed)


if __name__ == "__main__":
    sys.exit(main())
