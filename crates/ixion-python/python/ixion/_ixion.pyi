"""Types of the extension module, which is written in Rust. Its names are those of the package ``ixion``."""

import builtins
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Union, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeAlias

from ._compile import Loss

__version__: str

_Path: TypeAlias = Union[str, os.PathLike[str]]
_Paths: TypeAlias = Union[_Path, Sequence[_Path]]
_Array: TypeAlias = Any
"""A NumPy array, a PyTorch tensor or another object with ``__dlpack__``, a buffer, a number, or nested lists of numbers."""
_Inputs: TypeAlias = Union[_Array, Mapping[str, _Array]]
"""An array, or all inputs by name."""
_Results: TypeAlias = Any
"""An array, or a tuple of arrays if a model has several outputs: PyTorch tensors if the first input is one, else NumPy arrays.

A dict of arrays, if the model was compiled from a module that returns one.
"""
_Out: TypeAlias = Union[_Array, Sequence[Union[_Array, None]], Mapping[str, _Array], None]
_Length: TypeAlias = Union[int, str, None]
_Shape: TypeAlias = Union[str, Sequence[_Length], Sequence[Sequence[int]]]
"""The lengths of an input's axes, ``("n", 3, None, 224)``, or three shapes: the smallest, the most likely and the largest."""
_Names: TypeAlias = Union[str, Sequence[str]]
_Layouts: TypeAlias = Literal["cheapest", "plain", "alternating", "narrowest"]
_Scales: TypeAlias = Union[_Path, "Scales", Mapping[str, float], None]
_Limits: TypeAlias = Union[int, str, Mapping[str, Any], None]
_Progress: TypeAlias = Union[Callable[..., Any], None]
"""Such as ``tqdm.tqdm``: called with ``total``; its result with ``update(1)`` after each step, and ``close()`` at the end."""
_Picture: TypeAlias = Union[_Path, bytes, "Picture", "_HasArray", "_HasInterface", "_HasRead"]
"""A ``Picture``; a PNG or JPEG file, by path, bytes or opened; an image of Pillow; an array of height × width × channels."""
_Pictures: TypeAlias = Union[list[_Picture], tuple[_Picture, ...], Iterator[_Picture]]

class _HasArray(Protocol):
    def __array__(self) -> NDArray[Any]: ...

class _HasInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class _HasRead(Protocol):
    def read(self) -> bytes: ...

class Error(Exception):
    """The base class of Ixion's exceptions."""

class ModelError(Error):
    """A model, or another file, cannot be used: the message says which line or operator, and what to do."""

class NotFoundError(ModelError, FileNotFoundError):
    """A file does not exist."""

class PlanError(ModelError):
    """A plan file is damaged, incomplete, or of another version or machine."""

class InputError(Error, ValueError):
    """Inputs, output arrays or arguments do not fit the model."""

class LimitError(Error):
    """A limit on sizes was exceeded, or memory is exhausted."""

class TimeoutError(Error, builtins.TimeoutError):
    """A run or a build took longer than allowed."""

class Cancelled(Error):
    """A run was cancelled."""

class DeviceError(Error):
    """A GPU failed, or a plan needs one."""

class PluginError(Error):
    """A plugin cannot be loaded, or failed."""

