"""How far Ixion's outputs, and PyTorch's own in f32, are from those of PyTorch in f64."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from . import machine
from .recipe import NETWORKS, RECIPE
from .widen import widen

ROOT = Path(__file__).resolve().parents[2]
EXPORTED = ("hrnet", "repvgg", "res2net", "cspdarknet", "convnextv2", "swin", "segformer", "vae_decoder",
            "whisper_encoder", "gpt2")
"""Networks of `tests/export/networks.py`; the other ones are those of `compare.py`."""
ALL = NETWORKS + EXPORTED
SEED = 0
RULE = 2.0
"""The largest ratio of Ixion's error to PyTorch's."""
WIDE_RULE = 1e-12
"""The largest error in f64, relative to the largest value."""
SETTINGS = {"default": (), "fast": ("--fast",), "interpret": ("--interpret",)}
"""The options of each way of running a network."""
RULED = ("default", "interpret")
"""The ways that keep the rule."""
PACKAGES = ("torch", "torchvision", "transformers", "timm", "ultralytics", "pnnx", "numpy")
LIMIT = 600.0
"""The timeout of a program, in seconds."""


class Failed(Exception):
    """A network cannot be measured, with the reason."""


@dataclass(frozen=True)
class Error:
    """The largest and the mean error, both relative to the largest value of their output."""

    largest: float
    mean: float

    def over(self, other: "Error") -> "Error":
        """The ratios of these errors to those of another result."""
        def ratio(own: float, wanted: float) -> float:
            if wanted:
                return own / wanted
            return float("inf") if own else 1.0
        return Error(ratio(self.largest, other.largest), ratio(self.mean, other.mean))

    def keeps(self, rule: float) -> bool:
        """Whether both are numbers and at most `rule`."""
        return self.largest <= rule and self.mean <= rule

    def document(self) -> dict:
        return {"largest": self.largest, "mean": self.mean}


def recipe(count: int) -> dict:
    """What the references depend on."""
    def found(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None
    return {"recipe": RECIPE, "seed": SEED, "inputs": count, "versions": {name: found(name) for name in PACKAGES}}


def error(found: list[list[np.ndarray]], wanted: list[list[np.ndarray]]) -> Error:
    """The error of the outputs of several inputs: the largest of all, and the mean over inputs and outputs."""
    largest, means = [], []
    for outputs, exact in zip(found, wanted, strict=True):
        for output, array in zip(outputs, exact, strict=True):
            if output.shape != array.shape:
                raise Failed(f"expected an output of shape {array.shape}, got {output.shape}")
            distance = np.abs(output.astype(np.float64) - array) / np.abs(array).max()
            largest.append(distance.max())
            means.append(distance.mean())
    return Error(float(np.max(largest)), float(np.mean(means)))


def call(command: list, what: str, cores: list[int] | None = None) -> str:
    """The output of a program, which runs on these cores."""
    try:
        with machine.pinned(cores or []):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", check=False,
                                  timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: no result within {LIMIT:.0f} s") from None
    if done.returncode:
        raise Failed(f"{what}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def numbered(folder: Path, kind: str) -> dict[int, Path]:
    """The files `KIND_0.npy` and so on, by their numbers, in their order."""
    found = {int(path.stem.rpartition("_")[2]): path for path in folder.glob(f"{kind}_*.npy")}
    return dict(sorted(found.items()))


class Subject:
    """A network with its references, and a build of Ixion to run it."""

    def __init__(self, ixion: str, folder: Path, count: int):
        self.ixion, self.param = ixion, folder / f"{folder.name}.pnnx.param"
        self.sets = [folder / "exact" / str(at) for at in range(count)]
        if not self.param.is_file():
            raise Failed(f"{self.param.name} does not exist; see the reason in made.json")
        self.outputs = list(numbered(self.sets[0], "f64"))
        if not self.outputs:
            raise Failed("it has no outputs of floats")
        self.wide = self.stored("f64")

    def stored(self, kind: str) -> list[list[np.ndarray]]:
        """The outputs of PyTorch."""
        return [[np.load(path / f"{kind}_{at}.npy") for at in self.outputs] for path in self.sets]

    def pytorch(self) -> Error:
        """The error of PyTorch in f32."""
        return error(self.stored("f32"), self.wide)

    def inputs(self, at: int) -> list:
        """The arguments for the inputs of a set."""
        return [word for path in numbered(self.sets[at], "in").values() for word in ("--input", path)]

    def run(self, param: Path, inputs: list, options: tuple, threads: int = 1) -> list[np.ndarray]:
        """The outputs of Ixion."""
        with tempfile.TemporaryDirectory() as scratch:
            command = [self.ixion, "run", param, *inputs, "--output", f"{scratch}/out", *options]
            # The interpreter has one thread, and no option for more.
            command += ["--threads", threads] if threads > 1 else []
            call(command, f"ixion run {' '.join(options)}".strip(), machine.cores()[:threads])
            return [np.load(f"{scratch}/out/out_{at}.npy") for at in self.outputs]

    def found(self, options: tuple, threads: int) -> list[list[np.ndarray]]:
        """The outputs of Ixion for all inputs."""
        return [self.run(self.param, self.inputs(at), options, threads) for at in range(len(self.sets))]

    def in_f64(self, python: str) -> dict:
        """How far the interpreter in f64 is from PyTorch in f64, both with PNNX's weights; and these weights' own error."""
        with tempfile.TemporaryDirectory() as scratch:
            scratch = Path(scratch)
            param, source, folder = scratch / "wide.pnnx.param", scratch / "wide.py", scratch / "0"
            folder.mkdir()
            inputs = [np.load(path) for path in numbered(self.sets[0], "in").values()]
            for at, array in enumerate(inputs):
                np.save(folder / f"in64_{at}.npy", array.astype(np.float64) if array.dtype == np.float32 else array)
            widen(self.param, param)
            given = [word for path in numbered(folder, "in64").values() for word in ("--input", path)]
            own = self.run(param, given, SETTINGS["interpret"])
            call([self.ixion, "convert", param, "--python", source], "ixion convert --python")
            references = ROOT / "benches/compare/references.py"
            call([python, references, "converted", source, param.with_suffix(".bin"), scratch], "PyTorch in f64")
            converted = [np.load(folder / f"pnnx64_{at}.npy") for at in self.outputs]
        return {"interpreter": error([own], [converted]).document(),
                "weights": error([converted], [self.wide[0]]).document()}

    def times(self, threads: int, rounds: int, seconds: float) -> dict[str, float]:
        """Milliseconds of a run with each setting, measured in turns: the median over rounds of the fastest runs."""
        minima: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name in ("default", "fast"):
                command = [self.ixion, "bench", self.param, *self.inputs(0), "--threads", threads, "--time", seconds,
                           "--json", *SETTINGS[name]]
                found = json.loads(call(command, "ixion bench", machine.cores()[:threads]))
                minima.setdefault(name, []).append(found["min_ms"])
        return {name: statistics.median(found) for name, found in minima.items()}


def same_bits(one: list[list[np.ndarray]], other: list[list[np.ndarray]]) -> bool:
    pairs = [pair for sets in zip(one, other, strict=True) for pair in zip(*sets, strict=True)]
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


def measure(subject: Subject, threads: list[int], rounds: int, seconds: float, say: Callable[[str], None]) -> dict:
    """The errors and times of one network."""
    pytorch = subject.pytorch()
    result = {"pytorch": pytorch.document(), "settings": {}, "ms": {}, "same_bits": True}
    for name, options in SETTINGS.items():
        say(name)
        first = None
        for count in threads if name != "interpret" else [1]:
            found = subject.found(options, count)
            of = error(found, subject.wide)
            result["settings"].setdefault(name, {})[str(count)] = {
                **of.document(), "ratio": of.over(pytorch).document()}
            first = first or found
            result["same_bits"] &= same_bits(first, found)
    say("f64")
    try:
        result["f64"] = subject.in_f64(sys.executable)
    except Failed as reason:
        result["f64"] = {"reason": str(reason)}
    if rounds:
        for count in threads:
            say(f"times, {count} thread{'s' if count > 1 else ''}")
            result["ms"][str(count)] = subject.times(count, rounds, seconds)
    return result


def broken(result: dict) -> list[str]:
    """The rules that a measured network breaks."""
    found = []
    for name in RULED:
        for threads, of in result["settings"][name].items():
            if not Error(**of["ratio"]).keeps(RULE):
                ratio = f"{of['ratio']['largest']:.2f} / {of['ratio']['mean']:.2f}"
                found.append(f"{name}, {threads} thread{'' if threads == '1' else 's'}: {ratio} times PyTorch's error")
    wide = result["f64"].get("interpreter")
    if wide is not None and not Error(**wide).keeps(WIDE_RULE):
        found.append(f"the interpreter in f64 is {wide['largest']:.1e} from PyTorch in f64")
    if not result["same_bits"]:
        found.append("the number of threads changes results")
    return found
