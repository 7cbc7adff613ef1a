"""Compares Ixion with other runtimes on this machine's CPU: in f32 or bf16, one image or text at a time or several.

    pip install -r benches/requirements.txt
    python benches/compare.py
    python benches/compare.py --models resnet18,bert_base --peers ixion,onnxruntime --threads 1 --rounds 3
    python benches/compare.py --peers ixion --ixion before=target/before --ixion after=target/after
    python benches/compare.py --variant bf16="--precision bf16" --tolerance 0.1
    python benches/compare.py --precision bf16 --batch 8

Networks have seeded random weights; nothing is downloaded. They are created once, in --folder. Each runtime has its own
process, which loads a network, returns its first output for comparison with PyTorch's, and then takes turns with the others:
each runs once per round.

Exit codes:
  0  measured, and Ixion ran every network correctly
  1  measured, but Ixion failed to run a network, or its results differ from PyTorch's
  2  a usage error, or a package, a network or a program is missing
  130  interrupted; earlier measurements are reported
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from compare import machine, report
from compare.peers import NAMES, PRECISIONS, ROOT, BuildError, Peer, collect
from compare.recipe import NETWORKS, folder_name, read_made

NEEDED = "pip install -r benches/requirements.txt"

try:
    from compare.measure import measure
except ModuleNotFoundError as error:
    print(f"{error}: {NEEDED}", file=sys.stderr)
    sys.exit(2)

VERSION = 1
"""The version of the JSON file, incremented when the meaning of a field changes."""
TOLERANCES = {"f32": 1e-3, "bf16": 0.1}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def chosen(known):
    """Returns a parser of lists such as `a,b` of known words."""
    def parse(text: str) -> list[str]:
        words = text.split(",")
        if unknown := [word for word in words if word not in known]:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(known)}, got {unknown[0]!r}")
        return list(dict.fromkeys(words))
    return parse


def counts(text: str) -> list[int]:
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError("expected a number of threads of at least 1")
    return found


def positive(kind):
    def parse(text: str):
        if (number := kind(text)) <= 0:
            raise argparse.ArgumentTypeError("expected a positive number")
        return number
    parse.__name__ = kind.__name__
    return parse


def named(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or name in NAMES[1:]:
        raise argparse.ArgumentTypeError("expected NAME=VALUE, with a name that is not used by a peer")
    return name, value


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=chosen(NETWORKS), default=list(NETWORKS), help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--peers", type=chosen(NAMES), default=NAMES, help=f"of {', '.join(NAMES)}")
    parser.add_argument("--threads", type=counts, default=[1, 2], help="numbers of threads (default: 1,2)")
    parser.add_argument("--rounds", type=positive(int), default=7, help="turns of each runtime (default: 7)")
    parser.add_argument("--seconds", type=positive(float), default=0.5, help="how long a turn takes (default: 0.5)")
    parser.add_argument("--batch", type=positive(int), default=1, help="how many images or texts at a time (default: 1)")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32",
                        help="what factors of products are rounded to, by the peers that can do so (default: f32)")
    parser.add_argument("--tolerance", type=positive(float),
                        help="maximum difference from PyTorch's output in f32, relative to its largest magnitude "
                        "(default: 1e-3, for bf16 0.1)")
    parser.add_argument("--folder", type=Path, default=ROOT / "target/compare", help="where networks are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report, which is also printed")
    parser.add_argument("--ixion", type=named, action="append", default=[], metavar="NAME=PROGRAM",
                        help="a build of the example `compare` instead of this source's; may be repeated")
    parser.add_argument("--variant", type=named, action="append", default=[], metavar="NAME=ARGUMENTS",
                        help="another run of the first Ixion with other arguments; may be repeated")
    parser.add_argument("--rust-peers", metavar="PROGRAM", help="a build of benches/peers instead of building it")
    parser.add_argument("--target-dir", type=Path, help="cargo's target directory for builds")
    parser.add_argument("--only-make", action="store_true", help="create the networks without measuring")
    arguments = parser.parse_args()
    cores = len(machine.cores())
    if cores and max(arguments.threads) > cores:
        parser.error(f"there are {cores} cores for {max(arguments.threads)} threads")
    arguments.tolerance = arguments.tolerance or TOLERANCES[arguments.precision]
    fitting = [name for name in arguments.peers if name in PRECISIONS[arguments.precision]]
    if not fitting:
        parser.error(f"none of {', '.join(arguments.peers)} runs f32 models in {arguments.precision}")
    for name in arguments.peers:
        if name not in fitting:
            say(f"{name} is left out: its f32 models cannot be run in {arguments.precision}")
    arguments.peers = fitting
    return arguments


def make(names: list[str], batch: int, folder: Path) -> bool:
    """Creates missing networks; returns whether all exist."""
    complete = True
    for name in names:
        if read_made(folder / folder_name(name, batch)):
            continue
        say(f"making {name}")
        command = [sys.executable, str(ROOT / "benches/compare/make.py"), str(folder), name, str(batch)]
        done = subprocess.run(command, stdout=sys.stderr, check=False)
        if done.returncode:
            say(f"{name} could not be made")
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
                if arguments.json:
                    arguments.json.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    arguments = parse()
    arguments.folder = arguments.folder.resolve()
    arguments.target_dir = arguments.target_dir and arguments.target_dir.resolve()
    try:
        if not make(arguments.models, arguments.batch, arguments.folder):
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
    text = report.markdown(known)
    print(text, end="")
    if arguments.markdown:
        arguments.markdown.write_text(text, encoding="utf-8")
    own = {peer.name for peer in peers if peer.is_ixion}
    rows = [row for of in known["results"].values() for row in of.values()]
    failed = any(row[name]["status"] != "fine" for row in rows for name in own & row.keys())
    return code or int(failed)


if __name__ == "__main__":
    sys.exit(main())
