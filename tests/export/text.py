"""Writes PNNX's text and archive."""

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

CODES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8",
    torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128", torch.complex32: "c32",
}
# PNNX writes the short names.
NAMES = {torch.float32: "float", torch.float64: "double", torch.float16: "half", torch.int64: "long",
         torch.int32: "int", torch.int16: "short"}


def dtype_name(dtype: torch.dtype) -> str:
    return f"torch.{NAMES.get(dtype, str(dtype).removeprefix('torch.'))}"


def value_text(value) -> str:
    """A parameter as PNNX writes it."""
    match value:
        case None | bool() | str():
            text = str(value)
        case int():
            text = str(value)
        case float():
            text = str(value) if abs(value) in (float("inf"),) or value != value else float_text(value)
        case complex():
            text = f"{value.real:e}{value.imag:+e}j"
        case torch.dtype():
            text = dtype_name(value)
        case list() | tuple():
            text = "(" + ",".join(value_text(item) for item in value) + ")"
        case _:
            text = str(value)
    assert not any(c.isspace() for c in text), f"{text!r} has a space, which the format cannot say"
    return text


def float_text(value: float) -> str:
    text = repr(value)
    return text if any(c in text for c in ".e") else text + ".0"


def shape_text(tensor: Tensor) -> str:
    return "(" + ",".join(map(str, tensor.shape)) + ")" + CODES[tensor.dtype]


@dataclass
class Line:
    """An operator: one line of the text."""

    op_type: str
    name: str
    inputs: list[tuple[str, str | None]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    params: dict = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)


class Text:
    """A graph that grows line by line."""

    def __init__(self):
        self.lines: list[Line] = []
        self.shapes: dict[str, str] = {}

    def fresh(self, stem: str) -> str:
        return f"{stem}_{len(self.lines)}"

    def operand(self, like: Tensor) -> str:
        """A new operand of this shape and type."""
        name = str(len(self.shapes))
        # The format cannot express a shape without dimensions.
        self.shapes[name] = f" #{name}={shape_text(like)}" if like.dim() else ""
        return name

    def add(self, line: Line) -> None:
        self.lines.append(line)

    def finish(self, results: list[str]) -> tuple[bytes, bytes]:
        """The text and the archive of a graph that returns `results`."""
        inputs = [line for line in self.lines if line.op_type == "pnnx.Input"]
        others = [line for line in self.lines if line.op_type != "pnnx.Input"]
        made = results[0]
        if len(results) > 1:
            made = "all"
            self.shapes[made] = ""
            others.append(Line("prim::TupleConstruct", "tuple", [(name, None) for name in results], [made]))
        others.append(Line("pnnx.Output", "output_0", [(made, None)]))
        lines = [self.line(line) for line in inputs + others]
        head = f"7767517\n{len(lines)} {len(self.shapes)}\n"
        return (head + "\n".join(lines) + "\n").encode(), archive(others)

    def line(self, line: Line) -> str:
        names = [name for name, _ in line.inputs] + line.outputs
        text = f"{line.op_type:<24} {line.name:<24} {len(line.inputs)} {len(line.outputs)}"
        text += "".join(f" {name}" for name in names)
        text += "".join(f" {key}={value_text(value)}" for key, value in sorted(line.params.items()))
        text += "".join(f" @{key}={shape_text(weight)}" for key, weight in sorted(line.weights.items()))
        text += "".join(f" ${key}={name}" for name, key in line.inputs if key is not None)
        return text + "".join(self.shapes[name] for name in names)


def archive(lines: Iterable[Line]) -> bytes:
    """The weights in a zip file without compression; empty if there are none."""
    packed = io.BytesIO()
    count = 0
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        for line in lines:
            for key, weight in sorted(line.weights.items()):
                entry = zipfile.ZipInfo(f"{line.name}.{key}")
                file.writestr(entry, bytes(weight.contiguous().view(-1).view(torch.uint8).numpy()))
                count += 1
    return packed.getvalue() if count else b""
