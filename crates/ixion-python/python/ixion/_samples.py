"""The samples that a model is exported with: checks of the inputs, and a second sample for dynamic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from ._ixion import InputError

if TYPE_CHECKING:
    from torch import Tensor

Axes = Mapping[int, Optional[str]]
"""Axes, and the names of their lengths. Lengths of one name are equal; None is a name of its own."""
Dynamic = Union[Axes, Mapping[str, Axes], Sequence[Optional[Axes]], None]
Names = Optional[Sequence[str]]
"""The names of the inputs, if they have any."""


def without_names(given: Any, what: str) -> tuple[Any, tuple[str, ...] | None]:
    """The inputs, and their names if they are those of a dictionary."""
    if not isinstance(given, Mapping):
        return given, None
    for name in given:
        if not isinstance(name, str):
            raise InputError(f"`{what}`: the names of inputs must be strings, but {described(name)} is none")
    return tuple(given.values()), tuple(given)


def checked(given: Any, what: str, dtypes: Mapping[Any, str]) -> tuple[Tensor, ...]:
    """The inputs as a tuple of tensors that PNNX accepts, whose types are `dtypes`."""
    import torch

    inputs = (given,) if isinstance(given, torch.Tensor) else given
    if not isinstance(inputs, (tuple, list)) or not inputs:
        raise InputError(f"`{what}` must be a tensor, a tuple of tensors or a dictionary of them, but is {described(given)}")
    for position, tensor in enumerate(inputs):
        problem = problem_of(tensor, dtypes)
        if problem is not None:
            raise InputError(f"`{what}`: input {position} {problem}")
    return tuple(inputs)


def problem_of(value: Any, dtypes: Mapping[Any, str]) -> str | None:
    """Why PNNX would not accept an input; None if it does."""
    import torch

    if not isinstance(value, torch.Tensor):
        return f"must be a tensor, but is {described(value)}"
    if value.device.type != "cpu":
        return f"is on {value.device}; move the module and its inputs to the CPU first"
    if value.layout is not torch.strided:
        return "is sparse; convert it by `.to_dense()`"
    if value.dim() == 0:
        return "has no axes, which PNNX does not accept; give a tensor of shape (1,)"
    return None if value.dtype in dtypes else f"is {value.dtype}, which PNNX does not accept; convert it in the module"


def second(given: Any, first: Sequence[Tensor], names: Names, dtypes: Mapping[Any, str]) -> tuple[Tensor, ...]:
    """A second sample of the caller, in the order of the first."""
    values, own = without_names(given, "second_inputs")
    if own is not None:
        if names is None or set(own) != set(names):
            wanted = f"those of the first sample, {', '.join(names)}" if names is not None else "left out, as in the first sample"
            raise InputError(f"`second_inputs`: the names of inputs must be {wanted}")
        values = tuple(given[name] for name in names)
    inputs = checked(values, "second_inputs", dtypes)
    kinds = [[(tensor.dim(), tensor.dtype) for tensor in sample] for sample in (first, inputs)]
    if kinds[0] != kinds[1]:
        raise InputError("`second_inputs` must have as many inputs, axes and the same types as the first: "
                         f"{text_of(inputs)} instead of {text_of(first)}")
    return inputs


def check_lengths(first: Sequence[Tensor], other: Sequence[Tensor], axes: Sequence[Axes]) -> None:
    """Checks that the lengths of two samples differ in the dynamic axes, and in no others."""
    for position, (one, two, dynamic) in enumerate(zip(first, other, axes)):
        for axis, (length, longer) in enumerate(zip(one.shape, two.shape)):
            where = f"`second_inputs`: axis {axis} of input {position}"
            if length != longer and axis not in dynamic:
                raise InputError(f"{where} has {longer} elements instead of {length}, but is not in `dynamic`")
            if length == longer and axis in dynamic:
                raise InputError(f"{where} is in `dynamic`, but has {length} elements in both samples")


def described(value: object) -> str:
    """A value as in messages: as Python writes it if that is short, or else its type."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"of the type {type(value).__name__}"


