"""`ixion.compile`: from a PyTorch module to a model, with PNNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ._ixion import Model, ModelError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import torch
    from torch import Tensor

    from ._samples import Dynamic


PAGE = "What PNNX gets wrong, and what to do"
"""The page of Ixion's book whose sections losses name."""


class Loss(NamedTuple):
    """A part of a module that PNNX loses, or that Ixion cannot run."""

    message: str
    """What is lost."""
    section: str = ""
    """The section of the page "What PNNX gets wrong, and what to do" in Ixion's book that says what to do; may be empty."""
    places: tuple[tuple[str, int], ...] = ()
    """Files and lines of the module that it may come from."""

    def __str__(self) -> str:
        import linecache

        text = self.message
        for file, line in self.places[:3]:
            code = linecache.getline(file, line).strip()
            text += f"\n    {file}:{line}" + (f": {code}" if code else "")
        if len(self.places) > 3:
            text += f"\n    and {len(self.places) - 3} more lines"
        return text + (f'\n    see "{self.section}" on the page "{PAGE}" (pnnx_losses.md) of Ixion\'s book' if self.section else "")


class CompileError(ModelError):
    """A module cannot be compiled, or the compiled model does not give PyTorch's results.

    ``losses`` lists what PNNX is known to have lost, each with lines of the module.
    """

    losses: tuple[Loss, ...]

    def __init__(self, message: str, losses: Sequence[Loss] = ()) -> None:
        super().__init__(message)
        self.losses = tuple(losses)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.losses)


def compile(  # noqa: A001 - as in `torch.compile`
    module: torch.nn.Module | Callable[..., Any],
    example_inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    *,
    dynamic: Dynamic = None,
    second_inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor] | None = None,
    cache: bool | str | os.PathLike[str] = True,
    tolerance: float | None = None,
    timeout: float | None = None,
    progress: Callable[..., Any] | None = None,
    **options: Any,
) -> Model:
    """Compile a PyTorch module, and check that the result computes the same.

    PNNX exports the module with samples of its inputs, Ixion builds the result and runs it, and the outputs are compared with
    PyTorch's. What PNNX is known to lose, such as slices of dynamic axes, is reported with the lines of the module: by the
    exception if outputs differ, else as warnings of the logger ``ixion.compile`` and as ``model.losses``.

    Needs the packages ``torch`` and ``pnnx`` (``pip install "ixion[torch]"``).

    Parameters
    ----------
    module : torch.nn.Module or callable
        The module, or a function of tensors, on the CPU. It is traced in evaluation mode, and otherwise left as it is.
    example_inputs : torch.Tensor, or sequence or dict of torch.Tensor
        A sample of the inputs, such as ``(torch.rand(1, 3, 224, 224),)``; the module is called with a dict by keywords. All sizes
        are fixed unless they are dynamic.
    dynamic : dict, or sequence with a dict or None for each input, optional
        The axes whose lengths may change, with names: ``{0: "batch"}`` for axis 0 of all inputs,
        ``[{0: "batch", 1: "words"}, {0: "batch"}]``, or ``{"ids": {0: "batch", 1: "words"}}`` by inputs. Axes of the same name have
        the same length; a name may be None. PNNX needs a second sample, which is twice as long in these axes.
    second_inputs : torch.Tensor, or sequence or dict of torch.Tensor, optional
        A second sample of one's own, for inputs whose values depend on their sizes, or whose sizes depend on each other in other
        ways. Axes in which the two samples differ are dynamic.
    cache : bool or path
        Whether exported files are kept in the user's folder for caches, or the folder for them. They are found again by a hash of
        the code that was traced, the weights, the shapes and all versions. Results are compared in any case.
    tolerance : float, optional
        How much outputs may differ, relative plus absolute. Default: 1e-4; 1e-2 for outputs of f16 and 5e-2 for those of bf16; and
        if ``precision`` allows other types, in addition a part of the output's largest magnitude: 1e-2 for f16, 5e-2 for bf16
        and 1e-1 for int8. Integers and bools must be equal.
    timeout : float, optional
        The seconds that PNNX may take.
    progress : callable, optional
        Such as ``tqdm.tqdm``: called with ``total``, the number of steps; its result with ``update(1)`` after each step, and
        ``close()`` at the end.
    **options
        Those of ``ixion.load``, such as ``threads`` and ``precision``.

    Returns
    -------
    Model
        Called with tensors, it returns tensors: one; a dict with the same keys, if the module returns a dict of tensors; or else
        a flat tuple of all that the module returns in lists, tuples and dicts. The model is named after the module's class, or
        the function. Its inputs have the names of the parameters of ``forward``, or those of ``example_inputs``: ``xs_0``,
        ``xs_1`` for ``*xs``, and ``x_`` if a part of the module is called ``x``, too.

    Raises
    ------
    ixion.CompileError
        If the module cannot be traced or exported, or if the outputs differ: PyTorch never runs in the model's place.
    ixion.InputError
        If an argument cannot be used. Names and values of options are checked before anything is exported.
    ixion.TimeoutError
        If PNNX takes longer than ``timeout``.
    ImportError
        If ``torch`` or ``pnnx`` is not installed.
    """
    from ._job import compiled

    return compiled(module, example_inputs, dynamic, second_inputs, cache, tolerance, timeout, progress, options)


def cache_folder() -> Path | None:
    """The folder in which ``compile`` keeps exported files: ``ixion/compiled`` in the user's folder for caches.

    None if the environment names no such folder. It has at most 4 GiB; what was not used for the longest time makes room.
    """
    from ._cache import user_folder

    return user_folder()


def clear_cache(folder: str | os.PathLike[str] | None = None) -> None:
    """Remove the exported files that ``compile`` keeps, in its own folder or in one that was given by ``cache=``.

    Nothing else in the folder is removed. Models that are in use are not affected.
    """
    from pathlib import Path

    from . import _cache

    found = _cache.user_folder() if folder is None else Path(folder)
    if found is not None:
        _cache.clear(found)


def register() -> None:
    """Makes this the module of what users see as `ixion.…`, and gives models that were not compiled no losses."""
    for public in (Loss, CompileError, compile, cache_folder, clear_cache):
        public.__module__ = "ixion"
    Model.losses = ()
