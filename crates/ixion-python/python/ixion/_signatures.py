"""The signatures of calls, for `inspect` and what shows them: an extension module can state those of functions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._ixion import Context, Model

if TYPE_CHECKING:
    from inspect import Signature


class OfCalls:
    """What `inspect.signature` asks for: the signature of a call for an instance, and nothing for its class."""

    def __get__(self, instance: object, owner: type) -> Signature:
        # Importing it takes longer than all of this package.
        import inspect

        if instance is None:
            raise AttributeError("a class has the signature that its documentation states")
        kinds = inspect.Parameter
        return inspect.Signature([
            kinds("inputs", kinds.VAR_POSITIONAL), kinds("out", kinds.KEYWORD_ONLY, default=None),
            kinds("timeout", kinds.KEYWORD_ONLY, default=None), kinds("named", kinds.VAR_KEYWORD),
        ])


def register() -> None:
    """Gives models and contexts the signature of their calls."""
    for called in (Model, Context):
        setattr(called, "__signature__", OfCalls())
