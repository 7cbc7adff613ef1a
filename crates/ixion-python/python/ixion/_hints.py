"""What was probably meant by the name of an argument that nothing has: for the messages of all functions."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable

LIKENESS = 0.75
"""How much of two names must agree, from 0 to 1. At 0.67, `in0` would be like `bin`."""
SHORTEST = 3
"""Shorter names are like too many others."""
FUNCTIONS = ("load", "build", "compile", "calibrate", "verify", "classify", "detect")
OF_METHODS = {"out": "a model's call", "timeout": "a model's call", "runs": "`Model.profile`"}
OF_LIMITS = ("memory", "max_total_bytes", "max_tensor_bytes", "max_ops", "max_rank", "timeout")


def hint(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that is none of `known`; empty if nothing is near.

    A function that has an argument of just this name says more than another name that is similar.
    """
    elsewhere = takers()
    if name in elsewhere:
        return f"`{name}` is an argument of {listed(elsewhere[name])}"
    own = nearest(name, known)
    if own is not None:
        return f"perhaps `{own}` is meant"
    other = nearest(name, elsewhere)
    return "" if other is None else f"perhaps `{other}` is meant, an argument of {listed(elsewhere[other])}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that a misspelt one is most like; None if it is like none."""
    if len(name) < SHORTEST:
        return None
    return next(iter(difflib.get_close_matches(name, list(known), 1, LIKENESS)), None)


def takers() -> dict[str, list[str]]:
    """What takes an argument, by its name."""
    found = {name: [method] for name, method in OF_METHODS.items()}
    for function in FUNCTIONS:
        for name in keywords(function):
            found.setdefault(name, []).append(f"`ixion.{function}`")
    for name in OF_LIMITS:
        found.setdefault(name, []).append(f'`limits={{"{name}": …}}`')
    return found


def keywords(function: str) -> list[str]:
    """The arguments that a function of the package takes by name alone."""
    import ixion

    parameters = inspect.signature(getattr(ixion, function)).parameters.values()
    return [it.name for it in parameters if it.kind is it.KEYWORD_ONLY]


def listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
