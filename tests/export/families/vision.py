"""Patches, grids and regions: fold, unfold, grid_sample, affine_grid, RoIAlign, deformable convolution."""

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import DeformConv2d, RoIAlign, deform_conv2d, roi_align

from case import Export, Model, direct, exported
from modules import Each, Zipped, export_each
from values import FLOATS, INF, NAN, rand, randn, random_integers

UNFOLD = [dict(kernel_size=2), dict(kernel_size=(3, 2), padding=(1, 0), stride=(2, 1)), dict(kernel_size=2, dilation=(2, 1), padding=1),
          dict(kernel_size=(1, 3), stride=3, padding=(0, 1))]
# With the channels and the number of places of an input that fits.
FOLD = [(dict(output_size=(4, 5), kernel_size=2), 8, 12), (dict(output_size=5, kernel_size=(3, 2), padding=(1, 0), stride=(2, 1)), 6, 12),
        (dict(output_size=(4, 4), kernel_size=2, dilation=(2, 1), padding=1), 4, 20)]

export_each("nn_Unfold", lambda: Export(Each(*[nn.Unfold(**each) for each in UNFOLD]), randn(1, 2, 5, 4), others=[
    (randn(2, 2, 4, 6),), (randn(1, 2, 6, 3),), (randn(3, 2, 3, 3),)]))
export_each("F_unfold", lambda: Export(Each(*[lambda x, each=each: F.unfold(x, **each) for each in UNFOLD]), randn(2, 1, 4, 5)))
export_each("nn_Fold", lambda: Export(Zipped(*[nn.Fold(**each) for each, *_ in FOLD]), *[
    randn(2, rows, places) for _, rows, places in FOLD], others=[tuple(randn(n, rows, places) for _, rows, places in FOLD) for n in (1, 3)]))
export_each("F_fold", lambda: Export(Zipped(*[lambda x, each=each: F.fold(x, **each) for each, *_ in FOLD]), *[
    randn(1, rows, places) for _, rows, places in FOLD]))


@direct
def F_fold_direct(model: Model) -> None:
    model.op("F.unfold", randn(1, 2, 3, 3, dtype=torch.float64), kernel_size=2, padding=1)
    model.op("F.fold", randn(1, 8, 4, dtype=torch.float64), output_size=(3, 3), kernel_size=2)
    model.op("F.unfold", randn(2, 3, 4), kernel_size=2)
    model.op("F.fold", randn(4, 4), output_size=3, kernel_size=2)
    model.op("nn.Unfold", randn(0, 2, 3, 3), kernel_size=(2, 2))
    model.op("F.unfold", torch.tensor([[[[NAN, INF], [1.0, 2.0]]]]), kernel_size=1)


@direct(tolerance=1e-2)
def fold_of_halves(model: Model) -> None:
    for dtype in FLOATS[2:]:
        model.op("F.unfold", randn(1, 2, 3, 3, dtype=dtype), kernel_size=2)
        model.op("F.fold", randn(1, 4, 4, dtype=dtype), output_size=(3, 3), kernel_size=2)


def sampled(mode: str, padding: str, aligned: bool):
    return lambda x, grid: F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=aligned)


SAMPLINGS = [("bilinear", "zeros", False), ("bilinear", "border", True), ("bilinear", "reflection", False), ("nearest", "zeros", True),
             ("nearest", "reflection", True), ("nearest", "border", False)]
CUBIC = [("bicubic", "zeros", False), ("bicubic", "border", True), ("bicubic", "reflection", True), ("bilinear", "reflection", True)]

export_each("F_grid_sample", lambda: Export(
    Each(*[sampled(*each) for each in SAMPLINGS + CUBIC]), randn(1, 2, 4, 3), randn(1, 3, 2, 2), others=[
        (randn(2, 2, 3, 5), randn(2, 2, 4, 2)), (randn(1, 2, 2, 2), randn(1, 1, 5, 2))]))
export_each("F_grid_sample_of_volumes", lambda: Export(
    Each(*[sampled(*each) for each in SAMPLINGS]), randn(1, 2, 3, 2, 4), randn(1, 2, 2, 3, 3)))


