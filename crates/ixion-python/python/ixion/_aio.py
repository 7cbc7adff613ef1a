"""`await model.run_async(x)`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ._ixion import Context, InputError, Model

if TYPE_CHECKING:
    from asyncio import Future

KEPT = 16
"""A model keeps as many contexts that are not in use for the next runs."""


async def run_async(self: Model, /, *inputs: Any, out: Any = None, timeout: float | None = None, **named: Any) -> Any:
    """Run the model in a thread of the event loop's pool: ``y = await model.run_async(x)``.

    Arguments, results and exceptions are those of a call. If the task is cancelled, the run ends, too, at the end of the operator
    that is running; only then does the task end, so that nothing is written to the arrays of ``out`` later.
    """
    import asyncio
    import functools

    idle: list[Context] = self.__dict__.setdefault("_contexts", [])
    try:
        context = idle.pop()
    except IndexError:
        context = self.context()
    call = functools.partial(context, *inputs, out=out, timeout=timeout, **named)
    run = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        # Unlike `await run`, this does not cancel what runs: a thread cannot be cancelled from outside.
        await asyncio.wait([run])
    except asyncio.CancelledError:
        # This ends a run that has not begun yet as well. The context is not used again: if its run had ended already, the next
        # one would be cancelled.
        context.cancel()
        await ended(run)
        raise
    try:
        result = run.result()
    except InputError:
        keep(idle, context)
        raise
    # After other exceptions, the context may be unusable.
    keep(idle, context)
    return result


async def ended(run: Future[Any]) -> None:
    """Waits for the end of a run, also if the task is cancelled again meanwhile."""
    import asyncio

    while not run.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([run])
    if not run.cancelled():
        # Whoever cancelled the task does not want to know how the run ended.
        run.exception()


def keep(idle: list[Context], context: Context) -> None:
    if len(idle) < KEPT:
        idle.append(context)


def register() -> None:
    """Gives models the method, and lets `clear` discard its contexts as well."""
    clear = Model.clear

    def cleared(self: Model) -> None:
        self.__dict__.pop("_contexts", None)
        clear(self)

    run_async.__module__, run_async.__qualname__ = "ixion", "Model.run_async"
    cleared.__module__, cleared.__name__, cleared.__qualname__, cleared.__doc__ = "ixion", "clear", "Model.clear", clear.__doc__
    Model.run_async = run_async  # type: ignore[method-assign]
    Model.clear = cleared  # type: ignore[method-assign]
