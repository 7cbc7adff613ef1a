"""PNNX models in f64: the same graph, with weights and element types that are f64 instead of f32."""

import re
import zipfile
from pathlib import Path

import numpy as np

TENSOR = re.compile(r"(?<=\s)([@#][^=\s]+=\([^)\s]*\))f32(?=\s|$)", re.MULTILINE)
"""The type of a weight, `@weight=(64,3)f32`, or of an operand, `#0=(1,3)f32`."""
WEIGHT = re.compile(r"@([^=\s]+)=\([^)\s]*\)(\w+)")


def widen(param: Path, to: Path) -> None:
    """Writes a model in f64: the text to `to`, and the archive next to it.

    Parameters stay as they are: an operator that converts to f32 still does.
    """
    text = param.read_text(encoding="utf-8")
    to.write_text(TENSOR.sub(r"\1f64", text), encoding="utf-8")
    lines = [line.split() for line in text.splitlines()[2:]]
    types = {f"{words[1]}.{key}": dtype for words in lines if len(words) > 1
             for key, dtype in WEIGHT.findall(" ".join(words[2:]))}
    with zipfile.ZipFile(param.with_suffix(".bin")) as narrow, zipfile.ZipFile(to.with_suffix(".bin"), "w") as wide:
        for entry in narrow.infolist():
            data = narrow.read(entry)
            if types.get(entry.filename) == "f32":
                data = np.frombuffer(data, "<f4").astype("<f8").tobytes()
            wide.writestr(entry.filename, data)
