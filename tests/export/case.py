"""The definition of a case, and how it is written.

A case is a folder under `tests/cases` that `ixion verify` reads: `model.param`, `model.bin` where the model has weights,
and `arrays.npz` with the inputs `in_N` and PyTorch's outputs `out_N`; further sets of other sizes are `arrays_1.npz`
and so on. Models that cannot give these outputs are under `tests/told` instead. There are two kinds:

- *exported*: PNNX exports a module, so the text is like those of users;
- *direct*: the text is written here, one line per call of an operator, and PyTorch computes the results. This covers what
  PNNX's tracing does not: all element types, empty tensors, every rank, spellings of other versions.
"""

import contextlib
import io
import os
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pnnx
import torch
from torch import Tensor, nn

from text import Line, Text, dtype_name

ROOT = Path(__file__).resolve().parent.parent / "cases"
# Models that cannot give PyTorch's results, about which Ixion says so.
TOLD_ROOT = ROOT.parent / "told"
# NumPy has no such types: they are stored as the wider type and converted in the model.
TRAVELS_AS = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def flatten(values) -> list[Tensor]:
    """Tensors of nested lists and tuples, depth first, as expected by `ixion verify`."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    return [tensor for value in values for tensor in flatten(value)]


def as_array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().numpy()


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    """Like `numpy.savez`, but a third smaller for small arrays: no zip64, no padding of headers."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        for name, array in arrays.items():
            header = repr(np.lib.format.header_data_from_array_1_0(array)) + "\n"
            start = np.lib.format.magic(1, 0) + len(header).to_bytes(2, "little") + header.encode()
            file.writestr(zipfile.ZipInfo(f"{name}.npy"), start + array.tobytes())
    return packed.getvalue()


@contextlib.contextmanager
def quiet():
    """Suppresses the output of PNNX's program, which lists its passes on standard output and in warnings."""
    kept = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        for target, original in zip((1, 2), kept):
            os.dup2(original, target)
            os.close(original)
        os.close(nowhere)


