"""The runtimes that are compared: which file each reads, how its process is started, which version it is."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON_PEERS = {"onnxruntime": "onnx", "openvino": "onnx", "ncnn": "ncnn.param", "mnn": "mnn", "pytorch": "pt",
                "inductor": "pt2"}
RUST_PEERS = {"rten": "onnx", "tract": "onnx"}
NAMES = ["ixion", *PYTHON_PEERS, *RUST_PEERS]
QUANTIZED_PEERS = {"onnxruntime": "qdq.onnx", "openvino": "qdq.onnx"}
"""What runtimes read in int8."""
PRECISIONS = {"f32": NAMES, "bf16": ["ixion", "openvino", "ncnn", "mnn", "inductor"], "int8": ["ixion", *QUANTIZED_PEERS]}
"""The runtimes that run a network in a precision."""


class BuildError(Exception):
    """A program that cannot be built."""


@dataclass(frozen=True)
class Peer:
    """A runtime, or one of several builds or settings of Ixion."""

    name: str
    command: tuple[str, ...]
    """The command, without `--threads N` and the files of a network."""
    ending: str
    """The suffix of the file that it reads."""
    version: str
    options: tuple[tuple[str, str], ...] = ()
    """Options that name further files of the network, with the suffixes of these."""

    @property
    def is_ixion(self) -> bool:
        return self.ending == "pnnx.param"

    def files(self, folder: Path) -> list[Path]:
        """The files of a network that it reads: the model, and those of its options."""
        return [folder / f"{folder.name}.{ending}" for ending in (self.ending, *(ending for _, ending in self.options))]

    def command_for(self, folder: Path) -> tuple[str, ...]:
        """The command for the network in a folder, without `--threads N`."""
        _, *further = self.files(folder)
        words = ((option, str(path)) for (option, _), path in zip(self.options, further, strict=True))
        return (*self.command, *(word for pair in words for word in pair))


def cargo(arguments: list[str], target: Path | None, executable: str) -> str:
    """Builds a program for speed and returns its path."""
    command = ["cargo", "build", "--profile", "dist", "--message-format=json-render-diagnostics", *arguments]
    if target is not None:
        command += ["--target-dir", str(target)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BuildError(f"`{' '.join(command)}` failed with {done.returncode}")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    built = [message for message in messages if message.get("executable")]
    paths = [message["executable"] for message in built if message["target"]["name"] == executable]
    if not paths:
        raise BuildError(f"`{' '.join(command)}` did not build {executable}")
    return paths[-1]


def ixion_version() -> str:
    """The commit, and whether the working tree is dirty."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of unknown version"


def ixion_command(program: str | None, target: Path | None, say: Callable[[str], None]) -> tuple[str, str]:
    """The command `ixion` and its version: a program that was built before, or else that of this source."""
    if program is None:
        say("building the command ixion")
        return cargo(["--bin", "ixion"], target, "ixion"), ixion_version()
    path = str(Path(program).resolve())
    try:
        done = subprocess.run([path, "--version"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(str(error)) from None
    return path, done.stdout.strip().removeprefix("ixion ")


def locked(package: str) -> str:
    """The version of a package in the lock file of benches/peers."""
    lines = (ROOT / "benches/peers/Cargo.lock").read_text(encoding="utf-8").splitlines()
    at = lines.index(f'name = "{package}"')
    return lines[at + 1].split('"')[1]


def python_peer(name: str, precision: str) -> Peer:
    worker = str(ROOT / "benches/compare/worker.py")
    package = {"pytorch": "torch", "inductor": "torch", "mnn": "MNN"}.get(name, name)
    ending = (QUANTIZED_PEERS if precision == "int8" else PYTHON_PEERS)[name]
    return Peer(name, (sys.executable, worker, name, "--precision", precision), ending, version(package))


def collect(names: list[str], precision: str, target: Path | None, ixions: dict[str, str],
            variants: dict[str, list[str]], rust: str | None, say: Callable[[str], None]) -> list[Peer]:
    """The peers of these names, built where they are ours or Rust's.

    `ixions` are programs that were built before, by name; without any, that of this source is built and called `ixion`.
    `variants` are further arguments for the first of them, by name.
    """
    found = []
    if "ixion" in names:
        if not ixions:
            say("building Ixion")
            ixions = {"ixion": cargo(["--example", "compare"], target, "compare")}
            version_of = {"ixion": ixion_version()}
        else:
            version_of = {name: str(Path(path).resolve()) for name, path in ixions.items()}
        rounding = [] if precision == "f32" else ["--precision", precision]
        scales = (("--scales", "scales.json"),) if precision == "int8" else ()
        found += [Peer(name, (path, *rounding), "pnnx.param", version_of[name], scales) for name, path in ixions.items()]
        first = found[0]
        found += [replace(first, name=name, command=(*first.command, *extra)) for name, extra in variants.items()]
    found += [python_peer(name, precision) for name in names if name in PYTHON_PEERS]
    wanted = [name for name in names if name in RUST_PEERS]
    if wanted and rust is None:
        say("building rten and tract")
        # A separate folder, because its crates have other features than Ixion's.
        folder = target or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        manifest = ["--manifest-path", str(ROOT / "benches/peers/Cargo.toml"), "--locked"]
        rust = cargo(manifest, folder / "peers", "peers")
    return found + [Peer(name, (rust, name), RUST_PEERS[name], locked({"tract": "tract-onnx"}.get(name, name)))
                    for name in wanted]
