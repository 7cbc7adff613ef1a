"""Convolutions, their transposes, and products with matrices of weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct
from modules import Each, Zipped, export_each, scrambled
from values import FLOATS, INTEGERS, INF, NAN, randn, random_integers

AXES = (1, 2, 3)
LENS = {1: [(9,), (12,), (7,)], 2: [(6, 5), (5, 6), (5, 7)], 3: [(3, 4, 3), (4, 3, 3), (3, 3, 4)]}

# In channels, out channels, kernel and settings.
CONV = {
    1: [(4, 3, 3, dict()), (4, 6, 2, dict(stride=2, padding=1, groups=2, bias=False)), (4, 2, 3, dict(dilation=2)),
        (4, 4, 4, dict(padding="same")), (4, 4, 3, dict(padding="valid", stride=2, groups=4)),
        (4, 8, 1, dict(groups=4)), (4, 2, 3, dict(padding=2, padding_mode="reflect")),
        (4, 2, 3, dict(padding=1, padding_mode="replicate", stride=2)),
        (4, 2, 2, dict(padding=3, padding_mode="circular"))],
    2: [(4, 3, 3, dict()), (4, 6, (2, 3), dict(stride=(2, 1), padding=(1, 0), groups=2, bias=False)),
        (4, 2, (3, 1), dict(dilation=(2, 1))), (4, 4, (2, 3), dict(padding="same", dilation=2)),
        (4, 4, 3, dict(padding="valid", stride=2, groups=4)), (4, 8, 1, dict(groups=4)),
        (4, 2, 3, dict(padding=(2, 1), padding_mode="reflect")),
        (4, 2, 3, dict(padding=1, padding_mode="replicate", stride=2)),
        (4, 2, 2, dict(padding=(0, 3), padding_mode="circular", bias=False)),
        (4, 2, 4, dict(padding="same", padding_mode="reflect"))],
    3: [(2, 3, 3, dict()), (2, 4, (2, 3, 1), dict(stride=(2, 1, 1), padding=(1, 0, 1), groups=2, bias=False)),
        (2, 2, (1, 3, 1), dict(dilation=(1, 2, 1), padding=(0, 1, 0))), (2, 2, (2, 1, 3), dict(padding="same")),
        (2, 2, 2, dict(padding="valid", stride=2, groups=2)),
        (2, 2, 2, dict(padding=(0, 2, 1), padding_mode="replicate")), (2, 1, 1, dict())],
}
TRANSPOSED = {
    1: [(4, 3, 3, dict()), (4, 6, 2, dict(stride=2, padding=1, groups=2, bias=False)), (4, 2, 3, dict(dilation=2)),
        (4, 2, 4, dict(stride=3, output_padding=2, padding=1)), (4, 4, 3, dict(groups=4, stride=2)),
        (4, 2, 1, dict(stride=3)), (4, 2, 2, dict(dilation=3, output_padding=2))],
    2: [(4, 3, 3, dict()), (4, 6, (2, 3), dict(stride=(2, 1), padding=(1, 0), groups=2, bias=False)),
        (4, 2, (3, 1), dict(dilation=(2, 1))), (4, 4, 3, dict(groups=4, stride=2, padding=1, output_padding=1)),
        (4, 2, 2, dict(stride=2)), (4, 1, (4, 2), dict(stride=(2, 1), padding=(2, 0), output_padding=(1, 0)))],
    3: [(2, 3, 2, dict()), (2, 4, (2, 3, 1), dict(stride=(2, 1, 1), padding=(1, 0, 0), groups=2, bias=False)),
        (2, 1, (1, 2, 2), dict(dilation=(1, 2, 1))), (2, 2, 2, dict(stride=2, output_padding=(1, 0, 1)))],
}


def modules(kind: str, axes: int, variants: list) -> Export:
    made = [scrambled(getattr(nn, f"{kind}{axes}d")(inputs, outputs, kernel, **settings))
            for inputs, outputs, kernel, settings in variants]
    channels = variants[0][0]
    samples = [randn(1 + index % 2, channels, *lens) for index, lens in enumerate(LENS[axes])]
    return Export(Each(*made), samples[0], others=[(sample,) for sample in samples[1:]])


def functions(name: str, axes: int, variants: list) -> Export:
    """Weights that are inputs, and a bias that is one or is absent."""
    function = getattr(F, f"{name}{axes}d")
    transposed = "transpose" in name
    inputs, parts = [randn(2, variants[0][0], *LENS[axes][0])], []

    def call(at: int, has_bias: bool, settings: dict):
        return lambda *all: function(all[0], all[at], all[at + 1] if has_bias else None, **settings)

    for channels, out, kernel, settings in variants:
        settings = {key: value for key, value in settings.items() if key != "padding_mode"}
        has_bias, groups = settings.pop("bias", True), settings.get("groups", 1)
        kernel = (kernel,) * axes if isinstance(kernel, int) else kernel
        shape = (channels, out // groups) if transposed else (out, channels // groups)
        parts.append(call(len(inputs), has_bias, settings))
        inputs += [randn(*shape, *kernel)] + ([randn(out)] if has_bias else [])
    return Export(Each(*parts), *inputs)


def register(axes: int) -> None:
    export_each(f"nn_Conv{axes}d", lambda: modules("Conv", axes, CONV[axes]))
    export_each(f"nn_ConvTranspose{axes}d", lambda: modules("ConvTranspose", axes, TRANSPOSED[axes]))
    export_each(f"F_conv{axes}d", lambda: functions("conv", axes, CONV[axes][:6]))
    export_each(f"F_conv_transpose{axes}d", lambda: functions("conv_transpose", axes, TRANSPOSED[axes]))


for axes in AXES:
    register(axes)


def integers_or(dtype: torch.dtype, *shape: int) -> Tensor:
    if dtype.is_floating_point:
        return randn(*shape, dtype=dtype)
    return random_integers(*shape, low=0 if dtype == torch.uint8 else -3, high=4, dtype=dtype)


def fill_types(model: Model, axes: int, dtypes: list[torch.dtype]) -> None:
    lens, kernel = (4, 3, 3)[:axes], (2, 1, 2)[:axes]
    for dtype in dtypes:
        x, weight, bias = integers_or(dtype, 1, 2, *lens), integers_or(dtype, 2, 2, *kernel), integers_or(dtype, 2)
        model.op(f"F.conv{axes}d", x, weight, bias)
        if dtype in (torch.float64, torch.int64):
            model.op(f"F.conv_transpose{axes}d", x, weight, bias, stride=2)
            model.op(f"F.conv{axes}d", x, weight[:, :1].clone(), bias=None, groups=2, dilation=2, padding=1)


@direct
def convolutions_of_all_types(model: Model) -> None:
    fill_types(model, 2, [torch.float64, *INTEGERS])


@direct
def convolutions_of_other_ranks_and_types(model: Model) -> None:
    fill_types(model, 1, [torch.float64, torch.int32, torch.int64])
    fill_types(model, 3, [torch.float64, torch.uint8, torch.int64])


@direct(tolerance=2e-2)
def convolutions_of_halves(model: Model) -> None:
    for dtype in FLOATS[2:]:
        for axes in AXES:
            lens, kernel = (4, 3, 3)[:axes], (2,) * axes
            x, weight, bias = randn(2, 2, *lens, dtype=dtype), randn(2, 2, *kernel, dtype=dtype), randn(2, dtype=dtype)
            model.op(f"F.conv{axes}d", x, weight, bias, padding=1)
            model.op(f"F.conv_transpose{axes}d", x, weight, bias, padding=1)
        model.op("F.linear", x, randn(2, 3, dtype=dtype), bias)


@direct
def convolutions_of_odd_inputs(model: Model) -> None:
    for axes in AXES:
        lens, kernel = (4, 3, 2)[:axes], (2, 3, 1)[:axes]
        weight, transposed = randn(2, 2, *kernel), randn(2, 2, *kernel)
        for batch in [(), (0,)]:
            model.op(f"F.conv{axes}d", randn(*batch, 2, *lens), weight, bias=None)
            model.op(f"F.conv_transpose{axes}d", randn(*batch, 2, *lens), transposed, bias=None)
        model.op(f"F.conv{axes}d", randn(2, *lens), weight, randn(2), padding="same")
        model.op(f"F.conv_transpose{axes}d", randn(2, *lens), transposed, randn(2), stride=2, output_padding=1)
    x = randn(1, 1, 4, 4)
    x[0, 0, 1, 2], x[0, 0, 3, 0] = NAN, INF
    model.op("F.conv2d", x, randn(2, 1, 2, 2), padding=1)
    model.op("F.conv_transpose2d", x, randn(1, 2, 2, 2), padding=1)
    model.op("F.conv2d", torch.full((1, 1, 2, 2), 3e38), torch.ones(1, 1, 2, 2))


def transposed_to_size() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = scrambled(nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1))
            self.two = scrambled(nn.ConvTranspose2d(2, 1, 3, stride=3))
            self.three = scrambled(nn.ConvTranspose3d(1, 2, 2, stride=2))

        def forward(self, x, y, z):
            return self.one(x, output_size=[10]), self.two(y, output_size=[10, 8]), self.three(z, [5, 4, 5])
    return Export(Net(), randn(1, 2, 5), randn(2, 2, 3, 2), randn(1, 1, 2, 2, 2))


export_each("conv_transposed_to_a_size", transposed_to_size)


def unet() -> Export:
    """Down and up again, to the size of what is joined; weights that the graph computes."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = scrambled(nn.Conv2d(2, 4, 3, stride=2, padding=1))
            self.up = scrambled(nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1))
            self.weight = nn.Parameter(randn(2, 2, 3, 3))

        def forward(self, x):
            y = self.up(F.relu(self.down(x)))[:, :, : x.shape[2], : x.shape[3]]
            weight = self.weight / self.weight.pow(2).sum((1, 2, 3), keepdim=True).sqrt()
            return F.conv2d(torch.cat([x, y], 1), torch.cat([weight, weight], 1), padding=1)
    return Export(Net(), randn(1, 2, 6, 8), others=[(randn(2, 2, 8, 6),), (randn(1, 2, 5, 7),), (randn(3, 2, 4, 9),)])


