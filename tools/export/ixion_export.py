"""Exports a PyTorch model for Ixion with PNNX, and checks that nothing was lost on the way.

    from ixion_export import ixion_export
    report = ixion_export(model, torch.rand(1, 3, 224, 224), dynamic=["0.2", "0.3"], output="resnet")
    print(report)

or, for a function that returns a model:

    python ixion_export.py my_models:resnet --inputs 1x3x224x224 --dynamic 0.2 --dynamic 0.3

The model is run by PyTorch on two samples: the given one, and one in which the dynamic axes are longer. PNNX exports it with
both, Ixion runs the result on both, and the results are compared. The model's graph is searched for everything that PNNX is
known to lose, and each finding is reported with the line of the model that it comes from; its title is that of a section of
the page "What PNNX gets wrong, and what to do" in Ixion's book.

The output folder has NAME.pnnx.param and NAME.pnnx.bin, the samples and PyTorch's results for `ixion verify`, and the model
card model.toml. The command `ixion` is the one in the environment variable IXION, or the first on the PATH.

Needs the packages torch, numpy and pnnx.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import itertools
import json
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PAGE = "What PNNX gets wrong, and what to do"
SLICES = "Slices of axes of unknown size"
FROZEN = "Sizes that are frozen"
INDICES = "Constant indices with several axes"
CONSTANTS = "Constants that change in place"
ROUNDING = "Rounding modes of divisions"
NUMBERS = "Numbers beyond 32 bits"
STATISTICS = "Statistics of the batch"
HALVES = "Half precision"
MASKS = "Key padding masks"
CAUSAL = "Causal masks"
CONSTANT_MASKS = "Constant masks of attention"
STATES = "States of LSTMs"
DECIMALS = "Rounding to decimals"
NORMS = "Normalisations without a bias"
WEIGHT_NORM = "Weight normalisation"
COPIES = "Copies that broadcast"
EMPTY = "Empty lists of axes"
LENGTHS = "Results of unknown length"
CRASHES = "When PNNX crashes"
SCRIPTS = "Branches and loops of scripts"
RANDOM = "Dropout and random numbers"

# Names of element types in PNNX's command line.
TYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32",
    torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128",
}
CARD_KEYS = ["name", "task", "description", "provenance", "license", "input", "output"]
INT_MIN, INT_MAX = -2**31, 2**31 - 1
# Tensors whose elements do not depend on those of the input.
LIKE = {f"aten::{name}" for name in ("new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")}
# Operators whose results have as many elements as the values decide, and those that keep an axis of such a length.
COUNTED = {"torchvision::nms"} | {f"aten::{name}" for name in ("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive")}
KEEPING = {f"aten::{name}" for name in ("slice", "index", "to", "add", "sub", "mul", "div", "clone", "contiguous", "unsqueeze", "sort")}
# An empty list of axes means none to these, but PNNX makes it mean all.
OF_AXES = {"all", "any", "squeeze", "fft_fftn", "fft_ifftn"}
# What PyTorch's stack says within nn.MultiheadAttention.
IN_ATTENTION = re.compile(r"activation\.py\(\d+\): forward|multi_head_attention_forward")
# What shares the memory of its first input.
VIEWS = {f"aten::{name}" for name in ("slice", "select", "view", "unsqueeze", "transpose", "chunk", "unsafe_chunk", "split")} | {"prim::ListUnpack"}
# What TorchScript writes for "to the end".
TO_THE_END = 2**63 - 1
TORCH = Path(torch.__file__).resolve().parent
FRAME = re.compile(r"^ *(\S.*)\((\d+)\): ", flags=re.MULTILINE)
"""A frame of Python's stack, as a trace keeps it."""


class ExportError(Exception):
    """The model cannot be exported at all."""


@dataclass(frozen=True)
class Loss:
    """Something that PNNX loses, or that Ixion cannot run."""

    section: str
    """The title of the section that explains it, on the page "What PNNX gets wrong, and what to do"; else empty."""
    message: str
    places: tuple[tuple[str, int], ...] = ()
    """Files and lines of the model that it may come from."""

    def __str__(self) -> str:
        text = self.message
        for file, line in self.places[:3]:
            code = linecache.getline(file, line).strip()
            text += f"\n    {file}:{line}" + (f": {code}" if code else "")
        if len(self.places) > 3:
            text += f"\n    and {len(self.places) - 3} more lines"
        return text + (f'\n    see "{self.section}"' if self.section else "")


@dataclass
class Sample:
    """The comparison of Ixion's results with PyTorch's for one sample."""

    shapes: list[list[int]]
    """The shapes of the inputs."""
    max_abs_diff: float | None = None
    problem: str | None = None
    """Why the results differ, or why there are none; `None` if they are equal within the tolerance."""


@dataclass
class Report:
    """The result of an export."""

    folder: Path
    param: Path
    card: Path
    samples: list[Sample] = field(default_factory=list)
    """Empty if there is no command `ixion`."""
    losses: list[Loss] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether Ixion gives PyTorch's results for all samples, and nothing was found that is lost."""
        return bool(self.samples) and not self.losses and all(sample.problem is None for sample in self.samples)

    def __str__(self) -> str:
        lines = [f"{self.param}"]
        told: set[str] = set()
        for sample in self.samples:
            shapes = ", ".join("×".join(map(str, shape)) for shape in sample.shapes)
            found = sample.problem or f"as PyTorch, max difference {sample.max_abs_diff:.2g}"
            is_known = sample.max_abs_diff is None and found in told
            lines.append(f"{shapes}: {'the same error' if is_known else found}")
            told.add(found)
        if not self.samples:
            lines.append("not compared: there is no command `ixion`; name it in the environment variable IXION")
        lines += [f"lost: {loss}" for loss in self.losses]
        if not self.losses and any(sample.problem for sample in self.samples):
            lines.append("Nothing was found that PNNX is known to lose.")
        if any(loss.section for loss in self.losses):
            lines.append(f'The sections are on the page "{PAGE}" in Ixion\'s book.')
        return "\n".join(lines)

    def json(self) -> dict:
        losses = [{"section": loss.section, "message": loss.message, "places": [f"{file}:{line}" for file, line in loss.places]}
                  for loss in self.losses]
        return {"folder": str(self.folder), "param": str(self.param), "card": str(self.card), "ok": self.ok,
                "samples": [vars(sample) for sample in self.samples], "losses": losses}


