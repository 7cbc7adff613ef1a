"""Comparisons, logic, bits, and what kind of number an element is."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, COMPLEX, FLOATS, INF, INTEGERS, NAN, REALS, randn, random_bools, random_integers, special, values_of

ORDERS = ["eq", "ne", "lt", "le", "gt", "ge"]


def comparisons(model: Model, name: str) -> None:
    """A comparison with all types, broadcasting, numbers and the values that go wrong."""
    op, is_order = f"torch.{name}", name not in ("eq", "ne")
    odd = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0])
    model.op(op, odd.reshape(-1, 1), odd.clone())
    for dtype in REALS + [torch.bool] + ([] if is_order else COMPLEX):
        x = random_integers(2, 1, low=0, high=3).to(dtype)
        model.op(op, x, x.flip(0).flatten())
    for other in (0.5, True, INF, 300):
        model.op(op, torch.tensor([0, 1, 255], dtype=torch.int32), other=other)
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        x = randn(*shape)
        model.op(op, x, x)


def comparison_types(model: Model, name: str) -> None:
    """Of different types the comparison is made in the common one."""
    op = f"torch.{name}"
    x = torch.tensor([1.0, 2.0, 16777216.0])
    model.op(op, x, torch.tensor([1, 3, 16777217]))
    model.op(op, torch.tensor([200, 3], dtype=torch.uint8), torch.tensor([-56, 3], dtype=torch.int8))
    model.op(op, random_bools(3), torch.tensor([0.0, 1.0, 0.5]))
    model.op(op, torch.tensor([0.1, 0.2]), torch.tensor([0.1, 0.2], dtype=torch.float64))
    model.op(op, torch.tensor([0.1, 0.2]), torch.tensor(0.1, dtype=torch.float64))
    for other in (0.5, -1, INF, 2**31):
        model.op(op, x, other=other)
    model.op(f"Tensor.{name}", x, other=2.0)
    model.op(f"Tensor.{name}", x, torch.tensor([2.0]))
    model.op(op, randn(2, 1, 1, 2), randn(2, 1))
    model.op(op, randn(2, 2), torch.tensor(0.0))
    model.op(op, torch.tensor(3), torch.tensor(2.5))


@direct
def torch_eq_of_types(model: Model) -> None:
    comparison_types(model, "eq")


@direct
def torch_lt_of_types(model: Model) -> None:
    comparison_types(model, "lt")


@direct
def torch_eq(model: Model) -> None:
    comparisons(model, "eq")


@direct
def torch_ne(model: Model) -> None:
    comparisons(model, "ne")


@direct
def torch_lt(model: Model) -> None:
    comparisons(model, "lt")


@direct
def torch_le(model: Model) -> None:
    comparisons(model, "le")


@direct
def torch_gt(model: Model) -> None:
    comparisons(model, "gt")


@direct
def torch_ge(model: Model) -> None:
    comparisons(model, "ge")


def logic(model: Model, op: str) -> None:
    odd = torch.tensor([NAN, INF, 0.0, -0.0, 1e-45, -1.0])
    model.op(op, odd.reshape(-1, 1), odd.clone())
    for dtype in ALL:
        x = torch.tensor([[0], [1]]).to(dtype)
        model.op(op, x, x.flatten())
    model.op(op, torch.tensor([0, 2, 256]), torch.tensor([1.0, 0.0, 0.5]))
    model.op(op, random_bools(2, 1, 3), torch.tensor([0, 1, 2], dtype=torch.uint8))
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        x = random_bools(*shape)
        model.op(op, x, x)
    model.op(op, random_bools(3), torch.tensor(2))


@direct
def torch_logical_and(model: Model) -> None:
    logic(model, "torch.logical_and")


@direct
def torch_logical_or(model: Model) -> None:
    logic(model, "torch.logical_or")


@direct
def torch_logical_xor(model: Model) -> None:
    logic(model, "torch.logical_xor")


@direct
def torch_logical_not(model: Model) -> None:
    for dtype in ALL:
        model.op("torch.logical_not", random_integers(5, low=-1, high=2).abs().to(dtype))
    model.op("torch.logical_not", special())
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        model.op("torch.logical_not", random_bools(*shape))


def bits(model: Model, op: str) -> None:
    for dtype in [*INTEGERS, torch.bool]:
        x = random_bools(4) if dtype == torch.bool else torch.tensor([0, 5, 77, torch.iinfo(dtype).max], dtype=dtype)
        y = random_bools(2, 1) if dtype == torch.bool else torch.tensor([[torch.iinfo(dtype).min], [6]], dtype=dtype)
        model.op(op, x, y)
        model.op(op, x, other=True if dtype == torch.bool else 6)
    model.op(op, torch.tensor([1, 2, -1], dtype=torch.int8), torch.tensor([200, 3, 255], dtype=torch.uint8))
    model.op(op, torch.tensor([True, False]), torch.tensor([6, 7]))
    model.op(op, torch.tensor([True, False]), other=6)
    model.op(op, torch.tensor([1, 2], dtype=torch.int16), torch.tensor(70000))
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        x = random_integers(*shape)
        model.op(op, x, x)
    model.op(op, random_integers(2, 1, 3), torch.tensor(5))


@direct
def torch_bitwise_and(model: Model) -> None:
    bits(model, "torch.bitwise_and")


@direct
def torch_bitwise_or(model: Model) -> None:
    bits(model, "torch.bitwise_or")


@direct
def torch_bitwise_xor(model: Model) -> None:
    bits(model, "torch.bitwise_xor")


@direct
def torch_bitwise_not(model: Model) -> None:
    for dtype in [*INTEGERS, torch.bool]:
        x = random_bools(4) if dtype == torch.bool else torch.tensor([0, 5, torch.iinfo(dtype).min, torch.iinfo(dtype).max], dtype=dtype)
        model.op("torch.bitwise_not", x)
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        model.op("torch.bitwise_not", random_integers(*shape))


def shifts(model: Model, op: str) -> None:
    for dtype in INTEGERS:
        info = torch.iinfo(dtype)
        x = torch.tensor([1, 77, info.max, info.min], dtype=dtype).reshape(-1, 1)
        by = torch.tensor([0, 1, info.bits - 1, info.bits, 100, 0 if dtype == torch.uint8 else -1], dtype=dtype)
        model.op(op, x, by)
        model.op(op, x, other=2)
    model.op(op, torch.tensor([1, 100], dtype=torch.int8), torch.tensor([7, 3], dtype=torch.int32))
    model.op(op, torch.tensor([1, 100], dtype=torch.int8), torch.tensor(9))
    model.op(op, torch.tensor([3], dtype=torch.int32), other=40)
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        x = random_integers(*shape)
        model.op(op, x, x)


@direct
def torch_bitwise_left_shift(model: Model) -> None:
    shifts(model, "torch.bitwise_left_shift")


@direct
def torch_bitwise_right_shift(model: Model) -> None:
    shifts(model, "torch.bitwise_right_shift")


def kind(model: Model, op: str) -> None:
    for dtype in FLOATS:
        model.op(op, special(dtype))
    for dtype in [*INTEGERS, torch.bool]:
        model.op(op, values_of(dtype, 3))
    for dtype in COMPLEX:
        model.op(op, torch.tensor([complex(NAN, 0), complex(0, NAN), complex(INF, 1), complex(1, -INF), complex(INF, NAN), 1 + 1j], dtype=dtype))
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        model.op(op, randn(*shape))


@direct
def torch_isnan(model: Model) -> None:
    kind(model, "torch.isnan")


@direct
def torch_isinf(model: Model) -> None:
    kind(model, "torch.isinf")


@direct
def torch_isfinite(model: Model) -> None:
    kind(model, "torch.isfinite")


@exported
def comparisons_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            return (x == y, x != y, x < y, x <= y, x > y, x >= y, x == 0, x != 1, x < 0.5, x <= 1, x > 0.1, x >= -1.0,
                    torch.eq(x, y), torch.ge(y, 0), (x > 0).any(), (x > y).all(dim=1), torch.isnan(x))
    return Export(Net(), randn(2, 3), randn(2, 3), others=[(randn(4, 1), randn(4, 1)), (randn(1, 5), randn(1, 5))])


@exported
def logic_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            a, b = x > 0, y > 0
            return (torch.logical_and(a, b), torch.logical_or(a, b), torch.logical_xor(a, b), torch.logical_not(a), a & b,
                    a | b, ~a, a ^ b, torch.logical_and(x, y), torch.logical_not(x))
    return Export(Net(), randn(2, 3), randn(3), others=[(randn(4, 3), randn(3)), (randn(1, 3), randn(3))])


@exported
def bits_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            return (torch.bitwise_and(x, y), torch.bitwise_or(x, y), torch.bitwise_xor(x, y), torch.bitwise_not(x),
                    torch.bitwise_left_shift(x, y), torch.bitwise_right_shift(x, y), x & 3, x | 8, x << y, x >> 2)
    return Export(Net(), random_integers(2, 3, low=-99, high=99), random_integers(3, low=0, high=6))
