"""Resampling by filters against aliasing, and TorchScript's names of resampling, which PNNX leaves where it does not know them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct, exported
from modules import Each
from values import INF, NAN, randn, random_integers

MODES = ("bilinear", "bicubic", "lanczos")


def filtered(mode: str, **settings):
    return lambda x: F.interpolate(x, mode=mode, antialias=True, **settings)


@exported
def antialiased() -> Export:
    aligned = [filtered(mode, size=(4, 3), align_corners=True) for mode in MODES[:2]]
    parts = [filtered(mode, **settings) for mode in MODES for settings in ({"size": (3, 5)}, {"scale_factor": (0.4, 1.3)})]
    return Export(Each(*parts, *aligned), randn(1, 2, 7, 6))


@exported
def antialiased_at_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            h, w = x.shape[2:]
            return (F.interpolate(x, y.shape[2:], mode="bilinear", antialias=True), F.interpolate(x, size=(h // 2, w), mode="bicubic", antialias=True),
                    F.interpolate(x, scale_factor=0.5, mode="bicubic", antialias=True), F.interpolate(x, size=(3, 2), mode="lanczos", antialias=True))
    return Export(Net(), randn(1, 2, 6, 8), randn(1, 1, 3, 4), others=[(randn(2, 2, 8, 6), randn(2, 1, 5, 9)), (randn(1, 2, 4, 4), randn(1, 1, 1, 1))])


@exported
def antialiased_position_embeddings() -> Export:
    """As in vision transformers whose images have another size than those of their training."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.place = nn.Conv2d(3, 4, 2, 2), nn.Parameter(torch.randn(1, 16, 4))

        def forward(self, x):
            x = self.patch(x)
            grid = self.place.reshape(1, 4, 4, 4).permute(0, 3, 1, 2)
            grid = F.interpolate(grid, size=x.shape[2:], mode="bicubic", align_corners=False, antialias=True)
            return (x + grid).flatten(2).transpose(1, 2)
    return Export(Net(), randn(1, 3, 6, 4), others=[(randn(1, 3, 4, 8),), (randn(2, 3, 10, 10),)])


@exported
def nearest_exact_at_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, z):
            double = [length * 2 for length in z.shape[2:]]
            return (F.interpolate(x, size=y.shape[2:], mode="nearest-exact") + y, F.interpolate(x[:, :, 0], size=y.shape[2], mode="nearest-exact"),
                    F.interpolate(z, size=double, mode="nearest-exact"))
    return Export(Net(), randn(1, 2, 5, 4), randn(1, 2, 7, 10), randn(1, 2, 2, 3, 2), others=[
        (randn(1, 2, 3, 6), randn(1, 2, 11, 9), randn(1, 2, 3, 2, 1)), (randn(2, 2, 4, 4), randn(2, 2, 2, 3), randn(1, 2, 1, 1, 4))])


@exported
def nearest_exact_by_recomputed_factors() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, z):
            return tuple(F.interpolate(a, scale_factor=1.7, mode="nearest-exact", recompute_scale_factor=True) for a in (x, y, z))
    return Export(Net(), randn(1, 2, 5), randn(1, 2, 5, 4), randn(1, 2, 2, 3, 4))


@exported
def bytes_resampled() -> Export:
    x = random_integers(1, 3, 7, 6, high=256, dtype=torch.uint8)
    parts = [filtered(mode, size=size) for mode in MODES for size in ((3, 4), (7, 9))]
    parts += [lambda x: F.interpolate(x, size=(5, 8), mode="bilinear"), lambda x: F.interpolate(x, size=(5, 8), mode="bicubic", align_corners=True),
              filtered("bilinear", scale_factor=(0.5, 1.1))]
    return Export(Each(*parts), x)


@direct
def F_interpolate_with_a_filter(model: Model) -> None:
    x, nothing, row = randn(1, 1, 5, 6), randn(0, 2, 4, 4), torch.tensor([[[[NAN, 1.0, 2.0, 3.0, INF, 1.0, -INF, 2.0]]]])
    wide, single, image = randn(1, 1, 5, 6, dtype=torch.float64), randn(1, 1, 1, 1), random_integers(2, 5, 6, 5, high=256, dtype=torch.uint8)
    for mode in MODES:
        for tensor, size in ((x, (2, 2)), (x, (1, 1)), (x, (9, 3)), (x, (5, 6)), (wide, (2, 3)), (nothing, 2), (single, (2, 1)), (row, (1, 4)), (image, (3, 7))):
            model.op("F.interpolate", tensor, size=size, mode=mode, antialias=True)
        model.op("F.interpolate", x, scale_factor=[0.6, 1.2], mode=mode, antialias=True)
        model.op("F.interpolate", x, scale_factor=0.35, mode=mode, antialias=True, recompute_scale_factor=True)
    model.op("F.interpolate", image, scale_factor=(0.7, 1.1), mode="bicubic")


def upsample(model: Model, name: str, x: Tensor, **params) -> None:
    """A call of TorchScript's function; those that state the scale of each axis have other arguments than those that do not."""
    function = getattr(torch.ops.aten, name)
    scaled = {key: value for key, value in params.items() if key.startswith("scales")}
    aligned = {"align_corners": params["align_corners"]} if "align_corners" in params else {}
    if scaled:
        model.op(f"aten::{name}", x, f=lambda x: function.default(x, params["output_size"], **aligned, **scaled), keys=["input"], **params)
    else:
        size, factors = params.get("output_size"), params.get("scale_factors")
        model.op(f"aten::{name}", x, f=lambda x: function.vec(x, size, *aligned.values(), factors), keys=["input"], **params)


@direct
def aten_upsample(model: Model) -> None:
    lens, sizes, factors = (4, 3, 5), (3, 5, 2), (1.3, 0.7, 0.6)
    inputs = {axes: randn(1, 1, *lens[:axes]) for axes in (1, 2, 3)}
    for name, axes in (("upsample_nearest1d", 1), ("upsample_nearest2d", 2), ("upsample_nearest3d", 3), ("_upsample_nearest_exact1d", 1),
                       ("_upsample_nearest_exact2d", 2), ("_upsample_nearest_exact3d", 3), ("upsample_linear1d", 1), ("upsample_bilinear2d", 2),
                       ("upsample_trilinear3d", 3), ("upsample_bicubic2d", 2), ("_upsample_bilinear2d_aa", 2), ("_upsample_bicubic2d_aa", 2),
                       ("_upsample_lanczos2d_aa", 2)):
        aligned = {} if "nearest" in name else {"align_corners": False}
        upsample(model, name, inputs[axes], output_size=sizes[:axes], **aligned)
        upsample(model, name, inputs[axes], scale_factors=factors[:axes], **aligned)
        if axes > 1:
            scales = dict(zip(("scales_d", "scales_h", "scales_w")[-axes:], factors))
            upsample(model, name, inputs[axes], output_size=tuple(int(n * f) for n, f in zip(lens, factors))[:axes], **aligned, **scales)
    for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa"):
        upsample(model, name, inputs[2], output_size=(2, 5), align_corners=True)
