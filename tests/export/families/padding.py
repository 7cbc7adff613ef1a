"""Padding in all modes, and what moves elements without computing: shuffles, dropout that drops nothing."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct
from modules import Each, Zipped, export_each
from values import ALL, COMPLEX, FLOATS, INF, INTEGERS, NAN, randn, random_integers, special, values_of

LENS = {1: (5,), 2: (4, 5), 3: (2, 3, 3)}
# All kinds take these: one number for all sides, different sides, sides that are cut off.
PADS = {1: [2, (1, 0), (0, 3), (-1, 2)], 2: [2, (1, 0, 2, 3), (-1, 2, 0, -2)], 3: [1, (1, 0, 2, 1, 0, 1), (-1, 2, 0, -1, 1, 0)]}


def padding_modules(name: str, axes: int, *more) -> Export:
    parts = [getattr(nn, f"{name}{axes}d")(pad, *more) for pad in PADS[axes]]
    samples = [randn(1, 1 + grown % 2, *(len + grown for len in LENS[axes])) for grown in (0, 1)]
    samples.append(randn(2, 1, *LENS[axes]))
    return Export(Each(*parts), samples[0], others=[(sample,) for sample in samples[1:]])


def register(name: str, axes: int, *more) -> None:
    export_each(f"nn_{name}{axes}d", lambda: padding_modules(name, axes, *more))


for axes in (1, 2, 3):
    register("ConstantPad", axes, -1.5)
    for name in ("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):
        register(name, axes)


def f_pad() -> Export:
    settings = [((1, 2), {}), ((1, 0, -1, 2), {"value": 0.25}), ((0, 1, 1, 0, 2, 1), {"mode": "constant", "value": -3}),
                ((1, 2, 0, 1), {"mode": "reflect"}), ((2, 1, 0, 3), {"mode": "replicate"}), ((1, 2, 3, 0), {"mode": "circular"}),
                ((1, 1, 2, 0), {"mode": "reflect"}), ((0, 0, 1, 1), {"value": -INF})]
    return Export(Each(*[lambda x, each=each: F.pad(x, each[0], **each[1]) for each in settings]), randn(1, 2, 4, 5),
                  others=[(randn(2, 2, 5, 4),), (randn(1, 2, 4, 4),), (randn(1, 2, 6, 6),)])


export_each("F_pad", f_pad)


def pads_that_depend_on_sizes() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            height, width = x.shape[2], x.shape[3]
            even = F.pad(x, (0, width % 2, 0, height % 2))
            return even, F.pad(x, (0, 8 - width, 0, 8 - height)), F.pad(x, (width // 2, 0, 0, 1), mode="reflect")
    return Export(Net(), randn(1, 2, 5, 6), others=[(randn(2, 2, 6, 5),), (randn(1, 2, 7, 7),), (randn(1, 2, 8, 4),)])


export_each("pads_that_depend_on_sizes", pads_that_depend_on_sizes)


@direct
def F_pad_direct(model: Model) -> None:
    for dtype in ALL:
        x = values_of(dtype, 1, 2, 3)
        model.op("F.pad", x, pad=(1, 2), value=1)
        model.op("F.pad", x, pad=(2, 1), mode="circular")
        if dtype != torch.bool:
            model.op("F.pad", x, pad=(2, 0), mode="reflect")
            model.op("F.pad", x, pad=(0, 2), mode="replicate")


@direct
def F_pad_of_odd_inputs(model: Model) -> None:
    model.op("F.pad", torch.tensor(1.5), pad=())
    model.op("F.pad", randn(3), pad=(1, 1))
    model.op("F.pad", randn(3), pad=(-1, 0, 0, 0)[:2], value=None)
    model.op("F.pad", randn(0, 3), pad=(1, 0, 2, 0), value=7)
    model.op("F.pad", randn(2, 3), pad=(-3, 0))
    model.op("F.pad", randn(2, 3), pad=(-1, 4), value=NAN)
    model.op("F.pad", randn(0, 2, 3), pad=(1, 1), mode="reflect")
    model.op("F.pad", randn(2, 3), pad=(2, 2), mode="reflect")
    model.op("F.pad", randn(2, 3), pad=(5, 7), mode="replicate")
    model.op("F.pad", randn(1, 2, 3), pad=(1, 0, 1, 1), mode="reflect")
    model.op("F.pad", randn(2, 3, 4), pad=(3, 3, 0, 2), mode="replicate")
    model.op("F.pad", randn(2, 2, 2, 3), pad=(1, 0, 1, 1, 0, 1), mode="reflect")
    model.op("F.pad", randn(1, 2, 1, 2, 1, 2, 1, 2), pad=(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1))
    model.op("F.pad", random_integers(2, 2), pad=(1, 0), value=2.7)
    model.op("F.pad", special(), pad=(1, 1))
    for axes in (1, 2, 3):
        pad = (1, 1) * axes
        for name in ("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):
            model.op(f"nn.{name}{axes}d", randn(1, *(2, 3, 2)[:axes]), padding=pad)
        model.op(f"nn.ConstantPad{axes}d", random_integers(1, *(2, 3, 2)[:axes]), padding=pad, value=3)


export_each("nn_PixelShuffle", lambda: Export(Each(nn.PixelShuffle(2), nn.PixelShuffle(1)), randn(1, 8, 2, 3), others=[
    (randn(2, 8, 3, 2),), (randn(1, 4, 1, 1),), (randn(3, 4, 2, 2),)]))
export_each("nn_PixelUnshuffle", lambda: Export(Each(nn.PixelUnshuffle(2), nn.PixelUnshuffle(1)), randn(1, 2, 4, 6), others=[
    (randn(2, 3, 2, 4),), (randn(1, 1, 6, 2),), (randn(3, 2, 2, 2),)]))
export_each("nn_ChannelShuffle", lambda: Export(Each(nn.ChannelShuffle(2), nn.ChannelShuffle(3)), randn(1, 6, 2, 3), others=[
    (randn(2, 6, 3, 2),), (randn(1, 6, 1, 1),), (randn(3, 6, 2, 2),)]))
export_each("F_pixel_shuffle", lambda: Export(Zipped(
    lambda x: F.pixel_shuffle(x, 3), lambda x: F.pixel_shuffle(x, 2)), randn(9, 2, 1), randn(2, 1, 8, 1, 2)))
export_each("F_pixel_unshuffle", lambda: Export(Zipped(
    lambda x: F.pixel_unshuffle(x, 3), lambda x: F.pixel_unshuffle(x, 2)), randn(1, 3, 6), randn(2, 1, 2, 2, 4)))


@direct
def shuffles_of_all_types(model: Model) -> None:
    for dtype in ALL:
        x = values_of(dtype, 1, 4, 2, 2)
        model.op("F.pixel_shuffle", x, upscale_factor=2)
        model.op("F.pixel_unshuffle", x, downscale_factor=2)
        model.op("F.channel_shuffle", x, groups=2)
    model.op("F.pixel_shuffle", randn(0, 4, 2, 2), upscale_factor=2)
    model.op("F.pixel_unshuffle", randn(2, 0, 2, 2), downscale_factor=2)
    model.op("F.channel_shuffle", randn(2, 6, 3), groups=3)
    model.op("F.channel_shuffle", randn(2, 4, 1, 2, 1), groups=4)


MODULES = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]
FUNCTIONS = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]
RANKS = {"1d": (1, 2, 3), "2d": (1, 2, 2, 2), "3d": (1, 2, 2, 1, 2)}


def dropped(name: str, *more: int) -> Tensor:
    return randn(*more, *RANKS.get(name[-2:], (2, 3)))


def drop(name: str):
    return lambda x: getattr(F, name)(x, 0.3, training=False) * 2


def multiplied(module: nn.Module):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, x):
            return self.module(x) * 2
    return Net()


export_each("dropout_modules", lambda: Export(Zipped(
    *[multiplied(getattr(nn, name)(0.3)) for name in MODULES]), *map(dropped, MODULES), optlevel=2))
export_each("dropout_functions", lambda: Export(Zipped(*map(drop, FUNCTIONS)), *map(dropped, FUNCTIONS)))
# Only without PNNX's optimisation such operators stay.
export_each("dropout_that_stays", lambda: Export(Zipped(
    *[getattr(nn, name)(0.3) for name in MODULES], *map(drop, FUNCTIONS)), *map(dropped, MODULES + FUNCTIONS), optlevel=0))


@direct
def dropout_of_all_types(model: Model) -> None:
    for name in MODULES:
        model.op(f"nn.{name}", dropped(name))
        model.op(f"nn.{name}", dropped(name), p=1, inplace=False)
    for name in FUNCTIONS:
        model.op(f"F.{name}", dropped(name), training=False)
        model.op(f"F.{name}", dropped(name), p=0.25, training=False, inplace=False)
    for dtype in ALL:
        model.op("F.dropout", values_of(dtype, 3), p=0.5, training=False)
    for shape in [(), (0,), (1, 2, 1, 2, 1, 2, 1, 1)]:
        model.op("nn.Dropout", randn(*shape))
        model.op("nn.Identity", randn(*shape))


def flattened() -> Export:
    return Export(Each(nn.Flatten(), nn.Flatten(0), nn.Flatten(2, 3), nn.Flatten(-3, -2), nn.Identity()),
                  randn(2, 3, 2, 2), others=[(randn(1, 3, 4, 1),), (randn(3, 3, 1, 2),), (randn(2, 3, 3, 3),)])


def unflattened() -> Export:
    return Export(Each(nn.Unflatten(1, (2, 3)), nn.Unflatten(-2, (3, 1, -1)), nn.Unflatten(2, (-1,))),
                  randn(2, 6, 4), others=[(randn(1, 6, 4),), (randn(3, 6, 2),), (randn(2, 6, 1),)])


export_each("nn_Flatten", flattened)
export_each("nn_Unflatten", unflattened)


@direct
def nn_Flatten_direct(model: Model) -> None:
    for dtype in ALL:
        model.op("nn.Flatten", values_of(dtype, 2, 1, 3))
    model.op("nn.Flatten", torch.tensor(2.0), start_dim=0)
    model.op("nn.Flatten", randn(3), start_dim=0, end_dim=0)
    model.op("nn.Flatten", randn(0, 3, 2), start_dim=1)
    model.op("nn.Flatten", randn(1, 2, 1, 2, 1, 2, 1, 2), start_dim=2, end_dim=-3)
    model.op("nn.Unflatten", randn(4, 0), dim=1, unflattened_size=(0, 3))
    model.op("nn.Unflatten", random_integers(6), dim=0, unflattened_size=(2, -1))
    model.op("nn.Unflatten", randn(1, 2, 1, 2, 1, 6), dim=-1, unflattened_size=(1, 2, 3))
