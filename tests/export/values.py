"""Inputs for cases."""

import torch
from torch import Tensor

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
COMPLEX = [torch.complex64, torch.complex128]
REALS = FLOATS + INTEGERS
ALL = REALS + [torch.bool] + COMPLEX

INF, NAN = float("inf"), float("nan")


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normally distributed numbers, complex if the type is complex."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(shape, dtype=wide).to(dtype)


def rand(*shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Uniformly distributed numbers from `low` to `high`."""
    return (torch.rand(shape, dtype=torch.float64) * (high - low) + low).to(dtype)


def random_integers(*shape: int, low: int = 0, high: int = 8, dtype: torch.dtype = torch.int64) -> Tensor:
    """Integers from `low` up to, not including, `high`."""
    return torch.randint(low, high, shape, dtype=torch.int64).to(dtype)


def random_bools(*shape: int) -> Tensor:
    return torch.rand(shape) < 0.5


def values_of(dtype: torch.dtype, *shape: int) -> Tensor:
    """Some values of any type."""
    if dtype == torch.bool:
        return random_bools(*shape)
    if dtype.is_floating_point or dtype.is_complex:
        return randn(*shape, dtype=dtype)
    return random_integers(*shape, low=0 if dtype == torch.uint8 else -8, dtype=dtype)


def special(dtype: torch.dtype = torch.float32) -> Tensor:
    """Special values: NaN, infinities, both zeros, halves, the smallest and the largest."""
    info = torch.finfo(dtype)
    values = [NAN, INF, -INF, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, info.tiny, info.max, info.min]
    return torch.tensor(values, dtype=dtype)
