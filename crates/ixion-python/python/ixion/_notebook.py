"""What notebooks show: a model as the drawing of its graph, and a timeline as a picture."""

from __future__ import annotations

import os
from typing import Any

from ._ixion import Error, Model, command

LARGEST = 2_000_000
"""Larger drawings, in characters, slow a notebook down; such a model is shown as text."""


def _repr_svg_(self: Model) -> str | None:
    """The graph of the model's file as SVG; None without a file, for a plan, and if the drawing is too large."""
    text = self.__dict__.get("_text")
    if text is not None:
        return drawing_of_text(text)
    if self.path is None or not os.path.isfile(self.path):
        return None
    return drawing(self.path)


def drawing_of_text(text: str) -> str | None:
    """The drawing of a `.param` file with this text: that of a compiled model may be gone."""
    import pathlib
    import tempfile

    if len(text) > LARGEST:
        return None
    with tempfile.TemporaryDirectory(prefix="ixion-") as folder:
        path = pathlib.Path(folder, "model.pnnx.param")
        path.write_text(text, encoding="utf-8")
        return drawing(path)


def drawing(path: str | os.PathLike[str]) -> str | None:
    try:
        text = command("inspect", path, "--svg", "-")
    except Error:
        # A plan has no drawing.
        return None
    return text if isinstance(text, str) and len(text) <= LARGEST else None


class Svg(str):
    """The text of an SVG picture, which notebooks show as one."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


def register() -> None:
    """Gives models what notebooks ask for."""
    timeline = Model.timeline

    def shown(self: Model, /, *inputs: Any, top: int | None = None, **named: Any) -> str:
        return Svg(timeline(self, *inputs, top=top, **named))

    shown.__module__, shown.__name__, shown.__qualname__, shown.__doc__ = "ixion", "timeline", "Model.timeline", timeline.__doc__
    Model.timeline = shown  # type: ignore[method-assign]
    Model._repr_svg_ = _repr_svg_  # type: ignore[method-assign]
