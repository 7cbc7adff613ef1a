"""What the programs in `benches/` share: arguments, messages, and how results are written."""

import argparse
import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from . import machine
from .peers import ROOT


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def chosen(known: Collection[str]):
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


def at_least(least: float, kind: type):
    """Returns a parser of numbers that are not smaller than `least`."""
    def parse(text: str):
        if (number := kind(text)) < least:
            raise argparse.ArgumentTypeError(f"expected a number of at least {least}")
        return number
    parse.__name__ = kind.__name__
    return parse


def positive(kind: type):
    """Returns a parser of numbers greater than zero."""
    def parse(text: str):
        if (number := kind(text)) <= 0:
            raise argparse.ArgumentTypeError("expected a positive number")
        return number
    parse.__name__ = kind.__name__
    return parse


def new_parser(description: str, networks: Collection[str]) -> argparse.ArgumentParser:
    """A parser with the arguments that all programs have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=chosen(networks), default=list(networks), help=f"of {', '.join(networks)}")
    parser.add_argument("--threads", type=counts, default=[1, 2], help="numbers of threads (default: 1,2)")
    parser.add_argument("--seconds", type=positive(float), default=0.5, help="how long a turn takes (default: 0.5)")
    parser.add_argument("--folder", type=Path, default=ROOT / "target/compare", help="where networks are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report, which is also printed")
    parser.add_argument("--target-dir", type=Path, help="cargo's target directory for builds")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, with folders as absolute paths. Ends the program if there are fewer cores than threads."""
    arguments = parser.parse_args()
    cores = len(machine.cores())
    if cores and max(arguments.threads) > cores:
        parser.error(f"there are {cores} cores for {max(arguments.threads)} threads")
    arguments.folder = arguments.folder.resolve()
    arguments.target_dir = arguments.target_dir and arguments.target_dir.resolve()
    return arguments


def child(script: str, *words: object) -> str | None:
    """Runs a script of this folder, which says what it does on stderr; returns the reason if it fails."""
    command = [sys.executable, str(ROOT / "benches/compare" / script), *map(str, words)]
    done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    if done.stderr:
        say(done.stderr.rstrip())
    lines = done.stderr.strip().splitlines()
    return (lines[-1] if lines else f"{script} ended with {done.returncode}") if done.returncode else None


def keep(measured: dict, arguments: argparse.Namespace) -> None:
    """Writes the `--json` file."""
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def publish(report: str, arguments: argparse.Namespace) -> None:
    """Prints the report, and writes the `--markdown` file."""
    print(report, end="")
    if arguments.markdown:
        arguments.markdown.write_text(report, encoding="utf-8")
