"""Patches, grids and regions: fold, unfold, grid_sample, affine_grid, RoIAlign, deformable convolution. Boxes: nms, heads of detectors."""

import pnnx
import torch
import torch.nn.functional as F
import torchvision.ops as vision
from torch import nn
from torchvision.ops import DeformConv2d, RoIAlign, deform_conv2d, roi_align

from case import Export, Model, direct, exported, quiet
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


def pooled(*images: int):
    """Images, and the functions that pool regions of them, with both results."""
    ops = torch.ops.torchvision
    return randn(*images), Each(
        lambda x, places: ops.roi_pool(x, places, 0.5, 3, 2), lambda x, places: ops.ps_roi_pool(x, places, 0.5, 2, 2),
        lambda x, places: ops.ps_roi_align(x, places, 0.5, 2, 2, 2), lambda x, places: ops.ps_roi_align(x, places, 0.4, 1, 4, 0))


@exported
def torchvision_ops_regions() -> Export:
    images, functions = pooled(2, 8, 6, 7)
    return Export(functions, images, boxes(4, pictures=2), others=[
        (randn(1, 8, 4, 9), boxes(3, pictures=1)), (randn(2, 8, 1, 5), boxes(2, pictures=2)), (randn(2, 8, 3, 3), boxes(0, pictures=2))])


@exported
def torchvision_regions_level0() -> Export:
    images, functions = pooled(1, 4, 5, 6)
    return Export(functions, images, boxes(2, pictures=1), optlevel=0)


@direct
def regions_direct(model: Model) -> None:
    def pool(name: str, x, places, *arguments):
        named = {f"arg_{2 + index}": argument for index, argument in enumerate(arguments)}
        function = getattr(torch.ops.torchvision, name)
        model.op(f"pnnx.custom_op.torchvision.{name}", x, places, f=lambda x, places: function(x, places, *arguments), keys=["arg_0", "arg_1"], **named)
    # At the edges and beyond, far larger than their picture, empty, and boxes that end before they begin.
    edges = torch.tensor([[0.0, 0, 0, 8, 8], [0, 8, 8, 9, 9], [0, -2, -2, 0, 0], [0, -40, -30, 50, 60], [0, 3, 3, 3, 3], [0, 7, 6, 1, 2], [0, 1, 6, 7, 2], [0, 0.5, 1.5, 2.5, 3.5]])
    x = randn(1, 4, 4, 5)
    for dtype in (torch.float32, torch.float64):
        pool("roi_pool", x.to(dtype), edges.to(dtype), 1.0, 2, 3)
        pool("ps_roi_pool", x.to(dtype), edges.to(dtype), 0.5, 2, 2)
        for ratio in (0, 3):
            pool("ps_roi_align", x.to(dtype), edges.to(dtype), 0.5, 2, 2, ratio)
    x = x.clone()
    x[0, 0, :2], x[0, 1, 1], x[0, 2, 2] = NAN, -INF, INF
    pool("roi_pool", x, edges, 0.5, 2, 2)
    pool("ps_roi_pool", x, edges, 0.5, 2, 2)


def suppressed(boxes, scores):
    kept = vision.nms(boxes, scores, 0.3)
    return boxes[kept], scores[kept], kept