class Folder:
    """The folder of a case. Files whose content would not change are not written."""

    def __init__(self, name: str):
        self.path = root_of(name) / name
        self.path.mkdir(parents=True, exist_ok=True)
        self.written: set[str] = set()

    def write(self, name: str, data: bytes) -> None:
        self.written.add(name)
        path = self.path / name
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)

    def write_set(self, index: int, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        arrays = {f"in_{i}": as_array(tensor) for i, tensor in enumerate(inputs)}
        arrays |= {f"out_{i}": as_array(tensor) for i, tensor in enumerate(outputs)}
        self.write("arrays.npz" if index == 0 else f"arrays_{index}.npz", npz(arrays))

    def write_settings(self, tolerance: float | None, values: bool, feature: str | None = None, double: float | None = None) -> None:
        settings = [f"tolerance = {tolerance}"] if tolerance is not None else []
        settings += [f"tolerance_f64 = {double}"] if double is not None else []
        settings += [] if values else ["values = false"]
        settings += [f'feature = "{feature}"'] if feature is not None else []
        if settings:
            self.write("case.toml", ("\n".join(settings) + "\n").encode())

    def close(self) -> int:
        """Removes what an earlier version of the case left; returns the size in bytes."""
        for file in self.path.iterdir():
            if file.name not in self.written:
                file.unlink()
        return sum(file.stat().st_size for file in self.path.iterdir())


class Export:
    """A module for PNNX to export, with one or more sets of inputs.

    With several sets, the dimensions in which the first two differ become dynamic (`?`). A case with a `feature` runs only
    where Ixion was built with it. The PyTorch in PNNX has no LAPACK: what asks for it, as all with the feature `linalg` and
    what is said to do so, must not run there, so PNNX is not told the inputs, and writes a graph without shapes.
    Modules are traced, unless they are to be `scripted`.
    """

    def __init__(self, module: nn.Module, *inputs: Tensor, others: list[tuple[Tensor, ...]] = [],
                 tolerance: float | None = None, values: bool = True, optlevel: int = 2, feature: str | None = None,
                 lapack: bool = False, scripted: bool = False):
        self.module, self.sets, self.scripted = module.eval(), [inputs, *others], scripted
        self.lapack = lapack or feature == "linalg"
        self.tolerance, self.values, self.optlevel, self.feature = tolerance, values, optlevel, feature

    def write(self, folder: Folder) -> None:
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            self.export()
            folder.write("model.param", Path("model.pnnx.param").read_bytes())
            weights = Path("model.pnnx.bin").read_bytes()
        # An archive without entries consists only of its end record.
        if weights.startswith(b"PK\x03\x04"):
            folder.write("model.bin", weights)
        for index, inputs in enumerate(self.sets):
            with torch.no_grad():
                outputs = flatten(self.module(*[tensor.clone() for tensor in inputs]))
            folder.write_set(index, list(inputs), outputs)
        folder.write_settings(self.tolerance, self.values, self.feature)

    def export(self) -> None:
        # Otherwise PyTorch would trace attention as one operator that PNNX does not support.
        torch.backends.mha.set_fastpath_enabled(False)
        second = self.sets[1] if len(self.sets) > 1 else None
        with quiet(), torch.no_grad():
            if self.scripted:
                module = torch.jit.script(self.module)
            else:
                module = torch.jit.trace(self.module, self.sets[0], check_trace=False)
            module.save("model.pt")
            if self.lapack:
                without_inputs("model.pt")
                subprocess.run([pnnx.EXEC_PATH, "model.pt", f"optlevel={self.optlevel}"], check=False)
                return
            try:
                pnnx.convert("model.pt", inputs=self.sets[0], inputs2=second, optlevel=self.optlevel)
            except (SyntaxError, ImportError, NameError, AttributeError, TypeError):
                pass  # For some models, PNNX writes invalid Python; the graph is not affected.
        assert Path("model.pnnx.param").stat().st_size > 0, "PNNX wrote no graph"


def without_inputs(path: str) -> None:
    """Removes the traced inputs from a model's file."""
    with zipfile.ZipFile(path) as file:
        kept = {name: file.read(name) for name in file.namelist() if "/traced_inputs" not in name}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, data in kept.items():
            file.writestr(name, data)


class Model:
    """A direct case: calls of operators, gathered into one text."""

    def __init__(self, tolerance: float | None = None, values: bool = True, feature: str | None = None, double: float | None = None):
        self.tolerance, self.values, self.feature, self.double = tolerance, values, feature, double
        self.text = Text()
        self.inputs: list[Tensor] = []
        self.known: dict[int, tuple[Tensor, str]] = {}
        self.outputs: list[Tensor] = []
        self.results: list[str] = []

    def op(self, op_type: str, *args: Tensor | list[Tensor], f: Callable | None = None,
           weights: dict[str, Tensor] | None = None, keys: list[str] | None = None,
           named: dict[str, Tensor] | None = None, outputs: int | None = None, shown: bool = True, **params) -> list[Tensor]:
        """Adds one call of an operator and its results as outputs of the model; returns them, to be inputs of others.

        `args` are inputs by position and `named` inputs by key (behind them; `keys` names the positions), `params`
        what the text says. PyTorch is asked through `f(*args, **named)` where it is given; else `torch.`, `F.` and
        `Tensor.` are called by name with the parameters, and `nn.` makes a module whose weights go along. `outputs`
        keeps only the first ones; those that are not `shown` are no outputs of the model, only inputs of further calls.
        """
        named = named or {}
        if f is None:
            f, weights = reference(op_type, params, weights)
        with torch.no_grad():
            results = flatten(f(*args, **named))[:outputs]
        inputs = flatten(list(args) + list(named.values()))
        keys = [None] * (len(inputs) - len(named)) if keys is None else list(keys)
        line = Line(op_type, self.text.fresh(op_type.rsplit(".")[-1].rsplit(":")[-1]))
        line.inputs = list(zip((self.operand(tensor) for tensor in inputs), [*keys, *named], strict=True))
        line.params = params
        line.weights = weights or {}
        for result in results:
            name = self.text.operand(result)
            line.outputs.append(name)
        self.text.add(line)
        for name, result in zip(line.outputs, results, strict=True):
            if shown:
                self.output(name, result)
            self.known[id(result)] = (result, name)
        return results

    def operand(self, tensor: Tensor) -> str:
        """The name under which the text has this input; the same tensor is one input."""
        if id(tensor) in self.known:
            return self.known[id(tensor)][1]
        stored = tensor.to(TRAVELS_AS.get(tensor.dtype, tensor.dtype))
        name = self.text.operand(stored)
        self.text.add(Line("pnnx.Input", f"input_{len(self.inputs)}", outputs=[name]))
        self.inputs.append(stored)
        if stored.dtype != tensor.dtype:
            name = self.converted(name, tensor)
        self.known[id(tensor)] = (tensor, name)
        return name

    def output(self, name: str, result: Tensor) -> None:
        travels = TRAVELS_AS.get(result.dtype)
        if travels is not None:
            result = result.to(travels)
            name = self.converted(name, result)
        self.results.append(name)
        self.outputs.append(result)

    def converted(self, name: str, wanted: Tensor) -> str:
        line = Line("Tensor.to", self.text.fresh("to"), inputs=[(name, "input")])
        line.params = {"copy": False, "dtype": wanted.dtype, "non_blocking": False}
        line.outputs = [self.text.operand(wanted)]
        self.text.add(line)
        return line.outputs[0]

    def write(self, folder: Folder) -> None:
        text, weights = self.text.finish(self.results)
        folder.write("model.param", text)
        if weights:
            folder.write("model.bin", weights)
        folder.write_set(0, self.inputs, self.outputs)
        folder.write_settings(self.tolerance, self.values, self.feature, self.double)


def reference(op_type: str, params: dict, weights: dict[str, Tensor] | None):
    """The PyTorch function of an operator with this name and parameters, and its weights."""
    space, name = op_type.rsplit(".", 1)
    if space == "nn":
        module = getattr(nn, name)(**params).eval()
        state = {key: tensor for key, tensor in module.state_dict().items() if key != "num_batches_tracked"}
        return module, weights or state
    if space == "Tensor":
        return lambda x, *rest, **named: getattr(x, name)(*rest, **named, **params), weights
    spaces = {"F": torch.nn.functional, "torch": torch, "torch.fft": torch.fft}
    function = getattr(spaces[space], name)
    return lambda *args, **named: function(*args, **named, **params), weights


CASES: dict[str, Callable[[], Export | Model]] = {}
TOLD: set[str] = set()


def root_of(name: str) -> Path:
    """The folder in which a case has its folder."""
    return TOLD_ROOT if name in TOLD else ROOT


def exported(function: Callable[[], Export]) -> Callable[[], Export]:
    """Registers a function that returns an `Export`; its name is the folder's."""
    assert function.__name__ not in CASES, f"two cases are called {function.__name__}"
    CASES[function.__name__] = function
    return function


def told(function: Callable[[], Export]) -> Callable[[], Export]:
    """As `exported`, for a model that cannot give PyTorch's results: its folder is in `tests/told`."""
    TOLD.add(function.__name__)
    return exported(function)


def direct(function: Callable[[Model], None] | None = None, *, tolerance: float | None = None,
           values: bool = True, feature: str | None = None, double: float | None = None):
    """Registers a function that fills a `Model`; its name is the folder's. `double` is the tolerance of f64 and c128."""
    def register(function: Callable[[Model], None]):
        def fill() -> Model:
            model = Model(tolerance, values, feature, double)
            function(model)
            return model
        assert function.__name__ not in CASES, f"two cases are called {function.__name__}"
        CASES[function.__name__] = fill
        return function
    return register if function is None else register(function)


def write_case(name: str) -> int:
    """Writes a case with its own seed; returns its size in bytes."""
    torch.manual_seed(zlib.crc32(name.encode()))
    folder = Folder(name)
    CASES[name]().write(folder)
    return folder.close()
