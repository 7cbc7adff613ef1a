"""Tensors that follow from numbers alone: ranges, windows, identity matrices, indices of triangles, TorchScript's constants."""

import torch
from torch import Tensor, nn

from case import Export, Model, direct, exported
from values import COMPLEX, FLOATS, INTEGERS, INF, randn, random_integers, values_of

WINDOWS = ("hann", "hamming", "blackman", "bartlett", "kaiser")
DTYPES = [*FLOATS, *INTEGERS, *COMPLEX]


def joined(model: Model, results: list[list[Tensor]]) -> None:
    """Makes outputs of vectors, those of one type concatenated."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for result, in results:
        groups.setdefault(result.dtype, []).append(result)
    for group in groups.values():
        model.op("torch.cat", group, dim=0)


def counted(model: Model, name: str, f, **params) -> list[Tensor]:
    """A call of a function whose arguments all have names."""
    return model.op(f"aten::{name}", f=lambda: f(**params), shown=False, **params)


@direct
def aten_linspace(model: Model) -> None:
    results = [counted(model, "linspace", torch.linspace, start=start, end=end, steps=steps)
               for start, end, steps in ((0, 1, 5), (-1.5, 7, 4), (3, -3, 7), (5, 1, 1), (2, 3, 0), (0.1, 0.1, 3), (0, INF, 3), (0, 1j, 3))]
    for dtype in DTYPES:
        results.append(counted(model, "linspace", torch.linspace, start=2.75, end=11, steps=6, dtype=dtype))
    for start, end in ((10, -3), (-2.75, 2.75)):
        results.append(counted(model, "linspace", torch.linspace, start=start, end=end, steps=5, dtype=torch.int64))
    model.op("aten::linspace", torch.tensor(1.5), torch.tensor(4), torch.tensor(3), f=lambda start, end, steps: torch.linspace(start, end, int(steps)),
             keys=["start", "end", "steps"])
    joined(model, results)


@direct
def aten_logspace(model: Model) -> None:
    results = [counted(model, "logspace", torch.logspace, start=start, end=end, steps=steps, base=base)
               for start, end, steps, base in ((0, 1, 5, 10.0), (-1.5, 2, 4, 2.0), (3, -3, 7, 0.5), (2.5, 1, 1, 10.0), (2, 3, 0, 10.0), (0, 3, 4, -2.0), (0, 1j, 3, 2.0))]
    for dtype in DTYPES:
        results.append(counted(model, "logspace", torch.logspace, start=0.75, end=6.25, steps=4, base=2.0, dtype=dtype))
    results.append(counted(model, "logspace", torch.logspace, start=3.75, end=9, steps=1, dtype=torch.int64))
    model.op("aten::logspace", torch.tensor(1.5), torch.tensor(3), f=lambda end, steps: torch.logspace(0, end, int(steps)), keys=["end", "steps"], start=0)
    joined(model, results)


@direct
def aten_range(model: Model) -> None:
    joined(model, [counted(model, "range", torch.range, **arguments) for arguments in
                   ({"start": 0, "end": 4}, {"start": 1, "end": 2.2, "step": 0.5}, {"start": 3, "end": 0, "step": -1.5}, {"start": 1, "end": 1},
                    {"start": 0.7, "end": 5.9, "step": 2.5, "dtype": torch.int64}, {"start": -1, "end": 2, "dtype": torch.float64})])
    model.op("torch.stack", [randn(2)], dim=0)


@direct
def aten_eye(model: Model) -> None:
    for size in ({"n": 3}, {"n": 2, "m": 4}, {"n": 3, "m": 1}, {"n": 0}, {"n": 2, "m": 0}, {"n": 2, "m": 2, "dtype": torch.bool},
                 {"n": 2, "dtype": torch.complex64}, {"n": 2, "dtype": torch.float16}, {"n": 2, "dtype": torch.int64}):
        model.op("aten::eye", f=lambda: torch.eye(**size), **size)
    model.op("aten::eye", torch.tensor(2), torch.tensor(3), f=lambda n, m: torch.eye(int(n), int(m)), keys=["n", "m"])
    model.op("aten::eye", torch.tensor(2), f=lambda n: torch.eye(int(n)), keys=["n"], m=None, dtype=None)


@direct
def aten_indices_of_triangles(model: Model) -> None:
    for name, f in (("tril_indices", torch.tril_indices), ("triu_indices", torch.triu_indices)):
        results = [counted(model, name, f, row=row, col=col, offset=offset)
                   for row, col, offset in ((3, 3, 0), (2, 4, 1), (4, 2, -1), (3, 2, -7), (2, 3, 7), (0, 3, 0), (3, 0, 0))]
        model.op("torch.cat", [result for result, in results], dim=1)
        model.op(f"aten::{name}", f=lambda: f(2, 3, dtype=torch.int32), row=2, col=3, dtype=torch.int32)
        model.op(f"aten::{name}", torch.tensor(3), torch.tensor(2), torch.tensor(1), f=lambda row, col, offset: f(int(row), int(col), int(offset)),
                 keys=["row", "col", "offset"])


@direct
def aten_windows(model: Model) -> None:
    results = []
    for name in WINDOWS:
        op, f = f"{name}_window", getattr(torch, f"{name}_window")
        for length in (0, 1, 2, 7):
            results += [counted(model, op, f, window_length=length), counted(model, op, f, window_length=length, periodic=False)]
        results.append(counted(model, op, f, window_length=6, periodic=True, dtype=torch.float64))
        results.append(model.op(f"aten::{op}", torch.tensor(5), f=lambda n: f(int(n)), keys=["window_length"], shown=False))
    results += [counted(model, "hamming_window", torch.hamming_window, window_length=5, periodic=True, alpha=0.25),
                counted(model, "hamming_window", torch.hamming_window, window_length=5, periodic=False, alpha=0.25, beta=0.75)]
    results += [counted(model, "kaiser_window", torch.kaiser_window, window_length=5, periodic=periodic, beta=beta)
                for periodic, beta in ((True, 4.5), (False, 0.0), (True, -3.0))]
    joined(model, results)


@direct(tolerance=1e-2)
def aten_windows_of_halves(model: Model) -> None:
    joined(model, [counted(model, f"{name}_window", getattr(torch, f"{name}_window"), window_length=6, dtype=dtype)
                   for name in WINDOWS for dtype in (torch.float16, torch.bfloat16)])


@direct
def aten_constants(model: Model) -> None:
    """The spellings of functions that PNNX renames if it can."""
    x = randn(2, 3)
    for name in ("zeros", "ones"):
        model.op(f"aten::{name}", f=lambda: getattr(torch, name)(2, 1), size=[2, 1])
        model.op(f"aten::{name}_like", x, f=getattr(torch, f"{name}_like"))
        model.op(f"aten::new_{name}", x, f=lambda x: getattr(x, f"new_{name}")((3,)), keys=["input"], size=[3])
    model.op("aten::full", f=lambda: torch.full((2,), 1.5), size=[2], fill_value=1.5)
    model.op("aten::full_like", x, f=lambda x: torch.full_like(x, 3), keys=["input"], fill_value=3)
    for arguments in ({"end": 3}, {"start": 1, "end": 2.5, "step": 0.5}):
        model.op("aten::arange", f=lambda: torch.arange(**arguments), **arguments)
    model.op("aten::complex", randn(3), randn(3), f=torch.complex)
    for number in (2.5, True, 7):
        model.op("aten::scalar_tensor", f=lambda: torch.scalar_tensor(number), s=number)
    model.op("aten::scalar_tensor", torch.tensor(3), f=lambda s: torch.scalar_tensor(s.item()), keys=["s"])


@direct(values=False)
def aten_empty(model: Model) -> None:
    model.op("aten::empty", f=lambda: torch.empty(2, 3), size=[2, 3])
    model.op("aten::empty_like", random_integers(2), f=torch.empty_like)
    model.op("aten::new_empty", values_of(torch.float64, 1), f=lambda x: x.new_empty(2), keys=["input"], size=[2])
    model.op("aten::empty_strided", f=lambda: torch.empty_strided((2, 3), (1, 2)), size=[2, 3], stride=[1, 2])


class OfASize(nn.Module):
    """Constants whose sizes are those of the input."""

    def forward(self, x):
        height, width = x.shape
        rows, columns = torch.linspace(-1, 1, height), torch.linspace(0, width - 1, width)
        return (x * rows[:, None] + columns, x @ torch.eye(width), torch.eye(2, height, dtype=torch.long), torch.logspace(0, 2, width, base=2.0),
                torch.tril_indices(height, width, -1), torch.triu_indices(width, width, offset=height - 2), x * torch.hann_window(width), torch.scalar_tensor(height) + x[0])


class WindowsOfASize(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        return (torch.hann_window(n, periodic=False), torch.hamming_window(n), torch.hamming_window(n, False), torch.hamming_window(n, False, 0.5),
                torch.hamming_window(n, True, 0.5, 0.25), torch.blackman_window(n), torch.blackman_window(n, False, dtype=torch.float64), torch.bartlett_window(n),
                torch.bartlett_window(n, False), torch.kaiser_window(n), torch.kaiser_window(n, False), torch.kaiser_window(n, True, beta=4.0))


@exported
def constants_of_any_size() -> Export:
    return Export(OfASize(), randn(3, 4), others=[(randn(5, 2),), (randn(1, 3),)])


@exported
def windows_of_any_size() -> Export:
    return Export(WindowsOfASize(), randn(4), others=[(randn(7),), (randn(1),)])


@exported
def level0_constants() -> Export:
    return Export(OfASize(), randn(3, 4), optlevel=0)


@exported
def level1_windows() -> Export:
    return Export(WindowsOfASize(), randn(4), others=[(randn(6),)], optlevel=1)


@exported
def linspace_between_tensors() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return torch.linspace(x[0, 0], x[0, 1], 5), torch.linspace(x.min(), 3, x.shape[1]), torch.logspace(0, x[1, 1], x.shape[1])
    return Export(Net(), randn(2, 3), others=[(randn(4, 5),)])


@exported
def grids_by_linspace() -> Export:
    """Coordinates of pixels, as many networks make them."""
    class Net(nn.Module):
        def forward(self, x):
            ys, xs = torch.meshgrid(torch.linspace(-1, 1, x.shape[2]), torch.linspace(-1, 1, x.shape[3]), indexing="ij")
            return x + torch.stack((xs, ys))
    return Export(Net(), randn(1, 2, 3, 4), others=[(randn(2, 2, 5, 2),)])