# The samples.


@dataclass
class Group:
    """Axes of one length."""

    axes: list[tuple[int, int]]
    """Pairs of an input's position and an axis."""
    size: int | None = None
    """The length in the second sample."""


def parse_group(text: str) -> Group:
    """Parses `INPUT.AXIS`, several of them separated by commas, and an optional `:SIZE`."""
    match = re.fullmatch(r"(\d+\.\d+(?:,\d+\.\d+)*)(?::(\d+))?", text.replace(" ", ""))
    if match is None:
        raise ExportError(f"dynamic: expected INPUT.AXIS, as in 0.2, or 0.1,1.1:64 for two axes of one length, got `{text}`")
    axes = [tuple(map(int, axis.split("."))) for axis in match[1].split(",")]
    return Group(axes, int(match[2]) if match[2] else None)


def longer(inputs: Sequence[Tensor], groups: Sequence[Group]) -> tuple[Tensor, ...]:
    """A second sample: dynamic axes are twice as long, or as long as said. Elements are repeated, so that indices stay valid."""
    second = list(inputs)
    for group in groups:
        for position, axis in group.axes:
            if position >= len(second) or axis >= second[position].dim():
                raise ExportError(f"dynamic: there is no axis {axis} of input {position}")
            length = second[position].shape[axis]
            wanted = group.size or max(2 * length, 2)
            if wanted == length:
                raise ExportError(f"dynamic: axis {axis} of input {position} has {length} elements in both samples")
            shape = [wanted if i == axis else size for i, size in enumerate(second[position].shape)]
            repeated = torch.arange(wanted) % max(length, 1)
            second[position] = second[position].index_select(axis, repeated) if length else second[position].new_zeros(shape)
    return tuple(second)


