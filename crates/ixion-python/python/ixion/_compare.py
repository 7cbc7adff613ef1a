"""Comparison of a compiled model's outputs with PyTorch's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._ixion import InputError
from ._samples import described, text_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

USUAL = 1e-4
"""How much results in f32 may differ, relative plus absolute."""
OF_PRECISION = {"f16": 1e-2, "bf16": 5e-2, "int8": 1e-1}
"""The same for results that other precisions may compute, as a part of the largest magnitude."""
OF_OUTPUT = {"torch.float16": 1e-2, "torch.bfloat16": 5e-2}
"""The same for outputs of few digits, relative plus absolute."""


@dataclass(frozen=True)
class Tolerance:
    """How much outputs may differ."""

    given: float | None
    """Relative plus absolute, if the caller says so."""
    of_largest: float = 0.0
    """As a part of the largest magnitude, otherwise."""

    @classmethod
    def of(cls, given: object, precision: Any) -> Tolerance:
        """That of an argument of `compile` and its option `precision`."""
        if given is None:
            names = precision.split(",") if isinstance(precision, str) else precision or ()
            return cls(None, max((OF_PRECISION.get(str(name).strip(), 0.0) for name in names), default=0.0))
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < math.inf:
            raise InputError(f"`tolerance` must be a number from 0 up, such as 1e-4, but is {described(given)}")
        return cls(float(given))

    def of_type(self, dtype: torch.dtype) -> tuple[float, float]:
        """For outputs of a type: relative plus absolute, and as a part of the largest magnitude."""
        if self.given is not None:
            return self.given, 0.0
        return OF_OUTPUT.get(str(dtype), USUAL), self.of_largest


def difference(found: Tensor, wanted: Tensor, tolerance: Tolerance) -> str | None:
    """What is wrong with an output, if anything is. Integers and bools must be equal, and so must what is not finite."""
    import torch

    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{text_of([found])} instead of {text_of([wanted])}"
    if not (wanted.is_floating_point() or wanted.is_complex()):
        return count_of(found != wanted, "differ")
    relative, of_largest = tolerance.of_type(wanted.dtype)
    wide = torch.complex128 if wanted.is_complex() else torch.float64
    found, wanted = found.to(wide), wanted.to(wide)
    magnitudes = wanted[wanted.isfinite()].abs()
    largest = float(magnitudes.max()) if magnitudes.numel() else 0.0
    if torch.allclose(found, wanted, rtol=relative, atol=relative + of_largest * largest, equal_nan=True):
        return None
    are_finite = found.isfinite() & wanted.isfinite()
    are_same = (found == wanted) | (found.isnan() & wanted.isnan())
    if not bool((are_finite | are_same).all()):
        return count_of(~are_finite & ~are_same, "differ in whether they are infinite or not a number")
    apart = float((found - wanted)[are_finite].abs().max())
    return f"max difference {apart:.2g}, where the largest magnitude is {largest:.2g}"


def count_of(differing: Tensor, how: str) -> str | None:
    count = int(differing.sum())
    return f"{count} of {differing.numel()} elements {how}" if count else None