@final
class TensorInfo:
    """The name, shape and element type of an input or output."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str | None:
        """NumPy's name of the element type, such as ``float32``; None if it is unknown."""
    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """The lengths of the axes: a name for one that is known when the model runs; None if the number of axes is unknown."""
    @property
    def sample(self) -> tuple[int | str | None, ...] | None:
        """The shape that the model was exported with, or None."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Plan:
    """A model that is built. It does not change: any number of models, contexts and threads can share it."""

    @staticmethod
    def load(
        path: _Path,
        *,
        threads: int = 1,
        device: str | None = None,
        tf32: Literal["none", "convolutions", "all"] | None = None,
        check_kernels: bool = False,
        plugins: _Paths = (),
        limits: _Limits = None,
        map: bool = False,
        verify: bool = False,
    ) -> Plan:
        """Load a plan that ``save`` wrote. With ``map``, processes share the file's pages; it must not be modified meanwhile."""
    @staticmethod
    def from_bytes(
        data: bytes | bytearray | memoryview,
        *,
        threads: int = 1,
        device: str | None = None,
        tf32: Literal["none", "convolutions", "all"] | None = None,
        check_kernels: bool = False,
        plugins: _Paths = (),
        limits: _Limits = None,
        map: bool = False,
        verify: bool = False,
    ) -> Plan:
        """Load a plan from what ``to_bytes`` returned: bytes, or another object with a buffer."""
    def save(self, path: _Path) -> None:
        """Write the plan to a file. Readers see the old file or the new one, never a part of it."""
    def __copy__(self) -> Plan: ...
    def __deepcopy__(self, _memo: Any, /) -> Plan: ...
    def to_bytes(self) -> bytes:
        """The bytes of the file that ``save`` writes."""
    def _set_keys(self, keys: Sequence[str]) -> None: ...
    @property
    def inputs(self) -> list[TensorInfo]: ...
    @property
    def outputs(self) -> list[TensorInfo]: ...
    @property
    def threads(self) -> int: ...
    @property
    def weight_bytes(self) -> int: ...
    @property
    def operator_count(self) -> int: ...
    @property
    def card(self) -> str | None: ...
    @property
    def warnings(self) -> list[str]: ...

@final
class Model:
    """A model that is ready to run: ``y = model(x)``. Any number of threads can call it at once."""

    losses: tuple[Loss, ...]
    """What PNNX may have lost of a module that ``ixion.compile`` exported, although results agree; else empty."""

    def __new__(cls, plan: Plan) -> Model: ...
    def __call__(self, /, *inputs: _Inputs, out: _Out = None, timeout: float | None = None, **named: _Array) -> _Results:
        """Run the model on arrays in its order, or by name, ``model({"x": x})`` or ``model(x=x)``."""
    async def run_async(
        self, /, *inputs: _Inputs, out: _Out = None, timeout: float | None = None, **named: _Array
    ) -> _Results:
        """Run the model in a thread of the event loop's pool. Arguments are those of a call."""
    def context(self) -> Context:
        """A context of its own, for one thread at a time."""
    def clear(self) -> None:
        """Discard the contexts that are not in use, and so the memory of their activations."""
    def profile(self, /, *inputs: _Inputs, runs: int = 10, **named: _Array) -> Profile:
        """Measure each operator, over ``runs`` runs after some to warm up."""
    def timeline(self, /, *inputs: _Inputs, top: int | None = None, **named: _Array) -> str:
        """When each operator of a run begins and ends, as SVG; with ``top``, only the slowest."""
    def _repr_svg_(self) -> str | None: ...
    def __copy__(self) -> Model: ...
    def __deepcopy__(self, _memo: Any, /) -> Model: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def path(self) -> pathlib.Path | None: ...
    @property
    def inputs(self) -> list[TensorInfo]: ...
    @property
    def outputs(self) -> list[TensorInfo]: ...
    @property
    def threads(self) -> int: ...
    @property
    def card(self) -> str | None: ...
    @property
    def warnings(self) -> list[str]: ...

@final
class Context:
    """Runs a model in one thread at a time, with memory of its own for activations."""

    def __call__(self, /, *inputs: _Inputs, out: _Out = None, timeout: float | None = None, **named: _Array) -> _Results:
        """Run the model, as ``Model.__call__`` does. Raises ``InputError`` if another thread is using the context."""
    def cancel(self) -> None:
        """End the run in progress, or the next one: it raises ``Cancelled``. May be called in any thread."""
    def clear(self) -> None:
        """Discard what is known of the shapes that were seen. The memory for activations is kept."""
    @property
    def arena_bytes(self) -> int: ...
    @property
    def inputs(self) -> list[TensorInfo]: ...
    @property
    def outputs(self) -> list[TensorInfo]: ...

def load(
    path: _Path,
    *,
    threads: int = 1,
    precision: _Names = (),
    scales: _Scales = None,
    layouts: _Layouts = "cheapest",
    tactics: _Names = (),
    without_tactics: _Names = (),
    without_passes: _Names = (),
    fast: bool = False,
    tune: bool | _Path = False,
    device: str | None = None,
    tf32: Literal["none", "convolutions", "all"] | None = None,
    check_kernels: bool = False,
    plugins: _Paths = (),
    use: Mapping[str, str] | None = None,
    limits: _Limits = None,
    map: bool = False,
    verify: bool = False,
    bin: _Path | None = None,
    random_weights: int | None = None,
    constants: Mapping[str, Any] | None = None,
    donate: Mapping[str, str] | None = None,
    card: str | None = None,
    shapes: Mapping[str, _Shape] | None = None,
    **ranges: _Shape,
) -> Model:
    """Load a model, a ``.param`` file with its archive, an ONNX file, or a plan that ``Plan.save`` wrote."""

