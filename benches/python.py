"""Measures Ixion from Python: what a call costs beside the same call in Rust and in onnxruntime, and how it scales.

    pip install -r benches/requirements.txt
    maturin build --profile dist --out target/wheels --manifest-path crates/ixion-python/Cargo.toml
    pip install target/wheels/ixion-*.whl
    cargo build --profile dist --example compare
    python benches/python.py --ixion target/dist/examples/compare --wheel target/wheels/ixion-*.whl --json python.json
    python benches/python.py --rows call,scaling --rounds 11
    python benches/python.py --rows ray --ray-rows 2000000      # needs examples/ray/requirements.txt

| row | what is measured |
|---|---|
| call | one run of `model_file/digits`, one picture, by Rust's `run_reusing`, `context(x, out=y)`, `model(x)`, and onnxruntime |
| copy | 50 MB in and out: how much memory a run takes beyond the arrays, and the time, beside NumPy's own copy of them |
| import | the time of `import ixion` in a new interpreter, without that of NumPy |
| wheel | the size of the wheel |
| scaling | runs per second of one Python thread, two and so on, each with a one-thread context |
| latency | the time of a run over the number of pictures in it, of the digits and of ResNet-18 |
| compile | `ixion.compile` of ResNet-18 over the time that PNNX itself takes |
| ray | classified rows per second of two workers over those of one |

Everything takes turns: in each round, each way runs for --seconds. A time is the median over rounds of each round's fastest
run; all runs use one thread, and stay on one core unless they scale. The program in Rust must have the profile of the wheel.
`benches/python_plots.py` draws the file of --json.

Exit codes:
  0  measured, and every limit is kept
  1  measured, but a limit is exceeded, or a result is wrong
  2  a usage error, or a package or a program is missing
"""

import argparse
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from compare import machine
from compare.arguments import chosen, keep, positive, publish, say
from compare.process import PeerError, Process
from compare.turns import Way, in_turns, peak_growth, runs_per_second, silenced, timed

NEEDED = "pip install -r benches/requirements.txt, and the wheel of crates/ixion-python"
ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "model_file/digits/digits.pnnx.param"
LIMITS = {
    "overhead_us": ("≤", 5.0), "over_onnxruntime": ("≤", 0.7), "copied_mb": ("≤", 5.0), "import_ms": ("≤", 40.0),
    "wheel_mb": ("≤", 8.0), "two_threads": ("≥", 1.9), "compile_over_pnnx": ("≤", 1.3), "two_ray_workers": ("≥", 1.8),
}
"""What each figure should be, at most or at least."""
BATCHES = {"digits": (1, 4, 16, 64, 256), "resnet18": (1, 2, 4, 8)}
"""The numbers of pictures of the row `latency`."""
VERSION = 2
"""The version of the JSON file, incremented when the meaning of a field changes."""


class Missing(Exception):
    """Something that a row needs is not there."""


def rust(program: Path, scratch: Path, x: object) -> tuple[Process, Way]:
    """The example `compare`, which calls `run_reusing` in a loop."""
    import numpy as np
    np.save(scratch / "x.npy", x)
    process = Process((str(program),), 1)
    process.load(DIGITS, [scratch / "x.npy"])
    count = max(1, round(0.1 / (min(process.run(50)) / 1e3)))

    def turn(seconds: float) -> float:
        begin, best = time.perf_counter(), float("inf")
        while time.perf_counter() - begin < seconds:
            best = min(best, *process.run(count))
        return best / 1e3
    return process, turn