def flatten(values: object) -> list[Tensor]:
    """The tensors of nested tuples, lists and dictionaries, depth first, as Ixion orders outputs."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in flatten(value)]
    if values is None:
        return []
    raise ExportError(f"the model returns {type(values).__name__}; expected tensors, tuples, lists or dictionaries of them")


def checked(inputs: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The inputs as a tuple, of which PNNX and files of NumPy accept all."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for position, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor):
            raise ExportError(f"input {position} is {type(tensor).__name__}; expected a tensor")
        if tensor.dtype == torch.bfloat16:
            raise ExportError(f"input {position} is bfloat16, which files of NumPy cannot hold; convert it in the model")
    return inputs


def as_array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().numpy()


def copied(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(tensor.clone() for tensor in inputs)


# The graph of the model.


def is_of_torch(file: str) -> bool:
    return TORCH in Path(file).resolve().parents


def is_of_package(file: str) -> bool:
    """Whether a file adapts models, in the package `ixion`."""
    return Path(file) == Path(__file__).with_name("_names.py")


def places_of(node: torch._C.Node) -> tuple[tuple[str, int], ...]:
    """The line of the model that a node comes from: the innermost one outside of PyTorch, or else the innermost one."""
    text = node.sourceRange()
    # A trace has Python's stack, a script its own.
    frames = FRAME.findall(text) or re.findall(r'^ *File "(.+)", line (\d+)', text, flags=re.MULTILINE)
    return place_among(frames)


def place_among(frames: Sequence[tuple[str, str]]) -> tuple[tuple[str, int], ...]:
    """The innermost frame of a stack that is of the model and outside of PyTorch, or else the innermost one."""
    # Further out is whoever asked for the trace.
    frames = list(itertools.takewhile(lambda frame: frame[0] != __file__, frames))
    outside = [frame for frame in frames if not is_of_torch(frame[0]) and not is_of_package(frame[0])]
    return tuple((file, int(line)) for file, line in (outside or frames)[:1])


def nodes_of(block: torch._C.Graph | torch._C.Block) -> Iterator[torch._C.Node]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_of(inner)


def constant(value: torch._C.Value) -> object:
    """The value of a constant; `None` if it is not one, or is `None`."""
    node = value.node()
    if node.kind() != "prim::Constant" or not node.hasAttribute("value"):
        return None
    try:
        return getattr(node, node.kindOf("value"))("value")
    except RuntimeError:
        # A list or another value that Python cannot show.
        return None


def is_constant(value: torch._C.Value) -> bool:
    return value.node().kind() == "prim::Constant"


def sizes(value: torch._C.Value) -> list[int] | None:
    kind = value.type()
    return kind.sizes() if kind.kind() == "TensorType" else None


def scalar_type(value: torch._C.Value) -> str | None:
    kind = value.type()
    return kind.scalarType() if kind.kind() == "TensorType" else None


class Search:
    """Searches a graph for what PNNX is known to lose."""

    def __init__(self, graph: torch._C.Graph, other: torch._C.Graph | None, level: int = 2):
        self.graph, self.level = graph, level
        self.nodes = list(nodes_of(graph))
        others = list(nodes_of(other)) if other is not None else []
        alike = [node.kind() for node in self.nodes] == [node.kind() for node in others]
        # The same nodes, traced with the second sample.
        self.others = others if alike else [None] * len(self.nodes)
        self.is_dynamic = other is not None
        self.fixed = self.independent()
        self.counted = self.of_counted_length()
        self.divisions: dict[tuple, str | None] = {}
        self.found: dict[tuple[str, str], list[tuple[str, int]]] = {}

    def independent(self) -> set[str]:
        """The values that depend on no input of the model."""
        given = {value.debugName() for value in list(self.graph.inputs())[1:]}
        dependent = set(given)
        for node, other in zip(self.nodes, self.others):
            depends = any(value.debugName() in dependent for value in node.inputs())
            if depends and not self.is_of_fixed_sizes(node, other):
                dependent |= {value.debugName() for value in node.outputs()}
        return {value.debugName() for node in self.nodes for value in node.outputs()} - dependent

    def is_of_fixed_sizes(self, node: torch._C.Node, other: torch._C.Node | None) -> bool:
        """Whether a node is a size that is the same for all samples, or a tensor of such sizes."""
        if self.is_dynamic and other is None:
            return False
        if node.kind() == "aten::size" and node.outputsSize() == 1:
            axis = constant(list(node.inputs())[-1])
            lengths = [sizes(next(iter(it.inputs()))) for it in (node, other) if it is not None]
            return isinstance(axis, int) and None not in lengths and len({length[axis] for length in lengths}) == 1
        if node.kind() in LIKE:
            found = [sizes(it.outputsAt(0)) for it in (node, other) if it is not None]
            return None not in found and len({tuple(it) for it in found}) == 1
        return False

    def of_counted_length(self) -> set[str]:
        """The tensors whose first axis is as long as values decide."""
        counted: set[str] = set()
        for node in self.nodes:
            kind, inputs = node.kind(), list(node.inputs())
            listed = list(inputs[1].node().inputs()) if kind == "aten::index" else []
            is_counted = kind in COUNTED or (kind in KEEPING and any(value.debugName() in counted for value in inputs[:1] + listed))
            if is_counted or any(scalar_type(value) in ("Bool", "Byte") for value in listed):
                counted |= {value.debugName() for value in node.outputs()}
        return counted

    def note(self, section: str, message: str, node: torch._C.Node) -> None:
        places = self.found.setdefault((section, message), [])
        places += [place for place in places_of(node) if place not in places]

    def losses(self) -> list[Loss]:
        for node, other in zip(self.nodes, self.others):
            kind = node.kind()
            rule = getattr(self, "on_" + kind.split("::")[-1].lower(), None)
            if rule is not None and kind.startswith(("aten::", "prim::")):
                rule(node, other)
            if kind.startswith("aten::"):
                self.check(node)
        return [Loss(section, message, tuple(places)) for (section, message), places in self.found.items()]

    def check(self, node: torch._C.Node) -> None:
        """Looks for what any operator may lose."""
        name = node.kind().removeprefix("aten::")
        inputs = list(node.inputs())
        # What is written is the same when it is written again; other changes are not.
        is_change = name.endswith("_") and not name.startswith("__") and name not in ("copy_", "fill_", "zero_")
        # The same is true of what a mask of the model hides, and PNNX writes attention as a whole.
        is_mask = name == "masked_fill_" and inputs[1].debugName() in self.fixed
        is_change = is_change and not is_mask and IN_ATTENTION.search(node.sourceRange()) is None
        if is_change and inputs and self.level > 1 and self.is_of_the_model(inputs[0]):
            self.note(CONSTANTS, f"`{name}` changes a constant in place: PNNX stores its value after all changes", node)
        if name in ("rand", "randn", "rand_like", "randn_like", "randint", "bernoulli", "normal", "multinomial"):
            self.note(RANDOM, f"`{name}` draws random numbers: PNNX may store those of its own run", node)
        if name in OF_AXES and any(value.node().kind() == "prim::ListConstruct" and not list(value.node().inputs()) for value in inputs):
            self.note(EMPTY, f"`{name}` of no axes: PNNX makes it one of all axes", node)
        # Constants that other constants are made of are computed by PNNX, and stored with all their bits.
        numbers = [constant(value) for value in inputs if node.outputsAt(0).debugName() not in self.fixed]
        for number in numbers:
            if isinstance(number, Tensor) and number.dim() == 0:
                number = number.item()
            is_integer = isinstance(number, int) and not isinstance(number, bool) and name != "slice"
            if is_integer and not INT_MIN <= number <= INT_MAX:
                self.note(NUMBERS, f"PNNX keeps 32 bits of the integer {number}", node)
            is_double = isinstance(number, float) and scalar_type(node.outputsAt(0)) == "Double"
            if is_double and number == number and float(np.float32(number)) != number:
                self.note(NUMBERS, f"PNNX rounds the number {number} to 32 bits", node)

    def is_of_the_model(self, value: torch._C.Value) -> bool:
        """Whether a tensor, or the one that it is a view of, is a constant that the graph makes."""
        while value.debugName() in self.fixed:
            node = value.node()
            if node.kind() not in VIEWS:
                return node.kind().startswith("aten::") or is_constant(value)
            value = next(iter(node.inputs()))
        return False

    def on_slice(self, node: torch._C.Node, other: torch._C.Node | None) -> None:
        data, dim, start, end, step = node.inputs()
        bounds = [constant(value) for value in (start, end, step)]
        # Bounds that differ were frozen, which is reported by itself.
        if other is not None and bounds != [constant(value) for value in list(other.inputs())[2:]]:
            return
        is_whole = bounds[0] in (0, None) and bounds[1] in (TO_THE_END, None) and bounds[2] in (1, None)
        if other is None or is_whole or not all(map(is_constant, (dim, start, end, step))):
            return
        axis = constant(dim)
        if axis == 0 and data.debugName() in self.counted:
            is_first = bounds[0] in (0, None) and bounds[2] in (1, None)
            lengths = [sizes(it.outputsAt(0)) for it in (node, other)]
            # A result of the same length for both samples is one whose length PNNX knows.
            if not (is_first and all(length is not None and length[0] == bounds[1] for length in lengths)):
                self.note(LENGTHS, "a slice of a result of unknown length with constant bounds: PNNX drops it", node)
            return
        pairs = [(sizes(data), sizes(next(iter(other.inputs())))), (sizes(node.outputsAt(0)), sizes(other.outputsAt(0)))]
        # A length that is the same for both samples is recorded, so that the slice is known to do something.
        if all(before is not None and after is not None and before[axis] != after[axis] for before, after in pairs):
            self.note(SLICES, "a slice of a dynamic axis with constant bounds: PNNX drops it", node)

    def on_size(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        data, *axis = node.inputs()
        if not self.is_dynamic and axis and constant(axis[0]) == 0 and data.debugName() in self.counted:
            self.note(LENGTHS, "the length of a result that depends on values: that of PNNX's sample becomes a constant", node)

    def on_index(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        listed = list(node.inputs())[1].node()
        for value in listed.inputs() if listed.kind() == "prim::ListConstruct" else []:
            found = sizes(value)
            if value.debugName() in self.fixed and found is not None and len(found) > 1 and scalar_type(value) != "Bool":
                self.note(INDICES, "a constant index with several axes: PNNX keeps only one of them", node)

    def on_div(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        # Sizes are not negative, and PNNX keeps what they are.
        if follows_from_sizes(node.outputsAt(0)):
            return
        inputs = list(node.inputs())
        mode = constant(inputs[2]) if len(inputs) > 2 else None
        is_float = scalar_type(node.outputsAt(0)) in ("Float", "Double", None)
        if mode == "trunc" or (mode == "floor" and is_float):
            self.note(ROUNDING, f'a division with rounding_mode="{mode}": PNNX writes another one', node)
        divisor = constant(inputs[1])
        divisor = divisor.tolist() if isinstance(divisor, Tensor) else divisor
        quotient = (inputs[0].debugName(), str(divisor) if divisor is not None else inputs[1].debugName())
        if self.divisions.setdefault(quotient, mode) != mode:
            self.note(ROUNDING, "two divisions that differ only in how they round: PNNX merges them", node)

    def on_round(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        if self.level > 0 and len(list(node.inputs())) > 1:
            self.note(DECIMALS, "`round` with `decimals`: PNNX rounds to integers", node)

    on_round_ = on_round

    def on_copy_(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        target, source = list(node.inputs())[:2]
        # Assignments to slices expand the source by themselves.
        is_view = target.node().kind() in ("aten::slice", "aten::select")
        if self.level > 1 and not is_view and sizes(target) != sizes(source):
            self.note(COPIES, "`copy_` of a smaller tensor: PNNX puts it in the place of the larger one", node)

    def on_batch_norm(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        inputs = list(node.inputs())
        has_statistics = inputs[3].type().kind() != "NoneType"
        if constant(inputs[5]) and has_statistics:
            self.note(STATISTICS, "batch_norm with training=True: PNNX uses the running statistics", node)

    def on_dropout(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        if constant(list(node.inputs())[2]):
            self.note(RANDOM, "dropout while training: PNNX drops it", node)

    def on_to(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        if scalar_type(node.outputsAt(0)) in ("Half", "BFloat16"):
            self.note(HALVES, "a conversion to half precision: PNNX drops it", node)

    def on_if(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        self.note(SCRIPTS, "a branch of a script: PNNX drops what is in it", node)

    def on_loop(self, node: torch._C.Node, _: torch._C.Node | None) -> None:
        self.note(SCRIPTS, "a loop of a script: PNNX drops what is in it", node)


def places_of_operator(graph: torch._C.Graph, op_type: str, name: str, recorded: str | None) -> tuple[tuple[str, int], ...]:
    """The lines of the model that an operator of the file may come from.

    PNNX does not keep them. A module has the name of its path; of functions, the nodes of the same kind are taken, if possible
    those with the recorded shape.
    """
    function = op_type.split("::")[-1].split(".")[-1].lower()
    kinds = {"reshape": ["reshape", "view", "flatten"], "slice_copy": ["copy_", "fill_"], "expression": [
        "add", "sub", "mul", "div", "floor_divide", "remainder", "pow", "neg"]}.get(function, [function])
    wanted = re.findall(r"\d+", (recorded or "").split(" ")[0])
    found, fitting = [], []
    for node in nodes_of(graph):
        is_module = op_type.startswith("nn.") and node.scopeName().split("/")[-1].removeprefix("__module.") == name
        kind = node.kind().split("::")[-1]
        # PNNX does not write whether an operator works in place.
        if not is_module and kind not in kinds and kind.removesuffix("_") not in kinds:
            continue
        places = [place for place in places_of(node) if place not in found]
        found += places
        output = sizes(node.outputsAt(0)) if node.outputsSize() > 0 else None
        if output is not None and [str(size) for size in output] == wanted:
            fitting += places
    return tuple(fitting or found)


# Running PNNX and Ixion.


def traced(model: nn.Module, inputs: Sequence[Tensor]) -> torch.jit.ScriptModule:
    if isinstance(model, torch.jit.ScriptModule):
        return model
    with warnings.catch_warnings():
        # `Conversions` knows more than the tracer; and there is no other way to TorchScript.
        for category in (torch.jit.TracerWarning, FutureWarning, DeprecationWarning):
            warnings.simplefilter("ignore", category)
        try:
            return torch.jit.trace(model, copied(inputs), check_trace=False)
        except Exception as error:
            raise ExportError(f"PyTorch cannot trace the model: {error}") from error


@dataclass(frozen=True)
class Conversion:
    """A tensor that became a Python value, which is a constant of the graph from then on."""

    place: tuple[str, int]
    what: str
    is_size: bool
    """Whether it follows from sizes alone."""
    value: object


class Conversions(TorchFunctionMode):
    """Collects the conversions during a trace."""

    KINDS = {"__bool__": "a branch", "__int__": "`int`", "__float__": "`float`", "__index__": "an index or a range", "item": "`item`",
             "tolist": "`tolist`", "__len__": "`len`", "__iter__": "a loop"}

    def __init__(self):
        super().__init__()
        self.found: list[Conversion] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        what = self.KINDS.get(getattr(function, "__name__", ""))
        if what is not None and args and isinstance(args[0], Tensor) and torch._C._get_tracing_state() is not None:
            by_length = what in ("`len`", "a loop") and args[0].dim() > 0
            value = args[0].detach().shape[0] if by_length else result
            is_size = by_length or follows_from_sizes(torch._C._get_value_trace(args[0]))
            self.found.append(Conversion(self.place(), what, is_size, value))
        return result

    @staticmethod
    def place() -> tuple[str, int]:
        frame = sys._getframe(2)
        while frame.f_back is not None and is_of_torch(frame.f_code.co_filename):
            frame = frame.f_back
        return frame.f_code.co_filename, frame.f_lineno

    @classmethod
    def during_trace(cls, model: nn.Module, inputs: Sequence[Tensor]) -> list[Conversion]:
        collected = cls()
        if not isinstance(model, torch.jit.ScriptModule):
            with collected:
                traced(model, inputs)
        return collected.found


def follows_from_sizes(value: torch._C.Value) -> bool:
    """Whether a value of a graph depends on sizes and constants only."""
    seen, waiting = set(), [value]
    while waiting:
        node = waiting.pop().node()
        if node.kind() == "prim::Param":
            return False
        if node.kind() not in ("aten::size", "aten::numel", "prim::Constant"):
            fresh = [value for value in node.inputs() if value.debugName() not in seen]
            seen |= {value.debugName() for value in fresh}
            waiting += fresh
    return True


def frozen(conversions: Sequence[Conversion], others: Sequence[Conversion] | None) -> list[Loss]:
    """The conversions whose values are constants in the file, but not in the model. `others` are those for the second sample."""
    losses = []
    alike = others is not None and [it.place for it in conversions] == [it.place for it in others]
    for position, found in enumerate(conversions):
        # Without dynamic axes, all sizes are constants; and so are those of the other axes.
        is_fixed = others is None or (alike and others[position].value == found.value)
        if found.is_size and not is_fixed:
            losses.append(Loss(FROZEN, f"{found.what} on sizes: the size of the first sample becomes a constant", (found.place,)))
        elif not found.is_size:
            losses.append(Loss(FROZEN, f"{found.what} on values: the value for the sample becomes a constant", (found.place,)))
    return merged(losses)


def merged(losses: Iterable[Loss | None]) -> list[Loss]:
    """Equal losses as one, with all places."""
    places: dict[tuple[str, str], dict[tuple[str, int], None]] = {}
    for loss in losses:
        if loss is None:
            continue
        places.setdefault((loss.section, loss.message), {}).update(dict.fromkeys(loss.places))
    return [Loss(*what, tuple(found)) for what, found in places.items()]


def text_of(inputs: Sequence[Tensor]) -> str:
    for position, tensor in enumerate(inputs):
        if tensor.dim() == 0:
            raise ExportError(f"input {position} is a scalar, which PNNX does not accept; give a tensor of shape (1,)")
        if tensor.dtype not in TYPES:
            raise ExportError(f"input {position} is {tensor.dtype}, which PNNX does not accept")
    return ",".join("[" + ",".join(map(str, tensor.shape)) + "]" + TYPES[tensor.dtype] for tensor in inputs)


@contextlib.contextmanager
def pnnx_running(module: torch.jit.ScriptModule, samples: Sequence[Sequence[Tensor]], options: Sequence[str], target: Path,
                 timeout: float | None = None) -> Iterator[None]:
    """Runs PNNX beside the body of the statement, and then writes `target`.pnnx.param and `target`.pnnx.bin.

    PNNX is ended by what the body raises, and after `timeout` seconds. Raises ExportError if it writes no files, and
    subprocess.TimeoutExpired if it does not end in time.
    """
    import pnnx

    shapes = [f"inputshape{'' if number == 0 else '2'}={text_of(inputs)}" for number, inputs in enumerate(samples[:2])]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            module.save(f"{scratch}/model.pt")
        except RuntimeError as error:
            raise ExportError(f"PyTorch cannot save what it traced: {error}") from error
        command = [str(pnnx.EXEC_PATH), "model.pt", *shapes, "fp16=0", *options]
        deadline = None if timeout is None else time.monotonic() + timeout
        # Nobody would read from a pipe meanwhile.
        with open(f"{scratch}/said.txt", "wb") as said:
            try:
                running = subprocess.Popen(command, cwd=scratch, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            except OSError as error:
                raise ExportError(f"PNNX cannot be started: {error}") from error
            with running:
                try:
                    yield
                    running.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
                finally:
                    running.kill()
                    # After Ctrl-C, the end of the statement does not wait.
                    running.wait()
        param, archive = Path(scratch, "model.pnnx.param"), Path(scratch, "model.pnnx.bin")
        if not (param.is_file() and archive.is_file()) or param.stat().st_size == 0:
            text = Path(scratch, "said.txt").read_text(encoding="utf-8", errors="replace")
            raise ExportError(f"PNNX wrote no file and ended with code {running.returncode}:\n  {last_words(text)}")
        shutil.copyfile(param, f"{target}.pnnx.param")
        shutil.copyfile(archive, f"{target}.pnnx.bin")


def last_words(text: str) -> str:
    """The last lines that PNNX printed, and the line of the model that they are about."""
    # The frames of its own stack come after the reason, those of the trace before it.
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("frame #")]
    last = max((number for number, line in enumerate(lines, 1) if FRAME.match(line)), default=0)
    said = lines[last:][-3:] or [line for line in lines if not FRAME.match(line)][-3:]
    for file, line in place_among(FRAME.findall(text)):
        code = linecache.getline(file, line).strip()
        said.append(f"  {file}:{line}" + (f": {code}" if code else ""))
    return "\n  ".join(said)


def run_pnnx(module: torch.jit.ScriptModule, samples: Sequence[Sequence[Tensor]], options: Sequence[str], target: Path) -> None:
    """Writes `target`.pnnx.param and `target`.pnnx.bin."""
    with pnnx_running(module, samples, options, target):
        pass


def find_ixion(given: str | os.PathLike | None) -> str | None:
    wanted = str(given or os.environ.get("IXION") or "ixion")
    found = shutil.which(wanted)
    if found is None and (given or os.environ.get("IXION")):
        raise ExportError(f"{wanted}: there is no such command")
    return found


def compare(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> tuple[float, str | None]:
    """The largest difference of two arrays, and what is wrong, if anything is."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf"), f"{found.shape} {found.dtype} instead of {wanted.shape} {wanted.dtype}"
    if wanted.dtype.kind in "biu":
        differing = int((found != wanted).sum())
        return float(differing > 0), f"{differing} of {wanted.size} elements differ" if differing else None
    with np.errstate(all="ignore"):
        difference = np.nan_to_num(np.abs(found - wanted), nan=0.0, posinf=np.inf)
    largest = float(difference.max()) if difference.size else 0.0
    if np.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
        return largest, None
    return largest, f"max difference {largest:.2g}"