def warped() -> Export:
    def call(x, theta):
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return grid, F.grid_sample(x, grid, align_corners=False), F.affine_grid(theta, [2, 1, 2, 5], align_corners=True)
    return Export(Each(call), randn(2, 2, 4, 3), randn(2, 2, 3))


export_each("F_affine_grid", warped)
export_each("F_affine_grid_of_volumes", lambda: Export(
    Each(lambda theta: F.affine_grid(theta, [2, 1, 2, 3, 2], align_corners=True),
         lambda theta: F.affine_grid(theta, [2, 3, 1, 2, 2], align_corners=False)), randn(2, 3, 4)))


@direct
def F_grid_sample_direct(model: Model) -> None:
    keys = ["input", "grid"]
    for mode, padding, aligned in SAMPLINGS[:4]:
        settings = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
        model.op("F.grid_sample", randn(1, 1, 3, 3, dtype=torch.float64), randn(1, 2, 2, 2, dtype=torch.float64), keys=keys, **settings)
        model.op("F.grid_sample", randn(0, 1, 3, 3), randn(0, 2, 2, 2), keys=keys, **settings)
    far = torch.tensor([[[[-1.0, 1.0], [0.0, 0.0], [5.0, -7.5], [1e6, 0.5]]]])
    for padding in ("zeros", "border", "reflection"):
        model.op("F.grid_sample", randn(1, 2, 3, 4), far, keys=keys, padding_mode=padding, align_corners=False)
    model.op("F.grid_sample", randn(1, 2, 1, 1), far, keys=keys, mode="nearest", align_corners=True)


