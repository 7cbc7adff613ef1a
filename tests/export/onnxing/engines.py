"""The runtimes that the tests run through: Ixion, and ONNX's own, to check the tests themselves."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

# A command that takes longer has failed; the limit of a whole test is that of `run`.
COMMAND_SECONDS = 60


class Refused(Exception):
    """The model is refused, with a reason."""


class Crashed(Exception):
    """A process died, or gave an error that tells of a mistake in it."""


class Wrong(Exception):
    """What came out is not what the test expects."""


def called(command: list) -> None:
    """Runs a command that has to succeed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMMAND_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Crashed(f"the command took longer than {COMMAND_SECONDS} s") from error
    if done.returncode < 0 or "panicked at" in done.stderr:
        raise Crashed(f"exit code {done.returncode}: {done.stderr.strip()}")
    if done.returncode != 0:
        raise Refused(done.stderr.strip() or f"exit code {done.returncode}, without a message")


class Command:
    """Ixion's command, which reads and writes `.npy` files."""

    def __init__(self, command: list[str]):
        self.command = command or ["ixion"]
        self.scratch = tempfile.TemporaryDirectory()

    def load(self, path: Path):
        def run(inputs: list) -> list:
            outputs = Path(self.scratch.name) / "outputs"
            shutil.rmtree(outputs, ignore_errors=True)
            outputs.mkdir()
            files = []
            for at, array in enumerate(inputs):
                if array.dtype.kind not in "biufc" or array.dtype.name == "bfloat16":
                    raise Refused(f"no .npy file has the type {array.dtype.name}")
                files += ["--input", outputs.with_name(f"in_{at}.npy")]
                np.save(files[-1], array)
            called([*self.command, "run", path, *files, "--output", outputs, "--threads", "1"])
            count = len(list(outputs.glob("out_*.npy")))
            return [np.load(outputs / f"out_{at}.npy") for at in range(count)]
        return run


class Ixion:
    """Ixion's Python package; with a converter, which writes a PNNX file, it loads that file instead."""

    def __init__(self, converter: list[str], threads: int = 1):
        import ixion

        self.ixion, self.converter, self.threads = ixion, converter, threads
        self.scratch = tempfile.TemporaryDirectory()

    def load(self, path: Path):
        """A function of the inputs in their order that returns a list of outputs."""
        file = self.converted(path) if self.converter else path
        model = self.call(self.ixion.load, file, threads=self.threads)

        def run(inputs: list) -> list:
            if len(inputs) != len(model.inputs):
                names = ", ".join(info.name for info in model.inputs)
                raise Wrong(f"{len(inputs)} inputs are given, but the loaded model has {len(model.inputs)}: {names}")
            results = self.call(model, *inputs)
            return list(results) if isinstance(results, tuple) else [results]
        run.model = model
        return run

    def converted(self, path: Path) -> Path:
        written = Path(self.scratch.name) / "out.pnnx.param"
        for old in Path(self.scratch.name).iterdir():
            old.unlink()
        paths = iter([str(path), str(written)])
        words = [next(paths) if word == "{}" else word for word in self.converter]
        called([*words, *paths])
        return written

    def call(self, function, *arguments, **named):
        try:
            return function(*arguments, **named)
        except self.ixion.Error as error:
            raise Refused(f"{'load' if named else 'run'}: {error}") from error
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # A panic.
            raise Crashed(f"{type(error).__name__}: {error}") from error


class OnnxRuntime:
    """onnxruntime, on the processor; a `plain` one does not fuse operators."""

    def __init__(self, threads: int = 1, plain: bool = False):
        import onnxruntime

        self.onnxruntime = onnxruntime
        self.options = onnxruntime.SessionOptions()
        self.options.log_severity_level = 4
        if plain:
            self.options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self.options.intra_op_num_threads = self.options.inter_op_num_threads = threads

    def load(self, path: Path):
        try:
            session = self.onnxruntime.InferenceSession(str(path), self.options, ["CPUExecutionProvider"])
        except Exception as error:
            raise Refused(str(error)) from error
        names = [info.name for info in session.get_inputs()]

        def run(inputs: list) -> list:
            try:
                return session.run(None, dict(zip(names, inputs)))
            except Exception as error:
                raise Refused(str(error)) from error
        return run


class Reference:
    """The reference evaluator of the package `onnx`."""

    def load(self, path: Path):
        import onnx
        from onnx.reference import ReferenceEvaluator

        from .layout import inputs_of

        model = onnx.load(path)
        try:
            evaluator = ReferenceEvaluator(model)
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        names = [info.name for info in inputs_of(model)]

        def run(inputs: list) -> list:
            try:
                results = evaluator.run(None, dict(zip(names, inputs)))
            except Exception as error:
                raise Refused(f"{type(error).__name__}: {error}") from error
            return [result if isinstance(result, list) or result is None else np.asarray(result) for result in results]
        return run


ENGINES = {
    "ixion": Ixion,
    "command": Command,
    "onnxruntime": lambda converter: OnnxRuntime(),
    "reference": lambda converter: Reference(),
}