def run_ixion(command: str, param: Path, inputs: Sequence[Tensor], outputs: Sequence[Tensor], tolerance: float) -> Sample:
    sample = Sample([list(tensor.shape) for tensor in inputs])
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for position, tensor in enumerate(inputs):
            files.append(f"{scratch}/in_{position}.npy")
            np.save(files[-1], as_array(tensor))
        arguments = [command, "run", str(param), *(["--input", *files] if files else []), "--output", f"{scratch}/results", "--json"]
        ended = subprocess.run(arguments, capture_output=True, text=True, errors="replace", check=False)
        if ended.returncode != 0:
            errors = [line for line in ended.stderr.splitlines() if not line.startswith("warning: ")]
            sample.problem = "\n".join(errors) or f"ixion ended with code {ended.returncode}"
            return sample
        count = len(json.loads(ended.stdout)["outputs"] or [])
        if count != len(outputs):
            sample.problem = f"{count} outputs instead of {len(outputs)}"
            return sample
        results = [compare(np.load(f"{scratch}/results/out_{position}.npy"), as_array(tensor), tolerance)
                   for position, tensor in enumerate(outputs)]
    sample.max_abs_diff = max((difference for difference, _ in results), default=0.0)
    problems = [f"output {position}: {problem}" for position, (_, problem) in enumerate(results) if problem]
    sample.problem = "; ".join(problems) or None
    return sample