def crowd(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes that often overlap, and their scores, some of them equal."""
    centres, sizes = rand(count, 2, high=20.0), rand(count, 2, low=4.0, high=12.0)
    return torch.cat((centres - sizes / 2, centres + sizes / 2), 1), random_integers(count, high=6) / 8


export_each("torchvision_ops_nms", lambda: Export(Each(suppressed), *crowd(12), others=[crowd(30), crowd(1), crowd(0)]))
export_each("torchvision_nms_level0", lambda: Export(Each(suppressed), *crowd(9), others=[crowd(20)], optlevel=0))


@exported
def batched_nms() -> Export:
    """By the function that torchvision scripts if it is traced, whose branches PNNX would lose."""
    def call(boxes, scores, classes):
        scripted = vision.boxes._batched_nms_coordinate_trick
        vision.boxes._batched_nms_coordinate_trick = scripted.__wrapped__
        try:
            return vision.batched_nms(boxes, scores, classes, 0.3)
        finally:
            vision.boxes._batched_nms_coordinate_trick = scripted
    return Export(Each(call), *crowd(12), random_integers(12, high=3), others=[(*crowd(25), random_integers(25, high=2))])


def of_classes(boxes, scores, classes):
    """What `batched_nms` returns, by functions that are traced."""
    return vision.nms(boxes + classes[:, None] * 4096, scores, 0.3)


def nms_of_classes(**settings) -> Export:
    sets = [(*crowd(count), random_integers(count, high=3)) for count in (12, 25, 0)]
    for boxes, scores, classes in sets:
        assert torch.equal(of_classes(boxes, scores, classes), vision.batched_nms(boxes, scores, classes, 0.3))
    return Export(Each(of_classes), *sets[0], others=sets[1:], **settings)


export_each("nms_of_classes", nms_of_classes)
export_each("nms_of_classes_level0", lambda: nms_of_classes(optlevel=0))


@direct
def nms_direct(model: Model) -> None:
    def suppress(boxes, scores, threshold):
        model.op("pnnx.custom_op.torchvision.nms", boxes, scores, f=lambda boxes, scores: vision.nms(boxes, scores, threshold),
                 keys=["arg_0", "arg_1"], arg_2=threshold)
    # Equal boxes, empty ones, equal scores, NaN and infinities; an overlap of exactly 0.6.
    odd = torch.tensor([[0, 0, 4, 4], [1, 0, 5, 4], [0, 0, 4, 4], [6, 6, 8, 8], [2, 2, 2, 2], [2, 2, 2, 2], [NAN, 0, 4, 4], [-INF, 0, INF, 4.0]])
    scores = torch.tensor([0.5, 0.9, 0.5, NAN, 0.0, -0.0, 0.7, INF])
    for dtype in (torch.float32, torch.float64):
        given = odd.to(dtype), scores.to(dtype)
        for threshold in (0.5, 0.6, 0.0, 1.0, -0.1, NAN):
            suppress(*given, threshold)
    suppress(*crowd(100), 0.25)


@exported
def torchvision_ops_MultiScaleRoIAlign() -> Export:
    """Of one map: with several, PNNX stores how many boxes of its own sample belong to each."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = vision.MultiScaleRoIAlign(["map"], 2, 2)

        def forward(self, x, places):
            return self.pool({"map": x}, [places], [(32, 32)])
    return Export(Net(), randn(1, 2, 8, 8), boxes(3), others=[(randn(1, 2, 8, 8), boxes(5))])


@exported
def functions_of_boxes() -> Export:
    def alone(a, b):
        return (vision.box_area(a), vision.box_convert(a, "xyxy", "cxcywh"), vision.box_convert(a, "xywh", "xyxy"),
                vision.clip_boxes_to_image(b, (7, 8)), vision.remove_small_boxes(b, 4.0))
    pairs = (vision.box_iou, vision.generalized_box_iou, vision.distance_box_iou, vision.complete_box_iou)
    return Export(Each(alone, *pairs), boxes(4), boxes(3), others=[(boxes(5), boxes(2))])


class Detect(nn.Module):
    """A head as in YOLOv5, for maps with these numbers of channels.

    Grids and anchors are constants of the trace if the rows and columns of the maps are given; otherwise they are computed,
    the anchors from a buffer. In the older style, the anchors are a buffer, and half a position is subtracted when boxes are
    computed. With `everything`, the results of the convolutions are returned too.
    """

    __module__ = "models.yolo"

    def __init__(self, channels: list[int], lens: list[tuple[int, int]] | None = None, older: bool = False, everything: bool = False, classes: int = 2):
        super().__init__()
        self.older, self.everything, self.numbers = older, everything, 5 + classes
        anchors = torch.tensor([[10.0, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119], [116, 90, 156, 198, 373, 326]])[:len(channels)].reshape(-1, 3, 2)
        self.stride = torch.tensor([8.0, 16.0, 32.0])[:len(channels)]
        self.grids = [self.grid(*each) - (0.0 if older else 0.5) for each in lens] if lens else None
        self.sizes = [each.reshape(1, 3, 1, 1, 2).expand(1, 3, *len_, 2).clone() for each, len_ in zip(anchors, lens)] if lens and not older else None
        if older:
            self.register_buffer("anchor_grid", anchors.reshape(-1, 1, 3, 1, 1, 2))
        elif not lens:
            self.register_buffer("anchors", anchors / self.stride.reshape(-1, 1, 1))
        self.m = nn.ModuleList(nn.Conv2d(each, 3 * self.numbers, 1) for each in channels)

    def grid(self, rows, columns):
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        return torch.stack((x, y), 2).float().reshape(1, 1, rows, columns, 2).expand(1, 1 if self.older else 3, rows, columns, 2).clone()

    def forward(self, maps):
        results, rows = [], []
        for index, x in enumerate(maps):
            result = self.m[index](x).unflatten(1, (3, self.numbers)).permute(0, 1, 3, 4, 2).contiguous()
            grid = self.grids[index] if self.grids else self.grid(*x.shape[2:]) - 0.5
            sizes = self.anchor_grid[index] if self.older else self.sizes[index] if self.sizes else (self.anchors[index] * self.stride[index]).reshape(1, 3, 1, 1, 2)
            centre, size, rest = result.sigmoid().split((2, 2, self.numbers - 4), 4)
            centre = (centre * 2 - 0.5 + grid if self.older else centre * 2 + grid) * self.stride[index]
            rows.append(torch.cat((centre, (size * 2) ** 2 * sizes, rest), 4).flatten(1, 3))
            results.append(result)
        return (torch.cat(rows, 1), results) if self.everything else torch.cat(rows, 1)


class Whole(Export):
    """An export that keeps heads whole."""

    def export(self) -> None:
        with quiet(), torch.no_grad():
            torch.jit.trace(self.module, self.sets[0], check_trace=False).save("model.pt")
            second = self.sets[1] if len(self.sets) > 1 else None
            try:
                pnnx.convert("model.pt", inputs=self.sets[0], inputs2=second, optlevel=self.optlevel, moduleop="models.yolo.Detect")
            except (SyntaxError, ImportError, NameError, AttributeError, TypeError):
                pass  # PNNX's Python knows no such module.


class Detector(nn.Module):
    """Three maps of an image, each half as large as the one before, and a head for each of `heads`."""

    def __init__(self, *heads: dict):
        super().__init__()
        self.maps = nn.ModuleList(nn.Conv2d(inputs, inputs + 1, 3, 2, 1) for inputs in (1, 2, 3))
        self.heads = nn.ModuleList(Detect([2, 3, 4], **each) for each in heads)

    def forward(self, x):
        maps = []
        for layer in self.maps:
            x = layer(x)
            maps.append(x)
        return tuple(head(maps) for head in self.heads)


SMALL = [(4, 6), (2, 3), (1, 2)]

export_each("models_yolo_Detect", lambda: Whole(
    Detector(dict(lens=SMALL), dict(lens=SMALL, older=True)), randn(1, 1, 8, 12), others=[(randn(2, 1, 8, 12),)]))
export_each("models_yolo_Detect_level0", lambda: Whole(Detector(dict(lens=SMALL, everything=True)), randn(1, 1, 8, 12), optlevel=0))
export_each("models_yolo_Detect_of_maps", lambda: Whole(Detector(dict(lens=SMALL, everything=True)), randn(1, 1, 8, 12)))
export_each("models_yolo_Detect_of_any_size", lambda: Whole(Detector({}), randn(1, 1, 8, 12), others=[(randn(2, 1, 10, 6),)]))


@direct
def models_yolo_Detect_reversed(model: Model) -> None:
    """The constants as older versions of PNNX number them."""
    for dtype in (torch.float32, torch.float64):
        head = Detect([2, 3], SMALL[1:]).to(dtype).requires_grad_(False)
        head.stride, head.grids, head.sizes = head.stride.to(dtype), [each.to(dtype) for each in head.grids], [each.to(dtype) for each in head.sizes]
        constants = [head.grids[0], head.stride, head.sizes[0], head.grids[1], head.sizes[1]]
        weights = dict(head.state_dict()) | {f"pnnx_{index}": constant for index, constant in enumerate(reversed(constants))}
        for images in (1, 0):
            maps = randn(images, 2, 2, 3, dtype=dtype), randn(images, 3, 1, 2, dtype=dtype)
            model.op("models.yolo.Detect", *maps, f=lambda *maps: head(maps), weights=weights)


@exported
def grid_samplers() -> Export:
    """TorchScript's names of grid_sample, with numbers instead of words."""
    class Net(nn.Module):
        def forward(self, x, places, volume, spots):
            plain = torch.stack([torch.grid_sampler_2d(x, places, *each) for each in ((0, 0, False), (1, 1, True), (2, 2, False), (0, 2, True), (1, 0, False))])
            return plain, torch.stack([torch.grid_sampler_3d(volume, spots, *each) for each in ((0, 1, False), (1, 2, True), (0, 0, True))])
    return Export(Net(), randn(1, 2, 4, 3), randn(1, 2, 3, 2), randn(1, 1, 2, 3, 4), randn(1, 2, 2, 1, 3), others=[
        (randn(2, 2, 3, 5), randn(2, 4, 1, 2), randn(2, 1, 3, 2, 3), randn(2, 1, 2, 2, 3))])


@direct
def aten_grid_sampler(model: Model) -> None:
    for dtype in (torch.float32, torch.float64):
        for mode, padding, aligned in ((0, 1, True), (1, 2, False), (2, 0, True)):
            model.op("aten::grid_sampler", randn(1, 1, 3, 3, dtype=dtype), randn(1, 2, 1, 2, dtype=dtype), keys=["input", "grid"],
                     f=lambda x, grid: torch.grid_sampler(x, grid, mode, padding, aligned), mode=mode, padding_mode=padding, align_corners=aligned)
