"""The inputs of a module by name: those of its parameters, instead of PNNX's `pnnx_input_0`; and modules that PNNX understands."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def of_parameters(function: Callable[..., Any], count: int) -> tuple[str, ...] | None:
    """The names of the first parameters of a function; None if it does not name so many."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    names = tuple(it.name for it in parameters if it.kind in POSITIONAL)[:count]
    return names if len(names) == count else None


def is_flat(returned: object) -> bool:
    """Whether PyTorch traces what a module returns: a tensor, or a tuple of tensors."""
    from torch import Tensor

    return isinstance(returned, Tensor) or (type(returned) is tuple and all(isinstance(it, Tensor) for it in returned))


def adapted(
    called: Callable[..., Any], keywords: Sequence[str] | None = None, flatten: Callable[[object], Sequence[Any]] | None = None
) -> nn.Module:
    """A module or function as a module that takes keywords by position, and returns all tensors in one tuple."""
    from torch import nn

    # Without PyTorch, type checkers do not know the class.
    class Adapted(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            if isinstance(called, nn.Module):
                self.module = called
            else:
                self.used = nn.ModuleList(modules_of(called))

        def forward(self, *inputs: Any) -> Any:
            returned = called(*inputs) if keywords is None else called(**dict(zip(keywords, inputs)))
            return returned if flatten is None else tuple(flatten(returned))

    # Not by `train`, which is for all parts as well.
    module = Adapted()
    module.training = getattr(called, "training", False)
    return module


def modules_of(function: Callable[..., Any]) -> list[nn.Module]:
    """The modules that a function uses, whose weights PyTorch would not trace otherwise: its own, and those of its variables."""
    from torch import nn

    found = [getattr(function, "__self__", None)]
    with contextlib.suppress(TypeError):
        variables = inspect.getclosurevars(function)
        found += [*variables.nonlocals.values(), *variables.globals.values()]
    return list(dict.fromkeys(it for it in found if isinstance(it, nn.Module)))


def rename(param: Path, names: Sequence[str]) -> None:
    """Gives the inputs of a file their names, except those that a file cannot have, or has already."""
    text = param.read_text(encoding="utf-8", errors="surrogateescape")
    known = {words[1] for words in (line.split(maxsplit=2) for line in text.splitlines()[2:]) if len(words) > 1}
    for position, name in enumerate(names):
        if NAME.fullmatch(name) and name not in known:
            text = re.sub(rf"^(pnnx\.Input +)pnnx_input_{position}(?= )", rf"\g<1>{name}", text, flags=re.MULTILINE)
    param.write_text(text, encoding="utf-8", errors="surrogateescape")


def inputs_of(param: Path) -> list[str]:
    """The names of the inputs of a file."""
    lines = param.read_text(encoding="utf-8", errors="replace").splitlines()[2:]
    words = [line.split(maxsplit=2) for line in lines if line.startswith("pnnx.Input ")]
    return [word[1] for word in words if len(word) > 1]