def inspect(command: str, param: Path, graph: torch._C.Graph, has_run: bool) -> list[Loss]:
    """What Ixion finds in the file: operators that contradict it and, unless all of it has run, those that cannot run."""
    ended = subprocess.run([command, "inspect", str(param), "--json"], capture_output=True, text=True, errors="replace", check=False)
    if ended.returncode != 0:
        return [Loss("", ended.stderr.strip())]
    survey, losses = json.loads(ended.stdout), []
    for warning in survey.get("warnings", []):
        message = warning["message"].split(": PNNX has lost")[0]
        places = places_of_operator(graph, warning["type"], warning["operator"], warning.get("recorded"))
        losses.append(Loss(warning["section"], message, places))
    for operator in survey["operators"] if not has_run else []:
        if operator["state"] in ("unsupported", "refused"):
            why = "Ixion has no such operator" if operator["state"] == "unsupported" else operator["problem"]
            places = places_of_operator(graph, operator["type"], operator["name"], None)
            losses.append(Loss("", f"{operator['type']} `{operator['name']}`: {why}", places))
    return losses


# The model card.


def toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    # A string of JSON is one of TOML as well.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def card_text(card: dict) -> str:
    unknown = [key for key in card if key not in CARD_KEYS]
    if unknown:
        raise ExportError(f"card: unknown key `{unknown[0]}`; expected {', '.join(CARD_KEYS)}")
    lines = [f"{key} = {toml(card[key])}" for key in CARD_KEYS[:5] if key in card]
    for table in CARD_KEYS[5:]:
        if table in card:
            lines += ["", f"[{table}]"] + [f"{key} = {toml(value)}" for key, value in card[table].items()]
    return "\n".join(lines) + "\n"


