"""The inputs of a module by name: those of its parameters, instead of PNNX's `pnnx_input_0`; and modules that PNNX understands."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST = 100
"""Longer names of classes are not used for files."""


def of_module(given: Any) -> str:
    """The name of a compiled model: that of the module's class, or of the function."""
    from torch import nn

    owner = getattr(given, "__self__", given)
    # What a script was before is an attribute.
    name = getattr(owner, "original_name", type(owner).__name__) if isinstance(owner, nn.Module) else getattr(owner, "__name__", "")
    return name if isinstance(name, str) and NAME.fullmatch(name) and len(name) <= LONGEST else "model"


def of_parameters(function: Callable[..., Any], count: int) -> tuple[str, ...] | None:
    """The names of the first parameters of a function; None if it does not name so many. Those of `*xs` are `xs_0`, `xs_1`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    names = [it.name for it in parameters if it.kind in POSITIONAL][:count]
    for rest in (it.name for it in parameters if it.kind is inspect.Parameter.VAR_POSITIONAL):
        names += [f"{rest}_{number}" for number in range(count - len(names))]
    return tuple(names) if len(set(names)) == count else None


def of_results(returned: object) -> tuple[str, ...] | None:
    """The keys of a dictionary of tensors, without those of what is None; None for anything else."""
    from torch import Tensor

    if not isinstance(returned, Mapping):
        return None
    kept = {key: value for key, value in returned.items() if value is not None}
    is_plain = all(isinstance(key, str) and isinstance(value, Tensor) for key, value in kept.items())
    return tuple(kept) if is_plain else None


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


def rename(param: Path, names: Sequence[str], keys: Sequence[str] | None) -> None:
    """Gives the inputs of a file their names, and the outputs those of a dictionary's keys, except those that a file cannot have.

    A name that an operator has already gets an underscore.
    """
    text = param.read_text(encoding="utf-8", errors="surrogateescape")
    lines = [line.split() for line in text.splitlines()[2:]]
    known = {words[1] for words in lines if len(words) > 1}
    for position, name in enumerate(names):
        while name in known:
            name += "_"
        if NAME.fullmatch(name):
            known.add(name)
            text = re.sub(rf"^(pnnx\.Input +)pnnx_input_{position}(?= )", rf"\g<1>{name}", text, flags=re.MULTILINE)
    outputs = results_of(lines)
    if keys is not None and len(outputs) == len(keys) == 1 and NAME.fullmatch(keys[0]) and keys[0] not in known:
        # A file's only output is called as its operator.
        text = re.sub(r"^(pnnx\.Output +)\S+", rf"\g<1>{keys[0]}", text, flags=re.MULTILINE)
    elif keys is not None and len(set(outputs)) == len(outputs) == len(keys):
        text = with_operands(text, lines, {old: new for old, new in zip(outputs, keys) if NAME.fullmatch(new)})
    param.write_text(text, encoding="utf-8", errors="surrogateescape")


def operands_of(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The inputs and the outputs of an operator; none in a line that is broken, which an error says when the file is read."""
    with contextlib.suppress(ValueError, IndexError):
        count, total = int(words[2]), int(words[2]) + int(words[3])
        return list(words[4:4 + count]), list(words[4 + count:4 + total])
    return [], []


def results_of(lines: Sequence[Sequence[str]]) -> list[str]:
    """The operands that a model returns in a tuple, in its order; empty if it returns no tuple."""
    returned = [operands_of(words)[0] for words in lines if words[:1] == ["pnnx.Output"]]
    tuples = [operands_of(words) for words in lines if words[:1] == ["prim::TupleConstruct"]]
    return next((items for items, made in tuples if [made] == returned), [])


def with_operands(text: str, lines: Sequence[Sequence[str]], names: Mapping[str, str]) -> str:
    """The text of a file whose operands have other names, unless these are not new."""
    operands = {operand for words in lines for part in operands_of(words) for operand in part}
    if not operands.isdisjoint(names.values()):
        return text

    def renamed(line: str) -> str:
        words = line.split(" ")
        places = [place for place, word in enumerate(words) if word]
        operands = range(4, 4 + sum(map(len, operands_of([words[place] for place in places]))))
        for order, place in enumerate(places):
            words[place] = of_word(words[place], order in operands)
        return " ".join(words)

    def of_word(word: str, is_operand: bool) -> str:
        # Shapes are `#operand=(1,2)f32`, and some inputs have names: `$weight=operand`.
        head, sign, tail = word.partition("=")
        if is_operand:
            return names.get(word, word)
        if word.startswith("#"):
            return f"#{names.get(head[1:], head[1:])}{sign}{tail}"
        return f"{head}{sign}{names.get(tail, tail)}" if word.startswith("$") else word

    first, second, *body = text.split("\n")
    return "\n".join([first, second, *(renamed(line) if line.strip() else line for line in body)])


def inputs_of(param: Path) -> list[str]:
    """The names of the inputs of a file."""
    lines = param.read_text(encoding="utf-8", errors="replace").splitlines()[2:]
    words = [line.split(maxsplit=2) for line in lines if line.startswith("pnnx.Input ")]
    return [word[1] for word in words if len(word) > 1]
