"""Pooling: largest elements, means and norms of windows and of parts."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct
from modules import Each, export_each
from values import FLOATS, INTEGERS, NAN, INF, randn, random_integers

AXES = (1, 2, 3)
# Sample, and others of other sizes.
SHAPES = {1: [(1, 2, 9), (3, 2, 7), (2, 2, 12), (1, 2, 5)],
          2: [(1, 2, 7, 6), (2, 2, 5, 4), (1, 2, 5, 8), (3, 1, 4, 4)],
          3: [(1, 1, 4, 5, 3), (1, 2, 3, 4, 5), (2, 1, 5, 3, 3), (1, 1, 3, 3, 4)]}

MAX = {
    1: [dict(kernel_size=3), dict(kernel_size=4, stride=2, padding=2, dilation=1, ceil_mode=True),
        dict(kernel_size=2, stride=3, dilation=3, padding=1), dict(kernel_size=3, stride=2, ceil_mode=True)],
    2: [dict(kernel_size=3), dict(kernel_size=(2, 4), stride=(2, 1), padding=(1, 2), dilation=1, ceil_mode=True),
        dict(kernel_size=(1, 3), stride=2, padding=(0, 1), dilation=2), dict(kernel_size=2, stride=3, ceil_mode=True)],
    3: [dict(kernel_size=3), dict(kernel_size=(1, 2, 3), stride=(1, 2, 2), padding=(0, 1, 1), ceil_mode=True),
        dict(kernel_size=2, stride=2, dilation=(1, 2, 1), padding=1), dict(kernel_size=2, stride=3, ceil_mode=True)],
}
AVG = {
    1: [dict(kernel_size=3), dict(kernel_size=4, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        dict(kernel_size=3, stride=3, padding=1, ceil_mode=True), dict(kernel_size=(5,), stride=(1,), padding=(2,))],
    2: [dict(kernel_size=3), dict(kernel_size=(2, 4), stride=(2, 1), padding=(1, 2), count_include_pad=False),
        dict(kernel_size=(3, 2), stride=2, padding=1, ceil_mode=True, divisor_override=5),
        dict(kernel_size=3, stride=3, padding=(1, 0), ceil_mode=True, count_include_pad=False),
        dict(kernel_size=2, stride=3, padding=1, ceil_mode=True)],
    3: [dict(kernel_size=3), dict(kernel_size=(1, 2, 3), stride=(1, 2, 2), padding=(0, 1, 1), count_include_pad=False),
        dict(kernel_size=2, stride=2, padding=1, ceil_mode=True, divisor_override=-3),
        dict(kernel_size=3, stride=3, padding=1, ceil_mode=True)],
}
LP = {
    1: [dict(norm_type=2, kernel_size=3), dict(norm_type=1, kernel_size=2, stride=3, ceil_mode=True),
        dict(norm_type=1.5, kernel_size=4, stride=1), dict(norm_type=3, kernel_size=3, stride=2)],
    2: [dict(norm_type=2, kernel_size=3), dict(norm_type=1, kernel_size=(2, 3), stride=(2, 1), ceil_mode=True),
        dict(norm_type=1.2, kernel_size=(1, 2), stride=2), dict(norm_type=0.5, kernel_size=2, stride=(1, 3))],
    3: [dict(norm_type=2, kernel_size=3), dict(norm_type=1, kernel_size=(2, 3, 1), stride=(2, 1, 2)),
        dict(norm_type=4, kernel_size=2, stride=3, ceil_mode=True)],
}
SIZES = {1: [1, 3, (4,), 11], 2: [1, (3, 4), (None, 2), (5, None), (8, 3)], 3: [2, (3, 1, 4), (None, 2, 2), (1, 7, None)]}


def called(name: str, settings: dict):
    function = getattr(F, name)
    return lambda x: function(x, **settings)


def positive(x: Tensor) -> Tensor:
    """Norms of orders that are no even numbers need it."""
    return x.abs() + 0.1


def sliding(kind: str, function: str, axes: int, variants: list[dict], with_indices: bool) -> None:
    """The cases of a module and its function: exported ones, of fixed and of dynamic sizes."""
    shapes = SHAPES[axes]
    make = positive if kind == "LPPool" else lambda x: x
    if with_indices:
        variants = variants + [variants[1] | {"return_indices": True}, variants[2] | {"return_indices": True}]

    def of_modules() -> Export:
        parts = [getattr(nn, f"{kind}{axes}d")(**settings) for settings in variants]
        samples = [make(randn(*shape)) for shape in shapes]
        return Export(Each(*parts), samples[0], others=[(sample,) for sample in samples[1:]])

    def of_functions() -> Export:
        parts = [called(f"{function}{axes}d", settings) for settings in variants]
        return Export(Each(*parts), make(randn(*shapes[1])))

    export_each(f"nn_{kind}{axes}d", of_modules)
    export_each(f"F_{function}{axes}d", of_functions)


def adaptive(kind: str, function: str, axes: int, with_indices: bool) -> None:
    settings = [{"output_size": size} for size in SIZES[axes]]
    if with_indices:
        settings += [{"output_size": size, "return_indices": True} for size in SIZES[axes][:2]]

    def of_modules() -> Export:
        parts = [getattr(nn, f"{kind}{axes}d")(**each) for each in settings]
        samples = [randn(*shape) for shape in SHAPES[axes]]
        return Export(Each(*parts), samples[0], others=[(sample,) for sample in samples[1:]])

    def of_functions() -> Export:
        return Export(Each(*[called(f"{function}{axes}d", each) for each in settings]), randn(*SHAPES[axes][1]))

    export_each(f"nn_{kind}{axes}d", of_modules)
    export_each(f"F_{function}{axes}d", of_functions)


for axes in AXES:
    sliding("MaxPool", "max_pool", axes, MAX[axes], with_indices=True)
    sliding("AvgPool", "avg_pool", axes, AVG[axes], with_indices=False)
    sliding("LPPool", "lp_pool", axes, LP[axes], with_indices=False)
    adaptive("AdaptiveAvgPool", "adaptive_avg_pool", axes, with_indices=False)
    adaptive("AdaptiveMaxPool", "adaptive_max_pool", axes, with_indices=True)


def unbatched(axes: int, *more: int) -> tuple[int, ...]:
    return (*more, 2, *(4, 5, 3)[:axes])


@direct
def F_max_pool_direct(model: Model) -> None:
    for axes in AXES:
        name = f"F.max_pool{axes}d"
        x = randn(*unbatched(axes))
        model.op(name, x, kernel_size=2, stride=1)
        model.op(name, x.double(), kernel_size=2, stride=1, return_indices=True)
        model.op(name, randn(*unbatched(axes, 0)), kernel_size=2)
        for dtype in INTEGERS if axes == 2 else INTEGERS[axes::2]:
            whole = random_integers(*unbatched(axes, 1), high=100, dtype=dtype)
            model.op(name, whole, kernel_size=2, stride=1, padding=1, return_indices=True)
    x = randn(1, 1, 4, 4)
    x[0, 0, 1, 1], x[0, 0, 3, 3], x[0, 0, 0, 0] = NAN, INF, -INF
    model.op("nn.MaxPool2d", x, kernel_size=2, stride=1, padding=1, return_indices=True)
    model.op("nn.MaxPool2d", torch.full((1, 2, 2), -INF), kernel_size=2, return_indices=True)
    # The first of several that are equal; zeros of both signs are equal.
    model.op("F.max_pool2d", torch.zeros(1, 4, 4), kernel_size=3, stride=1, padding=1, return_indices=True)


@direct
def F_avg_pool_direct(model: Model) -> None:
    for axes in AXES:
        name = f"F.avg_pool{axes}d"
        x = randn(*unbatched(axes))
        model.op(name, x, kernel_size=2, stride=1)
        model.op(name, x.double(), kernel_size=2, padding=1, ceil_mode=True)
        model.op(name, randn(*unbatched(axes, 0)), kernel_size=2)
        model.op(f"nn.AvgPool{axes}d", random_integers(*unbatched(axes, 1), low=-9, high=20), kernel_size=2, stride=1)
    x = randn(1, 4, 4)
    x[0, 1, 1], x[0, 3, 3] = NAN, INF
    model.op("F.avg_pool2d", x, kernel_size=2)
    model.op("F.avg_pool2d", torch.full((1, 2, 2), 3e38), kernel_size=2, divisor_override=1)


@direct
def F_lp_pool_direct(model: Model) -> None:
    for axes in AXES:
        name = f"F.lp_pool{axes}d"
        x = randn(*unbatched(axes))
        for norm_type in (2, 2.0, INF):
            model.op(name, x, norm_type=norm_type, kernel_size=2, stride=1)
        model.op(name, x, norm_type=3, kernel_size=2)
        model.op(name, x.double().abs(), norm_type=1, kernel_size=2, ceil_mode=True)
        model.op(f"nn.LPPool{axes}d", randn(*unbatched(axes, 0)), norm_type=2, kernel_size=2)


@direct
def F_adaptive_pool_direct(model: Model) -> None:
    for axes in AXES:
        x = randn(*unbatched(axes))
        for name in (f"F.adaptive_avg_pool{axes}d", f"nn.AdaptiveMaxPool{axes}d"):
            model.op(name, x, output_size=2)
            model.op(name, x.double(), output_size=(7, 1, 3)[:axes])
            model.op(name, randn(*unbatched(axes, 0)), output_size=3)
        model.op(f"F.adaptive_max_pool{axes}d", x, output_size=3, return_indices=True)
    x = randn(1, 4, 4)
    x[0, 1, 1], x[0, 3, 3] = NAN, -INF
    model.op("F.adaptive_avg_pool2d", x, output_size=2)
    model.op("F.adaptive_max_pool2d", x, output_size=3, return_indices=True)


@direct(tolerance=1e-2)
def pooling_of_halves(model: Model) -> None:
    for dtype in FLOATS[2:]:
        for axes in AXES:
            x = randn(*unbatched(axes, 1), dtype=dtype)
            model.op(f"F.max_pool{axes}d", x, kernel_size=2)
            model.op(f"F.adaptive_avg_pool{axes}d", x, output_size=2)
            model.op(f"F.adaptive_max_pool{axes}d", x, output_size=2)
            if axes < 3:
                model.op(f"F.avg_pool{axes}d", x, kernel_size=2)
                model.op(f"F.lp_pool{axes}d", x, norm_type=2, kernel_size=2)


class Pyramid(nn.Module):
    """Sizes that depend on the input, and the indices of one pooling as values of the graph."""

    def forward(self, x):
        height, width = x.shape[2], x.shape[3]
        half = F.adaptive_avg_pool2d(x, (height // 2, width // 2))
        values, places = F.max_pool2d(x, 2, return_indices=True)
        return half, values, places.float().mean((2, 3)), F.adaptive_max_pool2d(x, 1)


export_each("pooling_of_a_network", lambda: Export(
    Pyramid(), randn(1, 2, 8, 6), others=[(randn(2, 2, 6, 10),), (randn(1, 2, 4, 4),), (randn(3, 2, 9, 7),)]))


def fractional(kernel, axes: int, **settings):
    pool = F.fractional_max_pool2d if axes == 2 else F.fractional_max_pool3d
    return lambda x, samples: pool(x, kernel, return_indices=True, _random_samples=samples, **settings)


export_each("fractional_max_pool2d", lambda: Export(
    Each(fractional(2, 2, output_size=3), fractional((2, 3), 2, output_ratio=(0.5, 0.4)), lambda x, samples: F.fractional_max_pool2d(x, 2, output_size=(4, 1), _random_samples=samples)),
    randn(1, 2, 7, 8), torch.rand(1, 2, 2)))
export_each("fractional_max_pool3d", lambda: Export(
    Each(fractional(2, 3, output_size=2), fractional((1, 2, 3), 3, output_size=(3, 2, 1))), randn(1, 2, 4, 4, 5), torch.rand(1, 2, 3)))


@direct(tolerance=1e-2)
def aten_fractional_max_pool(model: Model) -> None:
    for dtype in FLOATS:
        for axes, shape in ((2, (2, 1, 6, 5)), (2, (3, 5, 4)), (3, (1, 2, 4, 4, 5))):
            name = f"fractional_max_pool{axes}d"
            planes = shape[:2] if len(shape) == axes + 2 else (1, shape[0])
            model.op(f"aten::{name}", randn(*shape, dtype=dtype), torch.rand(*planes, axes).to(dtype), keys=["input", "random_samples"],
                     f=lambda x, samples: getattr(torch.ops.aten, name)(x, [2] * axes, [2] * axes, samples), kernel_size=2, output_size=2)
    odd = torch.tensor([[1, NAN, 3, 4], [NAN, 2, 5, 6], [-INF, -INF, 1, INF], [-INF, -INF, 2, NAN]])[None]
    model.op("aten::fractional_max_pool2d", odd, torch.full((1, 1, 2), 0.5), keys=["input", "random_samples"],
             f=lambda x, samples: torch.ops.aten.fractional_max_pool2d(x, [2, 2], [3, 3], samples), kernel_size=2, output_size=3)