# The export.


def ixion_export(
    model: nn.Module | Callable,
    inputs: Tensor | Sequence[Tensor],
    *,
    dynamic: Iterable[str] = (),
    second: Sequence[Tensor] | Tensor | None = None,
    output: str | os.PathLike = ".",
    name: str | None = None,
    card: dict | None = None,
    tolerance: float = 1e-4,
    options: Sequence[str] = (),
    ixion: str | os.PathLike | None = None,
) -> Report:
    """Exports a model and reports what was lost.

    `inputs` is a sample of the model's inputs. `dynamic` names the axes that may have other sizes later, as `INPUT.AXIS`; axes
    that always have the same size are named together, `0.1,1.1`, and `:SIZE` sets the size in the second sample, which otherwise
    is twice that in the first. `second` is a second sample of one's own, for inputs whose sizes or values depend on each other.

    The files go to the folder `output`, in the place of samples of an earlier export, and are called after `name`, by default the
    model's class. `card` has the keys of the model card; `name` and `provenance` are added. Results may differ by `tolerance`,
    relative plus absolute. `options` are further ones of PNNX, such as `optlevel=1` or `moduleop=…`.

    Raises ExportError if there is nothing to report on: the model cannot be run or traced, or PNNX writes no file.
    """
    if not isinstance(model, nn.Module):
        model = as_module(model)
    model.eval()
    inputs = checked(inputs)
    groups = [parse_group(text) for text in dynamic]
    samples = [inputs]
    if second is not None:
        samples.append(checked(second))
    elif groups:
        samples.append(longer(inputs, groups))
    losses: list[Loss] = []
    # Otherwise PyTorch would trace attention as one operator that PNNX does not know.
    with torch.no_grad(), without_fast_path():
        with watching_masks(model, losses):
            wanted = [run_model(model, inputs)]
            wanted += [run_second(model, sample, groups) for sample in samples[1:]]
        losses = merged(losses)
        module = traced(model, inputs)
        graph = module.inlined_graph
        other = traced(model, samples[1]).inlined_graph if len(samples) > 1 else None
        converted = [Conversions.during_trace(model, sample) for sample in samples[:2]]
        losses += frozen(converted[0], converted[1] if len(samples) > 1 else None)
        losses += Search(graph, other, level_of(options)).losses()
        losses += states_in_order(module) + constant_masks(module) + norms_without_bias(model) + weight_norms(model)
        name = name or getattr(model, "original_name", type(model).__name__).lower()
        folder = Path(output)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            run_pnnx(module, samples, options, folder / name)
        except ExportError as error:
            known = "".join(f"\n  perhaps: {loss}" for loss in crash_causes(model, inputs, graph) + losses)
            raise ExportError(f"{error}{known}") from error
    param = folder / f"{name}.pnnx.param"
    save_samples(folder, samples, wanted)
    about = {"name": name, "provenance": f"exported from {type(model).__name__} by PyTorch {torch.__version__} and PNNX"} | (card or {})
    (folder / "model.toml").write_text(card_text(about), encoding="utf-8")
    report = Report(folder, param, folder / "model.toml", losses=losses)
    command = find_ixion(ixion)
    if command is not None:
        report.samples = [run_ixion(command, param, *pair, tolerance) for pair in zip(samples, wanted)]
        failed = [sample.problem for sample in report.samples if sample.max_abs_diff is None and sample.problem]
        found = [loss for loss in inspect(command, param, graph, not failed) if is_new(loss, losses)]
        report.losses += found + [loss for loss in merged(failure(problem, graph) for problem in failed) if is_new(loss, found)]
    return report