def build(
    path: _Path,
    *,
    threads: int = 1,
    precision: _Names = (),
    scales: _Scales = None,
    layouts: _Layouts = "cheapest",
    tactics: _Names = (),
    without_tactics: _Names = (),
    without_passes: _Names = (),
    fast: bool = False,
    tune: bool | _Path = False,
    device: str | None = None,
    tf32: Literal["none", "convolutions", "all"] | None = None,
    check_kernels: bool = False,
    plugins: _Paths = (),
    use: Mapping[str, str] | None = None,
    limits: _Limits = None,
    bin: _Path | None = None,
    random_weights: int | None = None,
    constants: Mapping[str, Any] | None = None,
    donate: Mapping[str, str] | None = None,
    card: str | None = None,
    shapes: Mapping[str, _Shape] | None = None,
    **ranges: _Shape,
) -> Plan:
    """Build a model into a plan, which can be saved. Options are those of ``load``."""

@final
class Memory:
    """The memory of an output: the ``base`` of its NumPy array. It supports DLPack, also for bf16."""

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...

@final
class Field:
    """A parameter or a weight of an operator."""

    @property
    def key(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def default(self) -> str | None: ...
    @property
    def doc(self) -> str: ...

@final
class Operator:
    """An operator that can run."""

    @property
    def type(self) -> str: ...
    @property
    def doc(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def fields(self) -> list[Field]: ...

def operators(filter: str = "", *, plugins: _Paths = ()) -> list[Operator]:
    """List the operators that can run, sorted by type."""

@final
class Device:
    """A device that models can run on."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def details(self) -> str: ...
    @property
    def memory(self) -> int | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def devices() -> list[Device]:
    """List the devices that models can run on, the processor first."""

@final
class OperatorTime:
    """The time of an operator, or of all operators of a type, in one run."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def share(self) -> float: ...
    @property
    def macs(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def gflops(self) -> float: ...
    @property
    def gigabytes(self) -> float: ...
    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...

@final
class Profile:
    """The times of a model's operators. Notebooks show its timeline."""

    @property
    def operators(self) -> list[OperatorTime]: ...
    @property
    def types(self) -> list[OperatorTime]: ...
    @property
    def runs(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def settings(self) -> str: ...
    @property
    def timeline(self) -> str: ...
    def _repr_svg_(self) -> str: ...
    def __len__(self) -> int: ...

@final
class Scales:
    """The scales of int8 tensors: an integer q stands for the number scale · q."""

    def __new__(cls, text: str) -> Scales: ...
    @staticmethod
    def load(path: _Path) -> Scales:
        """Read scales from a file that ``save`` or ``ixion calibrate`` wrote."""
    def save(self, path: _Path) -> None:
        """Write the scales to a file."""
    def to_json(self) -> str:
        """The scales as JSON text, which ``Scales(text)`` reads."""
    @property
    def kept(self) -> list[str]: ...
    @property
    def method(self) -> str | None: ...
    @property
    def decibels(self) -> dict[str, float]: ...
    def keys(self) -> list[str]: ...
    def values(self) -> list[float]: ...
    def items(self) -> list[tuple[str, float]]: ...
    @overload
    def get(self, operand: str, default: None = None) -> float | None: ...
    @overload
    def get(self, operand: str, default: float) -> float: ...
    def __getitem__(self, operand: str, /) -> float: ...
    def __contains__(self, operand: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

def calibrate(
    path: _Path,
    samples: _Path | Iterable[Any] | _HasArray | _HasInterface,
    *,
    max: int | None = None,
    method: Literal["entropy", "minmax"] = "entropy",
    least: float = 20.0,
    progress: _Progress = None,
    bin: _Path | None = None,
    plugins: _Paths = (),
    use: Mapping[str, str] | None = None,
    without_passes: _Names = (),
    limits: _Limits = None,
    threads: int = 1,
) -> Scales:
    """Find the scales of int8 tensors by running a model in f32 on samples."""

@final
class Case:
    """A case of ``verify`` that ran. It is true if it passes."""

    @property
    def name(self) -> str: ...
    @property
    def folder(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def suspects(self) -> list[str]: ...
    @property
    def unsupported(self) -> list[str]: ...
    @property
    def max_abs_diff(self) -> float | None: ...
    @property
    def seconds(self) -> float: ...
    def __bool__(self) -> bool: ...

@final
class Report:
    """The results of all cases. It is true if all pass."""

    @property
    def cases(self) -> list[Case]: ...
    @property
    def passed(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def unsupported(self) -> dict[str, int]: ...
    def __bool__(self) -> bool: ...
    def __len__(self) -> int: ...

def verify(
    folders: _Path | Iterable[_Path],
    *,
    tolerance: float | None = None,
    jobs: int | None = None,
    interpret: bool | Literal["plain", "optimised"] | None = None,
    precision: _Names = (),
    scales: _Scales = None,
    device: str | None = None,
    plugins: _Paths = (),
    checksums: bool = False,
    timeout: float | None = None,
    progress: _Progress = None,
) -> Report:
    """Compare the results of stored cases with those of PyTorch, as ``ixion verify``."""

@final
class Picture:
    """A picture with 8 bits per channel, grey or RGB."""

    def __new__(cls, source: _Picture) -> Picture: ...
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def channels(self) -> int: ...
    def save(self, path: _Path) -> None:
        """Write the picture as PNG. Raises ``InputError`` if the name is that of another format."""
    def to_numpy(self) -> NDArray[np.uint8]:
        """The values, ``uint8`` of height × width × channels."""
    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> NDArray[Any]: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Class:
    """A class and its score."""

    def __new__(cls, index: int, label: str, score: float, is_probability: bool = True) -> Class: ...
    @property
    def index(self) -> int: ...
    @property
    def label(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def is_probability(self) -> bool: ...

@final
class Detection:
    """An object in a picture."""

    def __new__(
        cls,
        index: int,
        label: str,
        score: float,
        box: tuple[float, float, float, float],
        color: tuple[int, int, int] | None = None,
    ) -> Detection: ...
    @property
    def index(self) -> int: ...
    @property
    def label(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def left(self) -> float: ...
    @property
    def top(self) -> float: ...
    @property
    def right(self) -> float: ...
    @property
    def bottom(self) -> float: ...
    @property
    def box(self) -> tuple[float, float, float, float]: ...
    @property
    def color(self) -> tuple[int, int, int]: ...

@final
class Mask:
    """The class of each pixel of a picture."""

    def __new__(
        cls,
        classes: _Array,
        labels: Sequence[str] = (),
        colors: Sequence[tuple[int, int, int]] = (),
        background: int | None = None,
    ) -> Mask: ...
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def classes(self) -> NDArray[np.uint8]: ...
    @property
    def counts(self) -> dict[str, int]: ...
    def save(self, path: _Path) -> None:
        """Write the mask as PNG. Raises ``InputError`` if the name is that of another format."""
    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> NDArray[Any]: ...

@overload
def classify(model: Model, picture: _Pictures, *, top: int = 5) -> list[list[Class]]: ...
@overload
def classify(model: Model, picture: _Picture, *, top: int = 5) -> list[Class]: ...
@overload
def detect(
    model: Model, picture: _Pictures, *, confidence: float | None = None, iou: float | None = None
) -> list[list[Detection]]: ...
@overload
def detect(
    model: Model, picture: _Picture, *, confidence: float | None = None, iou: float | None = None
) -> list[Detection]: ...
@overload
def segment(model: Model, picture: _Pictures) -> list[Mask]: ...
@overload
def segment(model: Model, picture: _Picture) -> Mask: ...
def draw(picture: _Picture, found: Iterable[Detection] | Mask) -> Picture:
    """Draw what was found into a copy of the picture."""

def main(argv: Sequence[_Path] | None = None) -> int:
    """Run the command ``ixion`` and return its exit code."""

def command(*args: _Path | float, progress: _Progress = None) -> Any:
    """Run a subcommand of ``ixion`` and return what it prints, as objects if it can have ``--json``."""
