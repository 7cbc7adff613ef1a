"""Other element types, and complex numbers as pairs of real ones."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, COMPLEX, FLOATS, INF, INTEGERS, NAN, randn, random_bools, random_integers, special, values_of


def converted(model: Model, x, dtypes) -> None:
    for dtype in dtypes:
        model.op("Tensor.to", x, f=lambda x: x.to(dtype), copy=False, dtype=dtype, non_blocking=False)


@direct
def tensor_to_of_floats(model: Model) -> None:
    for dtype in FLOATS:
        converted(model, torch.tensor([0.0, -0.0, 0.9, -0.9, 1.5, -2.5, 99.9], dtype=dtype), [d for d in ALL if d not in (torch.uint8,)])
        converted(model, torch.tensor([0.0, 0.9, 1.5, 99.9, 200.0], dtype=dtype), [torch.uint8])


@direct
def tensor_to_of_integers(model: Model) -> None:
    for dtype in [*INTEGERS, torch.bool]:
        x = random_bools(4) if dtype == torch.bool else torch.tensor([0, 1, 77, torch.iinfo(dtype).max, torch.iinfo(dtype).min], dtype=dtype)
        converted(model, x, ALL)


@direct
def tensor_to_of_complex_numbers(model: Model) -> None:
    for dtype in COMPLEX:
        converted(model, torch.tensor([0j, 1.5 - 2j, 3j, 2 + 0j], dtype=dtype), ALL)


@direct
def tensor_to_odd(model: Model) -> None:
    # Rounding to the nearest, ties to even; too large becomes infinite.
    converted(model, special(), [torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.complex64])
    converted(model, special(torch.float64), [torch.float32, torch.float16, torch.bfloat16, torch.bool])
    converted(model, torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 65519.0, 65520.0, 2**-25, 3 * 2**-26]),
              [torch.float16, torch.bfloat16])
    converted(model, torch.tensor([2**24 + 1, 2**24 + 3, 2**53 + 1, 2**63 - 1, -2**63, 2049, 65535]),
              [torch.float32, torch.float64, torch.float16, torch.bfloat16])
    converted(model, torch.tensor([-2**40 - 3, 2**33 + 5, 300, -300, 128, 256]), INTEGERS + [torch.bool])
    for shape in ((), (0,), (2, 0, 3), (1, 2, 1, 2, 1, 1, 1, 2)):
        converted(model, randn(*shape), [torch.float64, torch.int32])
    x = randn(1, 2, 2, 2)
    for memory_format in ("torch.contiguous_format", "torch.preserve_format", "torch.channels_last"):
        model.op("Tensor.to", x, f=lambda x: x.double(), copy=True, dtype=torch.float64, memory_format=memory_format, non_blocking=True)
    model.op("Tensor.to", x, f=lambda x: x, copy=True)


@direct
def tensor_type_as(model: Model) -> None:
    x = torch.tensor([0.0, 1.0, 2.5])
    for dtype in ALL:
        model.op("Tensor.type_as", x, torch.zeros(1, dtype=dtype), keys=["input", "other"])
        model.op("Tensor.type_as", torch.ones(2, dtype=dtype), x, keys=["input", "other"])
    model.op("Tensor.type_as", torch.tensor(2.5), torch.tensor(1), keys=["input", "other"])
    model.op("Tensor.type_as", randn(0, 2), torch.zeros(0, dtype=torch.int8), keys=["input", "other"])


@direct
def torch_real(model: Model) -> None:
    for dtype in ALL:
        model.op("torch.real", values_of(dtype, 2, 3))
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        model.op("torch.real", randn(*shape, dtype=torch.complex64))


@direct
def torch_imag(model: Model) -> None:
    for dtype in COMPLEX:
        model.op("torch.imag", values_of(dtype, 2, 3))
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        model.op("torch.imag", randn(*shape, dtype=torch.complex64))


@direct
def torch_complex(model: Model) -> None:
    for dtype in (torch.float32, torch.float64, torch.float16):
        model.op("torch.complex", randn(2, 3, dtype=dtype), randn(3, dtype=dtype), keys=["real", "imag"])
    model.op("torch.complex", special(), special().flip(0), keys=["real", "imag"])
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 1, 2)):
        model.op("torch.complex", randn(*shape), randn(*shape), keys=["real", "imag"])


@direct
def torch_view_as_complex(model: Model) -> None:
    for dtype in (torch.float32, torch.float64, torch.float16):
        model.op("torch.view_as_complex", randn(3, 2, dtype=dtype))
    for shape in ((2,), (0, 2), (2, 0, 2), (1, 2, 1, 2, 1, 1, 1, 2)):
        model.op("torch.view_as_complex", randn(*shape))


@direct
def torch_view_as_real(model: Model) -> None:
    for dtype in COMPLEX:
        model.op("torch.view_as_real", randn(3, dtype=dtype))
    for shape in ((), (0,), (2, 0), (1, 2, 1, 2, 1, 1, 2)):
        model.op("torch.view_as_real", randn(*shape, dtype=torch.complex64))


@exported
def conversions_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, i):
            return (x.to(torch.float64), x.to(torch.int64), x.type_as(i), i.type_as(x), x.to(i.dtype), x.double() + 1, (x > 0).to(torch.uint8),
                    x.int(), i.to(torch.float32, copy=True))
    return Export(Net(), randn(2, 3) * 5, random_integers(3), others=[(randn(4, 3), random_integers(3)), (randn(1, 3), random_integers(3))])


@exported
def complex_numbers_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            z = torch.complex(x, y)
            w = torch.view_as_complex(torch.stack((y, x), dim=-1))
            return (z, torch.real(z), torch.imag(z * w), torch.view_as_real(z), z + w, z.abs(), (z * w).real, z.imag, torch.real(x), z * 2.5)
    return Export(Net(), randn(2, 3), randn(2, 3), others=[(randn(4, 1), randn(4, 1)), (randn(1, 5), randn(1, 5))])


@exported
def rotary_positions_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, angles):
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
            turns = torch.complex(torch.cos(angles), torch.sin(angles))
            return torch.view_as_real(pairs * turns).flatten(-2)
    return Export(Net(), randn(1, 3, 4), randn(3, 2), others=[(randn(2, 5, 4), randn(5, 2)), (randn(1, 1, 4), randn(1, 2))])