def failure(problem: str, graph: torch._C.Graph) -> Loss | None:
    """The operator at which a run failed, which PNNX may have changed."""
    named = re.search(r"(\S+) `([^`]+)` (?:rejects|failed|cannot)", problem)
    if named is None:
        return None
    return Loss("", f"{named[1]} `{named[2]}` does not run", places_of_operator(graph, named[1], named[2], None))


@contextlib.contextmanager
def without_fast_path() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def is_new(loss: Loss, known: Sequence[Loss]) -> bool:
    """Whether nothing of the same kind is known of any of its lines."""
    of_kind = {place for other in known if other.section == loss.section for place in other.places}
    return not loss.places or of_kind.isdisjoint(loss.places)


def as_module(function: Callable) -> nn.Module:
    class Function(nn.Module):
        def forward(self, *inputs: Tensor):
            return function(*inputs)

    Function.__name__ = getattr(function, "__name__", "function").strip("<>")
    return Function()


def level_of(options: Sequence[str]) -> int:
    """The optimisation level."""
    levels = [option.removeprefix("optlevel=") for option in options if option.startswith("optlevel=")]
    return int(levels[-1]) if levels and levels[-1].isdigit() else 2


def states_in_order(module: torch.jit.ScriptModule) -> list[Loss]:
    """The LSTMs whose states PNNX confuses: it takes the first that is used for the hidden state."""
    losses = []
    for name, part in module.named_modules():
        nodes = list(part.graph.nodes()) if getattr(part, "original_name", "") == "LSTM" else []
        outputs = [value for node in nodes if node.kind() == "aten::lstm" for value in node.outputs()]
        if len(outputs) != 3 or sizes(outputs[1]) != sizes(outputs[2]):
            continue
        made = [value.debugName() for value in outputs]
        result = next(iter(part.graph.outputs()))
        results = list(result.node().inputs()) if result.node().kind() == "prim::TupleConstruct" else [result]
        states = [made.index(value.debugName()) for value in results if value.debugName() in made[1:]]
        if states not in ([], [1], [1, 2]):
            losses.append(Loss(STATES, f"`{name}`: the cell state is used without the hidden state or before it: PNNX confuses them"))
    return losses


def constant_masks(module: torch.jit.ScriptModule) -> list[Loss]:
    """The attention whose masks are constants of the trace, and not inputs of the module."""
    parts = [(name, part) for name, part in module.named_modules() if getattr(part, "original_name", "") == "MultiheadAttention"]
    constants = {name: [constant(node.output()) for node in part.graph.nodes() if node.kind() == "prim::Constant"] for name, part in parts}
    names = [name for name, found in constants.items() if any(isinstance(value, Tensor) and value.dim() > 1 for value in found)]
    return [Loss(CONSTANT_MASKS, f"the mask of `{name}` is a constant: PNNX drops it") for name in names]


def norms_without_bias(model: nn.Module) -> list[Loss]:
    """The normalisations whose weights PNNX drops."""
    kinds = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._NormBase)
    parts = [(name, part) for name, part in model.named_modules() if name and isinstance(part, kinds)]
    names = [name for name, part in parts if part.weight is not None and part.bias is None]
    return [Loss(NORMS, f"`{name}` has a weight, but no bias: PNNX drops the weight") for name in names]


def weight_norms(model: nn.Module) -> list[Loss]:
    """The modules whose weights are normalised along another axis than PNNX thinks."""
    hooks = [(name, hook) for name, part in model.named_modules() for hook in part._forward_pre_hooks.values()]
    found = [(name, hook.dim) for name, hook in hooks if type(hook).__name__ == "WeightNorm" and hook.dim != 0]
    return [Loss(WEIGHT_NORM, f"`{name}` has weight_norm with dim={dim}: PNNX computes that of dim=0") for name, dim in found]


