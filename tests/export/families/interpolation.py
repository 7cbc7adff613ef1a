"""Resampling: interpolate, upsample and their older names."""

import warnings

import torch
import torch.nn.functional as F
from torch import nn

from case import Export, Model, direct
from modules import Each, export_each
from values import FLOATS, INF, NAN, randn, random_integers

warnings.filterwarnings("ignore", message="nn.functional.upsample")
LENS = {1: [(5,), (4,), (7,)], 2: [(4, 5), (5, 3), (3, 6)], 3: [(3, 4, 2), (2, 3, 3), (4, 2, 2)]}
MODES = {1: ["nearest", "nearest-exact", "linear", "area"], 2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
         3: ["nearest", "nearest-exact", "trilinear", "area"]}
SIZES = {1: (8,), 2: (7, 3), 3: (4, 3, 5)}
FACTORS = {1: (1.7,), 2: (1.5, 0.7), 3: (1.25, 0.8, 2.0)}
SMOOTH = {"linear", "bilinear", "trilinear", "bicubic"}


def settings_of(axes: int) -> list[dict]:
    """All modes by size and by factor, with and without aligned corners."""
    settings = []
    for mode in MODES[axes]:
        settings += [{"size": SIZES[axes], "mode": mode}, {"scale_factor": FACTORS[axes], "mode": mode}]
        if mode in SMOOTH:
            settings += [{"size": SIZES[axes], "mode": mode, "align_corners": True},
                         {"scale_factor": FACTORS[axes], "mode": mode, "align_corners": False}]
    return settings


def call(name: str, settings: dict):
    function = getattr(F, name)
    return lambda x: function(x, **settings)


def interpolated(axes: int, name: str, settings: list[dict]) -> Export:
    parts = [call(name, each) for each in settings]
    samples = [randn(1, 2, *lens) for lens in LENS[axes]]
    return Export(Each(*parts), samples[0], others=[(sample,) for sample in samples[1:]])


def recomputed(axes: int) -> list[dict]:
    modes = [mode for mode in MODES[axes] if mode != "nearest-exact"]
    return [{"scale_factor": FACTORS[axes], "mode": mode, "recompute_scale_factor": True} for mode in modes] + [
        {"scale_factor": 2.0}, {"scale_factor": 0.5, "mode": MODES[axes][2], "recompute_scale_factor": False}]


def register(axes: int) -> None:
    export_each(f"F_interpolate_{axes}d", lambda: interpolated(axes, "interpolate", settings_of(axes)))
    export_each(f"F_interpolate_by_recomputed_factors_{axes}d",
                lambda: interpolated(axes, "interpolate", recomputed(axes)))
    usual = [each for each in settings_of(axes) if each["mode"] not in ("nearest-exact", "area")]
    export_each(f"F_upsample_{axes}d", lambda: interpolated(axes, "upsample", usual))

    def of_modules() -> Export:
        kept = [each for each in settings_of(axes) if each["mode"] != "area"]
        samples = [randn(1, 2, *lens) for lens in LENS[axes]]
        return Export(Each(*[nn.Upsample(**each) for each in kept]), samples[0],
                      others=[(sample,) for sample in samples[1:]])

    export_each(f"nn_Upsample_{axes}d", of_modules)


for axes in (1, 2, 3):
    register(axes)

OLD = [{"size": (5, 7)}, {"scale_factor": 2}, {"scale_factor": (1.5, 3)}, {"size": 6}]
export_each("nn_UpsamplingNearest2d", lambda: Export(
    Each(*[nn.UpsamplingNearest2d(**each) for each in OLD]), randn(1, 2, 3, 4), others=[(randn(2, 2, 2, 5),), (randn(1, 2, 4, 4),)]))
export_each("nn_UpsamplingBilinear2d", lambda: Export(
    Each(*[nn.UpsamplingBilinear2d(**each) for each in OLD]), randn(1, 2, 3, 4), others=[(randn(2, 2, 2, 5),), (randn(1, 2, 4, 4),)]))
