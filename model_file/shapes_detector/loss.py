"""What the detector is trained on: YOLOv5's way to assign boxes to cells and anchors, and its three losses."""

import math

import torch
from torch import Tensor, nn

from network import ANCHORS, STRIDES

LARGEST_RATIO = 4.0  # between a box and an anchor, in width and in height
# There are more cells in the finer heads, and most of them are empty.
BALANCE = (4.0, 1.0, 0.4)


def assign(boxes: Tensor, level: int, cells: int):
    """Which cells and anchors of a head answer for which boxes.

    `boxes` is M×6: picture, class, centre x and y, width, height in pixels. A box goes to its own cell and to the two
    nearest neighbours, and there to each anchor that is not too different from it. Returns indices
    (picture, anchor, row, column) and the assigned boxes.
    """
    anchors = torch.tensor(ANCHORS[level]).float()
    ratio = boxes[:, None, 4:] / anchors
    fits = torch.max(ratio, 1 / ratio).amax(2) < LARGEST_RATIO
    chosen, anchor = fits.nonzero(as_tuple=True)
    boxes = boxes[chosen]
    place = boxes[:, 2:4] / STRIDES[level]
    part = place % 1
    # Left, upper, right and lower neighbour, by the half of the cell that the centre lies in.
    near = torch.cat((part < 0.5, part >= 0.5), 1)
    steps = torch.tensor([[-1, 0], [0, -1], [1, 0], [0, 1]])
    of, side = near.nonzero(as_tuple=True)
    cell = torch.cat((place.long(), place[of].long() + steps[side]))
    boxes, anchor = torch.cat((boxes, boxes[of])), torch.cat((anchor, anchor[of]))
    inside = ((cell >= 0) & (cell < cells)).all(1)
    boxes, anchor, cell = boxes[inside], anchor[inside], cell[inside]
    return (boxes[:, 0].long(), anchor, cell[:, 1], cell[:, 0]), boxes


def complete_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union, less the distance of the centres and the difference of the aspect ratios (Zheng et al. 2020)."""
    a_low, a_high, b_low, b_high = a[:, :2] - a[:, 2:] / 2, a[:, :2] + a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2
    shared = (torch.min(a_high, b_high) - torch.max(a_low, b_low)).clamp(0).prod(1)
    iou = shared / (a[:, 2:].prod(1) + b[:, 2:].prod(1) - shared + 1e-7)
    diagonal = (torch.max(a_high, b_high) - torch.min(a_low, b_low)).square().sum(1) + 1e-7
    distance = (a[:, :2] - b[:, :2]).square().sum(1) / diagonal
    shape = 4 / math.pi**2 * ((a[:, 2] / a[:, 3]).atan() - (b[:, 2] / b[:, 3]).atan()).square()
    with torch.no_grad():
        weight = shape / (1 - iou + shape + 1e-7)
    return iou - distance - weight * shape


def detection_loss(heads: list[Tensor], boxes: Tensor) -> Tensor:
    """The sum of the losses of box, objectness and class; `heads` as in training, `boxes` as in `assign`."""
    cross_entropy = nn.BCEWithLogitsLoss()
    loss = torch.zeros(())
    for level, head in enumerate(heads):
        wanted = torch.zeros(head.shape[:4])
        at, assigned = assign(boxes, level, head.shape[2])
        if len(assigned):
            found = head[at]
            cells = torch.stack((at[3], at[2]), 1)
            xy = (found[:, :2].sigmoid() * 2 - 0.5 + cells) * STRIDES[level]
            wh = (found[:, 2:4].sigmoid() * 2) ** 2 * torch.tensor(ANCHORS[level]).float()[at[1]]
            iou = complete_iou(torch.cat((xy, wh), 1), assigned[:, 2:])
            wanted[at] = iou.detach().clamp(0)
            classes = nn.functional.one_hot(assigned[:, 1].long(), head.shape[4] - 5).float()
            loss = loss + (1 - iou).mean() + 0.5 * cross_entropy(found[:, 5:], classes)
        loss = loss + 2 * BALANCE[level] * cross_entropy(head[..., 4], wanted)
    return loss