def crash_causes(model: nn.Module, inputs: Sequence[Tensor], graph: torch._C.Graph) -> list[Loss]:
    """What makes PNNX crash."""
    norms = [name for name, part in model.named_modules() if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None]
    losses = [Loss(STATISTICS, f"`{name}` has no running statistics") for name in norms if name]
    tensors = {f"`{name}`": tensor for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    tensors |= {f"input {position}": tensor for position, tensor in enumerate(inputs)}
    halves = [name for name, tensor in tensors.items() if tensor.dtype in (torch.float16, torch.bfloat16)]
    losses += [Loss(HALVES, f"{name} is in half precision") for name in halves[:1]]
    sums = [node for node in nodes_of(graph) if node.kind() in ("aten::scatter", "aten::scatter_") and "add" in map(constant, node.inputs())]
    losses += [Loss(CRASHES, '`scatter` with reduce="add"', places_of(node)) for node in sums[:1]]
    packed = [node for node in nodes_of(graph) if node.kind() == "aten::_pack_padded_sequence"]
    return losses + [Loss(CRASHES, "a packed sequence", places_of(node)) for node in packed[:1]]


@contextlib.contextmanager
def watching_masks(model: nn.Module, losses: list[Loss]) -> Iterator[None]:
    """Finds the masks of attention that PNNX drops, or makes indistinguishable from others."""
    def check(name: str, module: nn.MultiheadAttention, args: tuple, kwargs: dict) -> None:
        query = args[0] if args else kwargs.get("query")
        padding = args[3] if len(args) > 3 else kwargs.get("key_padding_mask")
        is_causal = args[7] if len(args) > 7 else kwargs.get("is_causal")
        needs_weights = args[4] if len(args) > 4 else kwargs.get("need_weights", True)
        if padding is None and is_causal and not needs_weights:
            losses.append(Loss(CAUSAL, f"the causal mask of `{name}`, which is_causal=True stands for: PNNX drops it"))
        if padding is not None and query.dim() == 3 and query.shape[0] == query.shape[1]:
            message = f"the key padding mask of `{name}`: with as many samples as queries, it looks like an attention mask"
            losses.append(Loss(MASKS, message))

    parts = [(name, part) for name, part in model.named_modules() if isinstance(part, nn.MultiheadAttention)]
    hooks = [part.register_forward_pre_hook(lambda part, args, kwargs, name=name: check(name, part, args, kwargs), with_kwargs=True)
             for name, part in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def run_model(model: nn.Module, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The model's results, which must not share memory with the inputs."""
    try:
        outputs = copied(flatten(model(*copied(inputs))))
    except ExportError:
        raise
    except Exception as error:
        shapes = ", ".join("×".join(map(str, tensor.shape)) for tensor in inputs)
        raise ExportError(f"the model fails on {shapes}: {error}") from error
    for position, tensor in enumerate(outputs):
        if tensor.dtype == torch.bfloat16:
            raise ExportError(f"output {position} is bfloat16, which files of NumPy cannot hold; return `.float()` of it")
    return outputs


def run_second(model: nn.Module, inputs: Sequence[Tensor], groups: Sequence[Group]) -> list[Tensor]:
    """The results for a second sample, whose sizes may not fit together."""
    try:
        return run_model(model, inputs)
    except ExportError as error:
        if len(groups) == 0:
            raise
        raise ExportError(f"{error}\n  name axes that always have the same size together, as in 0.1,1.0, or give a second sample") from error


def save_samples(folder: Path, samples: Sequence[Sequence[Tensor]], wanted: Sequence[Sequence[Tensor]]) -> None:
    """Writes the samples as `ixion verify` reads them, in the place of those of an earlier export."""
    for old in folder.iterdir():
        if re.fullmatch(r"(in|out)_\d+\.npy|arrays(_\d+)?\.npz", old.name):
            old.unlink()
    for number, (inputs, outputs) in enumerate(zip(samples, wanted)):
        arrays = {f"in_{position}": as_array(tensor) for position, tensor in enumerate(inputs)}
        arrays |= {f"out_{position}": as_array(tensor) for position, tensor in enumerate(outputs)}
        if len(samples) > 1:
            np.savez(folder / (f"arrays_{number}.npz" if number else "arrays.npz"), **arrays)
            continue
        for key, array in arrays.items():
            np.save(folder / f"{key}.npy", array)


# The command line.


def parse_input(text: str) -> Tensor:
    """A random tensor of a shape such as `1x3x224x224`, `1x16:i64<1000` or `2x5:bool`."""
    match = re.fullmatch(r"(\d+(?:x\d+)*)(?::(\w+))?(?:<(\d+))?", text)
    types = {name: dtype for dtype, name in TYPES.items()}
    if match is None or (match[2] or "f32") not in types:
        raise ExportError(f"inputs: expected a shape such as 1x3x224x224, 1x16:i64<1000 or 2x5:bool, got `{text}`")
    shape, dtype = [int(size) for size in match[1].split("x")], types[match[2] or "f32"]
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(shape, dtype=wide).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    return torch.randint(0, int(match[3] or 2), shape).to(dtype)


def load_function(text: str) -> Callable:
    """The function `module:name` or `file.py:name`."""
    source, _, name = text.rpartition(":")
    if not source:
        raise ExportError(f"expected MODULE:FUNCTION, such as my_models:resnet, got `{text}`")
    sys.path.insert(0, os.getcwd())
    try:
        if source.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(source).stem, source)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(source)
    except (ImportError, FileNotFoundError) as error:
        raise ExportError(f"{source}: {error}") from error
    if not hasattr(module, name):
        raise ExportError(f"{source} has no `{name}`")
    return getattr(module, name)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Exports a PyTorch model for Ixion with PNNX, and checks that nothing was lost on the way.",
        epilog="Exit codes: 0: Ixion gives PyTorch's results, and nothing is lost; 1: something is; 2: the model cannot be exported")
    parser.add_argument("model", metavar="MODULE:FUNCTION", help="a function without arguments that returns a model, or a model and its inputs")
    parser.add_argument("--inputs", nargs="+", metavar="SHAPE", help="shapes of random inputs, such as 1x3x224x224 or 1x16:i64<1000")
    parser.add_argument("--dynamic", action="append", default=[], metavar="INPUT.AXIS", help="an axis that may have other sizes, such as 0.2; 0.1,1.1 if two have the same; 0.2:640 sets the size in the second sample; may be repeated")
    parser.add_argument("--output", default=".", metavar="FOLDER", help="where the files go")
    parser.add_argument("--name", help="the name of the files")
    parser.add_argument("--task", choices=["none", "classify", "detect", "segment"], help="the model's task, for the model card")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="how much results may differ, relative plus absolute (1e-4)")
    parser.add_argument("--pnnx", action="append", default=[], metavar="OPTION", help="a further option of PNNX, such as optlevel=1; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the report as a JSON object")
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    try:
        made = load_function(given.model)
        made = made if isinstance(made, nn.Module) else made()
        model, inputs = made if isinstance(made, tuple) else (made, None)
        if given.inputs:
            inputs = tuple(parse_input(text) for text in given.inputs)
        if inputs is None:
            raise ExportError("--inputs is missing: the function returns only a model")
        card = {"task": given.task} if given.task else None
        report = ixion_export(model, inputs, dynamic=given.dynamic, output=given.output, name=given.name, card=card,
                              tolerance=given.tolerance, options=given.pnnx)
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report.json(), indent=2) if given.json else report)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