def digits_in_torch(scratch: Path) -> object:
    """The module that `ixion convert` writes in Python."""
    import ixion
    source = scratch / "digits_pnnx.py"
    if ixion.main(["convert", str(DIGITS), "--python", str(source)]):
        raise Missing("`ixion convert` failed")
    # It reads the weights from its own folder.
    shutil.copy(DIGITS.with_suffix(".bin"), scratch)
    spec = importlib.util.spec_from_file_location("digits_pnnx", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Model().eval()


def resnet18() -> object:
    import torch
    import torchvision
    torch.manual_seed(0)
    return torchvision.models.resnet18().eval()


def onnx_session(module: object, shape: tuple[int, ...], scratch: Path, **settings: object) -> object:
    """A session of onnxruntime for a module with any number of pictures, with one thread."""
    import onnxruntime
    import torch
    path = str(scratch / "model.onnx")
    with silenced():
        torch.onnx.export(module, (torch.zeros(shape),), path, dynamo=False, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for name, value in settings.items():
        setattr(options, name, value)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def check(name: str, found: object, wanted: object) -> None:
    import numpy as np
    if not np.allclose(found, wanted, rtol=1e-3, atol=1e-4):
        raise ValueError(f"{name}: the results differ from those of onnxruntime")


def bound(session: object, x: object) -> object:
    """A binding of the input, so that a run does not copy it."""
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu")
    return binding


def onnxruntime_overhead(module: object, scratch: Path, x: object, runs: int = 2000) -> float:
    """What a call costs in seconds beyond the run in C++, of which onnxruntime's own profile has the time; the cheaper of a plain
    call and one with bound inputs."""
    def measured(call: Callable[[object], Callable[[], object]]) -> float:
        session = onnx_session(module, x.shape, scratch, enable_profiling=True, profile_file_prefix=str(scratch / "profile"))
        run, walls = call(session), []
        for _ in range(runs):
            start = time.perf_counter()
            run()
            walls.append(time.perf_counter() - start)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        inside = [event["dur"] for event in events if event.get("name") == "model_run"]
        if len(inside) != runs:
            raise Missing(f"onnxruntime's profile has {len(inside)} of {runs} runs")
        # Its times are whole microseconds, rounded down.
        return statistics.median(wall - (us + 0.5) / 1e6 for wall, us in zip(walls, inside))

    def plain(session: object) -> Callable[[], object]:
        return lambda: session.run(None, {"x": x})

    def with_binding(session: object) -> Callable[[], object]:
        binding = bound(session, x)
        return lambda: session.run_with_iobinding(binding)
    return min(measured(plain), measured(with_binding))


def call(arguments: argparse.Namespace, scratch: Path) -> dict:
    import ixion
    import numpy as np
    if not arguments.ixion:
        raise Missing("--ixion: the example `compare` is needed for the same call in Rust")
    x, y = np.load(DIGITS.with_name("in_0.npy"))[:1].copy(), np.empty((1, 10), np.float32)
    model, module = ixion.load(DIGITS), digits_in_torch(scratch)
    context, session = model.context(), onnx_session(module, x.shape, scratch)
    binding = bound(session, x)
    session.run_with_iobinding(binding)
    wanted = session.run(None, {"x": x})[0]
    for name, found in (("out", context(x, out=y)), ("call", model(x)), ("bound", binding.copy_outputs_to_cpu()[0])):
        check(name, found, wanted)
    with machine.pinned(machine.cores()[:1]):
        process, in_rust = rust(arguments.ixion, scratch, x)
        times = in_turns({
            "rust": in_rust, "context_out": timed(lambda: context(x, out=y)), "model": timed(lambda: model(x)),
            "onnxruntime": timed(lambda: session.run(None, {"x": x})),
            "onnxruntime_bound": timed(lambda: session.run_with_iobinding(binding)),
        }, arguments.rounds, arguments.seconds)
        process.close()
        theirs = onnxruntime_overhead(module, scratch, x)
    overhead = times["context_out"] - times["rust"]
    return {f"{name}_us": value * 1e6 for name, value in times.items()} | {
        "overhead_us": overhead * 1e6, "onnxruntime_overhead_us": theirs * 1e6, "over_onnxruntime": overhead / theirs,
        "whole_call_over_onnxruntime": times["context_out"] / min(times["onnxruntime"], times["onnxruntime_bound"])}


def copying_model(scratch: Path) -> Path:
    """A model that returns its input."""
    path = scratch / "copy.pnnx.param"
    path.write_text("7767517\n3 2\npnnx.Input x 0 1 0 #0=(?)f32\ntorch.clone c 1 1 0 1 #0=(?)f32 #1=(?)f32\n"
                    "pnnx.Output y 1 0 1 #1=(?)f32\n", encoding="utf-8")
    return path


def address(array: object) -> int:
    return array.__array_interface__["data"][0]


def copy(arguments: argparse.Namespace, scratch: Path) -> dict:
    """A copy that nobody sees would be as large as an array; what is returned must be the caller's memory."""
    import ixion
    import numpy as np
    import torch
    x, y = np.full(12_500_000, 1, np.float32), np.full(12_500_000, 2, np.float32)
    model, grown = ixion.load(copying_model(scratch)), []
    for given, target in ((x, y), (torch.from_numpy(x), torch.from_numpy(y))):
        # What any first run needs.
        model.context()(given[:100], out=target[:100])
        context, results = model.context(), []
        try:
            grown.append(peak_growth(lambda: results.append(context(given, out=target))))
        except OSError as error:
            raise Missing(f"the peak of memory is unknown here: {error}") from None
        if address(np.asarray(results[0])) != address(y) or not np.array_equal(x, y):
            raise ValueError("the result is not in the array of `out`")
        y.fill(2)
    context = model.context()
    with machine.pinned(machine.cores()[:1]):
        times = in_turns({"model": timed(lambda: context(x, out=y)), "numpy": timed(lambda: np.copyto(y, x))},
                         arguments.rounds, arguments.seconds)
    return {"model_ms": times["model"] * 1e3, "numpy_ms": times["numpy"] * 1e3, "copied_mb": max(grown) / 1e6}


def seconds_to_import(module: str) -> float:
    code = f"import time; import numpy; s = time.perf_counter(); import {module}; print(time.perf_counter() - s)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def importing(arguments: argparse.Namespace, scratch: Path) -> dict:
    times = in_turns({name: lambda _, name=name: seconds_to_import(name) for name in ("ixion", "onnxruntime")},
                     2 * arguments.rounds, 0)
    return {"import_ms": times["ixion"] * 1e3, "onnxruntime_import_ms": times["onnxruntime"] * 1e3}


def wheel(arguments: argparse.Namespace, scratch: Path) -> dict:
    if not arguments.wheel:
        raise Missing("--wheel: the file is needed")
    return {"wheel_mb": arguments.wheel.stat().st_size / 1e6}


def scaling(arguments: argparse.Namespace, scratch: Path) -> dict:
    import ixion
    import numpy as np
    cores = machine.cores()
    if len(cores) < 2:
        raise Missing("two cores are needed")
    model = ixion.load(DIGITS)
    # 64 pictures: at one, the interpreter's lock between two calls would be a tenth of the time.
    x = np.repeat(np.load(DIGITS.with_name("in_0.npy")), 7, 0)[:64].copy()
    session = onnx_session(digits_in_torch(scratch), (1, *x.shape[1:]), scratch)
    check("scaling", model(x), session.run(None, {"x": x})[0])

    def ours() -> Callable[[], object]:
        context, out = model.context(), np.empty((64, 10), np.float32)
        return lambda: context(x, out=out)

    def theirs() -> Callable[[], object]:
        return lambda: session.run(None, {"x": x})

    def way(work: Callable[[], Callable[[], object]], threads: int) -> Way:
        def turn(seconds: float) -> float:
            # Threads run where the one that starts them may.
            with machine.pinned(cores[:threads]):
                return runs_per_second(work, threads, seconds)
        return turn
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= len(cores)]
    ways = {"ixion": ours, "onnxruntime": theirs}
    rates = in_turns({(name, count): way(work, count) for name, work in ways.items() for count in counts},
                     arguments.rounds, arguments.seconds)
    curves = {name: [rates[name, count] for count in counts] for name in ways}
    return {"two_threads": rates["ixion", 2] / rates["ixion", 1],
            "onnxruntime_two_threads": rates["onnxruntime", 2] / rates["onnxruntime", 1],
            "curves": {"digits": {"threads": counts, **curves}}}


def latency(arguments: argparse.Namespace, scratch: Path) -> dict:
    """Milliseconds of a run for each number of pictures."""
    import ixion
    import numpy as np
    import torch
    digits, network = digits_in_torch(scratch), resnet18()
    with silenced():
        compiled = ixion.compile(network, (torch.zeros(1, 3, 224, 224),), dynamic={0: "batch"})
    subjects = {"digits": (ixion.load(DIGITS), digits, (1, 8, 8)), "resnet18": (compiled, network, (3, 224, 224))}
    curves = {}
    for name, (model, module, shape) in subjects.items():
        session = onnx_session(module, (1, *shape), scratch)
        curves[name] = {"batches": list(BATCHES[name]), "ixion": [], "onnxruntime": []}
        for batch in BATCHES[name]:
            x = np.random.default_rng(0).random((batch, *shape), np.float32)
            context, y = model.context(), session.run(None, {"x": x})[0]
            check(name, model(x), y)
            with machine.pinned(machine.cores()[:1]):
                times = in_turns({"ixion": timed(lambda: context(x, out=y)),
                                  "onnxruntime": timed(lambda: session.run(None, {"x": x}))}, arguments.rounds, arguments.seconds)
            for runtime, seconds in times.items():
                curves[name][runtime].append(seconds * 1e3)
    return {"curves": curves}


def compiling(arguments: argparse.Namespace, scratch: Path) -> dict:
    """PNNX's own time is that of `pnnx.export` on the same module."""
    import ixion
    import pnnx
    import torch
    network, x = resnet18(), torch.randn(1, 3, 224, 224)

    def export() -> None:
        pnnx.export(network, f"{tempfile.mkdtemp(dir=scratch)}/resnet18.pt", (x,))

    def compiled() -> None:
        ixion.compile(network, (x,), cache=False)
    with silenced():
        times = in_turns({"pnnx": timed(export), "ixion": timed(compiled)}, min(arguments.rounds, 3), 0)
    return {"pnnx_s": times["pnnx"], "compile_s": times["ixion"], "compile_over_pnnx": times["ixion"] / times["pnnx"]}


def ray_rate(rows: int, workers: int) -> float:
    """Classified rows per second of this number of workers, in a cluster of its own, without the time of its start."""
    code = (f"import sys, time; sys.path[:0] = [{str(ROOT / 'examples/ray')!r}, {str(ROOT / 'examples')!r}]\n"
            f"import classify\n"
            f"classify.connect(num_cpus={workers + 1}, include_dashboard=False, log_to_driver=False)\n"
            f"run = lambda rows: classify.accuracy(classify.classified(rows, {workers}, least={workers}))\n"
            f"run({workers} * classify.BATCH * 8)\n"
            f"s = time.perf_counter(); count, right = run({rows})\n"
            "print('rate', count / (time.perf_counter() - s), count, right >= classify.LEAST_ACCURACY)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    rates = [line.split() for line in done.stdout.splitlines() if line.startswith("rate ")]
    if not rates:
        raise Missing(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the program ended without a word")
    if rates[0][2:] != [str(rows), "True"]:
        raise ValueError(f"of {rows} rows, {rates[0][2]} came out, or too many were wrong")
    return float(rates[0][1])


def with_ray(arguments: argparse.Namespace, scratch: Path) -> dict:
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(3):
        for workers, rates in found.items():
            rates.append(ray_rate(arguments.ray_rows, workers))
    one, two = (statistics.median(rates) for rates in found.values())
    return {"one_ray_worker_per_s": one, "two_ray_workers_per_s": two, "two_ray_workers": two / one}


ROWS = {"call": call, "copy": copy, "import": importing, "wheel": wheel, "scaling": scaling, "latency": latency,
        "compile": compiling, "ray": with_ray}


def is_kept(name: str, value: float) -> bool:
    sign, limit = LIMITS[name]
    return value <= limit if sign == "≤" else value >= limit


def markdown(known: dict) -> str:
    """The report: every figure with its limit, then everything that was measured."""
    described = known["machine"]
    lines = [f"{described['processor']}, {described['cores']} cores, {described['date']}. Versions: "
             f"{', '.join(f'{name} {version}' for name, version in known['versions'].items())}.", "",
             "| figure | measured | wanted | kept |", "|---|--:|--:|---|"]
    for row, found in known["rows"].items():
        if "reason" in found:
            lines.append(f"| {row} | – | – | {found['reason']} |")
        for name, value in found.items():
            if name in LIMITS:
                sign, limit = LIMITS[name]
                lines.append(f"| {name} | {value:.2f} | {sign} {limit:g} | {'yes' if is_kept(name, value) else 'NO'} |")
    for row, found in known["rows"].items():
        for name, curve in found.get("curves", {}).items():
            along = next(iter(curve))
            lines += ["", f"| {row} of {name}: {along} | " + " | ".join(map(str, curve[along])) + " |",
                      "|---|" + "--:|" * len(curve[along])]
            lines += [f"| {runtime} | " + " | ".join(f"{value:.3g}" for value in curve[runtime]) + " |"
                      for runtime in ("ixion", "onnxruntime")]
    lines += ["", "| measured | |", "|---|--:|"]
    lines += [f"| {row}: {name} | {value:.3f} |" for row, found in known["rows"].items() for name, value in found.items()
              if name not in LIMITS and isinstance(value, float)]
    return "\n".join(lines) + "\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=chosen(ROWS), default=[name for name in ROWS if name != "ray"],
                        help=f"of {', '.join(ROWS)} (default: all but ray)")
    parser.add_argument("--rounds", type=positive(int), default=7, help="turns of each way (default: 7)")
    parser.add_argument("--seconds", type=positive(float), default=0.5, help="how long a turn takes (default: 0.5)")
    parser.add_argument("--ixion", type=Path, metavar="PROGRAM", help="a build of the example `compare`")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="the wheel that is installed")
    parser.add_argument("--ray-rows", type=positive(int), default=400_000, help="rows for Ray (default: 400000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report, which is also printed")
    arguments = parser.parse_args()
    for path in (arguments.ixion, arguments.wheel):
        if path and not path.is_file():
            parser.error(f"{path} does not exist")
    return arguments


def versions() -> dict[str, str]:
    import ixion
    import numpy
    import onnxruntime
    return {"python": sys.version.split()[0], "ixion": ixion.__version__, "numpy": numpy.__version__,
            "onnxruntime": onnxruntime.__version__}


def main() -> int:
    arguments = parse()
    try:
        known = {"version": VERSION, "machine": machine.describe(), "versions": versions(), "busy": machine.busy(), "rows": {}}
    except ModuleNotFoundError as error:
        say(f"{error}: {NEEDED}")
        return 2
    if (known["busy"] or 0) > 0.1:
        say(f"other processes use {known['busy']:.0%} of the cores: times mean little")
    code = 0
    for name in arguments.rows:
        say(f"measuring {name}")
        try:
            with tempfile.TemporaryDirectory() as scratch:
                known["rows"][name] = ROWS[name](arguments, Path(scratch))
        except (Missing, ModuleNotFoundError, PeerError) as reason:
            known["rows"][name], code = {"reason": str(reason)}, 2
        keep(known, arguments)
    publish(markdown(known), arguments)
    figures = [(name, value) for found in known["rows"].values() for name, value in found.items() if name in LIMITS]
    return code or int(not all(is_kept(name, value) for name, value in figures))


if __name__ == "__main__":
    sys.exit(main())