def boxes(count: int, high: float = 18.0, pictures: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Boxes K×4, or K×5 with the numbers of so many pictures; some lie outside."""
    places = rand(count, 2, 2, low=-2.0, high=high, dtype=dtype).sort(1).values.flatten(1)
    return torch.cat((random_integers(count, 1, high=pictures).to(dtype), places), 1) if pictures else places


ROI = [dict(output_size=(3, 2), spatial_scale=0.5, sampling_ratio=2, aligned=False), dict(output_size=2, spatial_scale=0.5, sampling_ratio=3, aligned=True),
       dict(output_size=(2, 4), spatial_scale=0.5, sampling_ratio=0, aligned=False), dict(output_size=(2, 3), spatial_scale=0.4, sampling_ratio=-1, aligned=True)]

export_each("torchvision_ops_RoIAlign", lambda: Export(
    Each(*[RoIAlign(**each) for each in ROI]), randn(2, 3, 8, 6), boxes(4, pictures=2), others=[
        (randn(1, 3, 5, 9), boxes(3, pictures=1)), (randn(3, 3, 1, 4), boxes(1, pictures=3)), (randn(2, 3, 4, 4), boxes(0, pictures=2))]))


@exported
def RoIAlign_of_lists() -> Export:
    """PNNX writes lists of boxes before the pictures."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.one, self.two = nn.Conv2d(3, 2, 1), RoIAlign(**ROI[0]), RoIAlign(**ROI[3])

        def forward(self, x, first, second):
            y = self.conv(x)
            return self.one(y, [first]), self.two(y, [first, second * 0.5])
    return Export(Net(), randn(2, 3, 7, 8), boxes(3), boxes(2))


def functional() -> nn.Module:
    return Each(lambda x, places: roi_align(x, places, (3, 2), 0.5, 2, True), lambda x, places: roi_align(x, places, 2))


export_each("torchvision_ops_roi_align", lambda: Export(functional(), randn(2, 2, 6, 9), boxes(4, pictures=2), others=[
    (randn(1, 2, 8, 8), boxes(2, pictures=1))]))
export_each("torchvision_roi_align_level0", lambda: Export(functional(), randn(2, 2, 5, 6), boxes(3, pictures=2), optlevel=0))


@direct
def RoIAlign_direct(model: Model) -> None:
    def align(*inputs, **settings):
        model.op("torchvision.ops.RoIAlign", *inputs, f=RoIAlign(**settings), **settings)
    for settings in ROI:
        align(randn(2, 2, 5, 7, dtype=torch.float64), boxes(3, pictures=2, dtype=torch.float64), **settings)
    align(randn(2, 0, 4, 4), boxes(2, pictures=2), **ROI[0])
    align(randn(1, 2, 4, 4), boxes(2, pictures=1), **ROI[0] | {"output_size": (0, 2)})
    # Edges at the outermost elements and beyond, and boxes far larger than their picture.
    edges = torch.tensor([[0.0, 0, 0, 8, 8], [0, 8, 8, 9, 9], [0, -2, -2, 0, 0], [0, -40, -30, 50, 60], [0, 3, 3, 3, 3]])
    for settings in ROI:
        align(randn(1, 1, 4, 4), edges, **settings)
    for settings in ROI[:3]:  # Boxes that end before they begin.
        align(randn(1, 1, 4, 4), torch.tensor([[0.0, 7, 6, 1, 2], [0, 1, 6, 7, 2]]), **settings)


@direct(tolerance=1e-2)
def RoIAlign_of_halves(model: Model) -> None:
    settings = ROI[0]
    model.op("torchvision.ops.RoIAlign", randn(1, 2, 4, 5, dtype=torch.float16), boxes(2, pictures=1, dtype=torch.float16), f=RoIAlign(**settings), **settings)


@exported
def torchvision_ops_DeformConv2d() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.grouped = DeformConv2d(4, 6, 3, stride=2, padding=1, groups=2)
            self.plain = DeformConv2d(4, 3, (3, 2), dilation=(1, 2), bias=False)

        def forward(self, x, offset, mask, other):
            return self.grouped(x, offset, mask), self.grouped(x, offset), self.plain(x, other)

    def inputs(n, rows, columns):
        small, large = ((rows + 1) // 2, (columns + 1) // 2), (rows - 2, columns - 2)
        return randn(n, 4, rows, columns), 2 * randn(n, 36, *small), rand(n, 18, *small), randn(n, 12, *large)
    return Export(Net(), *inputs(1, 7, 8), others=[inputs(2, 5, 9), inputs(1, 3, 3)])


@exported
def torchvision_ops_deform_conv2d() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(randn(6, 4, 3, 3)), nn.Parameter(randn(6))

        def forward(self, x, offset, mask):
            return (deform_conv2d(x, offset, self.weight, self.bias, padding=1, mask=mask),
                    deform_conv2d(x, offset, self.weight, None, padding=(1, 1)))
    return Export(Net(), randn(1, 4, 5, 6), randn(1, 36, 5, 6), rand(1, 18, 5, 6), others=[
        (randn(3, 4, 4, 3), 3 * randn(3, 36, 4, 3), rand(3, 18, 4, 3))])


export_each("torchvision_deform_conv2d_level0", lambda: Export(
    Each(lambda x, offset, weight: deform_conv2d(x, offset, weight, padding=(0, 1))), randn(2, 2, 4, 5), randn(2, 12, 3, 5), randn(3, 2, 2, 3), optlevel=0))


@direct
def DeformConv2d_direct(model: Model) -> None:
    def convolve(x, offset, mask=None, **settings):
        module = DeformConv2d(x.shape[1], **settings).to(x.dtype).requires_grad_(False)
        weights = {key: value for key, value in module.state_dict().items()}
        inputs = [x, offset] + ([mask] if mask is not None else [])
        params = {key: getattr(module, key) for key in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")}
        model.op("torchvision.ops.DeformConv2d", *inputs, f=module, weights=weights, bias="bias" in weights, **params)
    convolve(randn(1, 2, 4, 4, dtype=torch.float64), randn(1, 18, 2, 2, dtype=torch.float64), out_channels=3, kernel_size=3)
    # At the outermost elements, between them and what lies around, and far away.
    far = torch.tensor([0.0, -1.0, -0.5, -0.999, 1.0, 0.5, 1e9, -1e9]).repeat(2)[:16].reshape(1, 2, 2, 4)
    convolve(randn(1, 1, 2, 4), far, out_channels=1, kernel_size=1)
    convolve(randn(1, 6, 5, 5), 5 * randn(1, 54, 3, 3), rand(1, 27, 3, 3), out_channels=2, kernel_size=3)
    convolve(randn(2, 8, 6, 5), randn(2, 32, 3, 5), randn(2, 16, 3, 5), out_channels=4, kernel_size=2, padding=(0, 1), dilation=(3, 2), groups=4)