export_each("convolution_of_a_network", unet)


def linears() -> Export:
    parts = [scrambled(nn.Linear(4, 3)), scrambled(nn.Linear(4, 1, bias=False)), scrambled(nn.Linear(4, 0)).float()]
    return Export(Each(*parts[:2]), randn(2, 3, 4), others=[(randn(1, 5, 4),), (randn(4, 1, 4),), (randn(2, 2, 4),)])


export_each("nn_Linear", linears)
export_each("linear_of_every_rank", lambda: Export(
    Zipped(*[scrambled(nn.Linear(3, 2)) for _ in range(4)]), randn(3), randn(2, 3), randn(2, 1, 2, 3),
    randn(2, 1, 2, 1, 3)))


def f_linear() -> Export:
    class Net(nn.Module):
        def forward(self, x, weight, bias, row):
            return F.linear(x, weight), F.linear(x, weight, bias), F.linear(x, row), F.linear(x[0], weight.relu(), bias)
    return Export(Net(), randn(2, 4), randn(3, 4), randn(3), randn(4), others=[
        (randn(3, 4), randn(2, 4), randn(2), randn(4)), (randn(1, 4), randn(5, 4), randn(5), randn(4))])


export_each("F_linear", f_linear)


@direct
def F_linear_direct(model: Model) -> None:
    for dtype in [torch.float64, *INTEGERS]:
        model.op("F.linear", integers_or(dtype, 2, 4), integers_or(dtype, 3, 4), integers_or(dtype, 3))
        model.op("F.linear", integers_or(dtype, 1, 2, 4), integers_or(dtype, 3, 4), bias=None)
    model.op("F.linear", randn(0, 4), randn(3, 4), randn(3))
    model.op("F.linear", randn(2, 0), randn(3, 0), randn(3))
    model.op("F.linear", randn(2, 4), randn(0, 4), bias=None)
    model.op("F.linear", randn(4), randn(4))
    model.op("F.linear", torch.tensor([[NAN, 1.0], [INF, 0.0], [3e38, 3e38]]), torch.ones(2, 2), randn(2))
    model.op("nn.Linear", randn(1, 2, 1, 2, 1, 2, 1, 3), in_features=3, out_features=2)
    model.op("nn.Linear", randn(3), in_features=3, out_features=2, bias=False)


class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(randn(3, 4, 2)), nn.Parameter(randn(2))

    def forward(self, x, weight):
        y = F.conv_tbc(x, self.weight, self.bias, 1)
        return y, torch.conv_tbc(y, weight, weight.mean((0, 1)))


export_each("conv_tbc", lambda: Export(TimeFirst(), randn(5, 2, 4), randn(2, 2, 3), others=[(randn(4, 3, 4), randn(2, 2, 3)), (randn(2, 1, 4), randn(2, 2, 3))]))


@direct
def aten_conv_tbc(model: Model) -> None:
    keys = ["input", "weight", "bias"]
    for dtype in (torch.float32, torch.float64):
        tensors = randn(3, 2, 2, dtype=dtype), randn(2, 2, 3, dtype=dtype), randn(3, dtype=dtype)
        for pad in (0, 2):
            model.op("aten::conv_tbc", *tensors, f=lambda *x: torch.conv_tbc(*x, pad), keys=keys, pad=pad)
    model.op("aten::conv_tbc", randn(3, 0, 2), randn(2, 2, 3), randn(3), f=torch.conv_tbc, keys=keys)