export_each("F_upsample_nearest", lambda: interpolated(2, "upsample_nearest", OLD[:2] + OLD[3:]))
export_each("F_upsample_nearest_3d", lambda: interpolated(3, "upsample_nearest", [{"size": (2, 5, 3)}, {"scale_factor": 2}]))
export_each("F_upsample_bilinear", lambda: interpolated(2, "upsample_bilinear", OLD[:2] + OLD[3:]))


def to_the_size_of_another() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            size = y.shape[2:]
            return (F.interpolate(x, size, mode="bilinear"), F.interpolate(x, size=(y.shape[2] * 2, y.shape[3] + 1)),
                    F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 3), mode="bicubic", align_corners=True),
                    F.interpolate(x, size=(4, x.shape[3]), mode="area"))
    return Export(Net(), randn(1, 2, 3, 4), randn(1, 1, 5, 6), others=[
        (randn(2, 2, 4, 3), randn(2, 1, 7, 2)), (randn(1, 2, 2, 2), randn(1, 1, 3, 3)), (randn(1, 2, 5, 4), randn(1, 1, 2, 4))])


export_each("interpolate_to_the_size_of_another", to_the_size_of_another)


@direct
def F_interpolate_direct(model: Model) -> None:
    for axes in (1, 2, 3):
        lens = LENS[axes][0]
        for mode in MODES[axes]:
            model.op("F.interpolate", randn(1, 1, *lens, dtype=torch.float64), size=SIZES[axes], mode=mode)
            model.op("F.interpolate", randn(0, 2, *lens), scale_factor=2, mode=mode)
        model.op("F.interpolate", randn(1, 1, *lens), size=3)
        model.op("F.interpolate", randn(1, 1, *lens), size=(1,) * axes, mode=MODES[axes][2], align_corners=True)
    x = randn(1, 1, 3, 3)
    model.op("F.interpolate", x, size=[3, 3], mode="bilinear")
    model.op("F.interpolate", x, scale_factor=[0.34, 10], mode="bicubic")
    model.op("F.interpolate", x, scale_factor=1 / 3, mode="nearest")
    model.op("F.interpolate", x, scale_factor=2.6, mode="nearest-exact", recompute_scale_factor=True)
    model.op("F.interpolate", randn(1, 1, 1, 1), size=3, mode="bicubic", align_corners=True)
    model.op("F.interpolate", torch.tensor([[[NAN, 1.0, INF, -INF]]]), size=7, mode="linear")
    model.op("F.interpolate", torch.tensor([[[3e38, 3e38]]]), size=3, mode="linear")
    model.op("F.upsample", x, size=5, mode="bilinear", align_corners=True)
    model.op("F.upsample_bilinear", x, size=5)
    model.op("F.upsample_bilinear", x, scale_factor=2)
    model.op("F.upsample_nearest", x, size=(5, 2))
    model.op("nn.Upsample", x, scale_factor=2)
    model.op("nn.Upsample", x, size=2, mode="bicubic")


@direct
def F_interpolate_of_bytes(model: Model) -> None:
    for axes in (1, 2, 3):
        x = random_integers(1, 2, *LENS[axes][0], high=256, dtype=torch.uint8)
        for mode in ("nearest", "nearest-exact"):
            model.op("F.interpolate", x, size=SIZES[axes], mode=mode)
            model.op("F.interpolate", x, scale_factor=FACTORS[axes], mode=mode)


@direct(tolerance=1e-2)
def interpolation_of_halves(model: Model) -> None:
    for dtype in FLOATS[2:]:
        for axes in (1, 2, 3):
            x = randn(1, 1, *LENS[axes][0], dtype=dtype)
            for mode in MODES[axes]:
                model.op("F.interpolate", x, size=SIZES[axes], mode=mode)