def axes_of(dynamic: Dynamic, inputs: Sequence[Tensor], names: Names) -> list[dict[int, str | None]]:
    """The dynamic axes of each input, counted from 0.

    A dictionary of axes stands for those of all inputs that have them; a sequence has a dictionary or None for each input, and a
    dictionary of dictionaries has them by the inputs' names.
    """
    if dynamic is None:
        return [{} for _ in inputs]
    each: list[Any]
    is_common = False
    if isinstance(dynamic, Mapping) and dynamic and all(isinstance(name, str) for name in dynamic):
        each = by_name(dynamic, names)
    elif isinstance(dynamic, Mapping):
        each, is_common = [dynamic] * len(inputs), True
    elif isinstance(dynamic, Sequence) and not isinstance(dynamic, str):
        each = list(dynamic)
    else:
        raise InputError(f"`dynamic` must be a dictionary such as {{0: \"batch\"}}, or one for each input, but is {described(dynamic)}")
    if len(each) != len(inputs):
        raise InputError(f"`dynamic` has dictionaries for {len(each)} inputs, but there are {len(inputs)}")
    found = [of_input({} if axes is None else axes, tensor, position, is_common)
             for position, (axes, tensor) in enumerate(zip(each, inputs))]
    if is_common:
        for axis in each[0]:
            if not any(-tensor.dim() <= axis < tensor.dim() for tensor in inputs):
                raise InputError(f"`dynamic`: no input has an axis {axis}")
    return found


def by_name(dynamic: Mapping[Any, Any], names: Names) -> list[Any]:
    """Dictionaries of axes in the order of the inputs."""
    known = list(names or ())
    for name in dynamic:
        if name not in known:
            which = f"they are called {', '.join(known)}" if known else "they have no names; give a list with a dictionary for each"
            raise InputError(f"`dynamic`: there is no input {name!r}: {which}")
    return [dynamic.get(name) for name in known]


def of_input(axes: object, tensor: Tensor, position: int, is_common: bool) -> dict[int, str | None]:
    if not isinstance(axes, Mapping):
        raise InputError(f"`dynamic`: expected a dictionary such as {{0: \"batch\"}} for input {position}, found {described(axes)}")
    found: dict[int, str | None] = {}
    for axis, name in axes.items():
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise InputError(f"`dynamic`: an axis is a number, but {described(axis)} was given")
        # A name becomes a part of the model's shapes, as in "batch,3,?,224".
        if name is not None and not (isinstance(name, str) and name.isascii() and name.isidentifier()):
            raise InputError(f"`dynamic`: {described(name)} cannot be the name of a length; use letters, digits and _, or None")
        if -tensor.dim() <= axis < tensor.dim():
            if axis % tensor.dim() in found:
                raise InputError(f"`dynamic`: axis {axis} of input {position} is given twice")
            found[axis % tensor.dim()] = name
        elif not is_common:
            raise InputError(f"`dynamic`: there is no axis {axis} of input {position}, which has {tensor.dim()}")
    return found


def groups_of(axes: Sequence[Axes], inputs: Sequence[Tensor]) -> list[list[tuple[int, int]]]:
    """The axes that have one length, as pairs of an input's position and an axis."""
    named: dict[object, list[tuple[int, int]]] = {}
    for position, of_one in enumerate(axes):
        for axis, name in of_one.items():
            named.setdefault(name if name is not None else (position, axis), []).append((position, axis))
    for shared, group in named.items():
        lengths = {inputs[position].shape[axis] for position, axis in group}
        if len(lengths) > 1:
            raise InputError(f"`dynamic`: axes named {shared!r} must have the same length, but have {sorted(lengths)}")
    return list(named.values())


def shapes_of(inputs: Sequence[Tensor], axes: Sequence[Axes]) -> list[tuple[int | str | None, ...]]:
    """The shapes with the names of dynamic axes."""
    return [tuple(of_one.get(axis, length) for axis, length in enumerate(tensor.shape)) for tensor, of_one in zip(inputs, axes)]


def text_of(inputs: Sequence[Tensor]) -> str:
    """The shapes and element types, for messages and hashes."""
    return ", ".join(f"{'×'.join(map(str, tensor.shape)) or 'scalar'} {str(tensor.dtype).removeprefix('torch.')}" for tensor in inputs)
