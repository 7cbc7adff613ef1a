"""How well detections and masks agree with the truth: the same definitions as in the crate's `vision::metrics`."""

import numpy as np

from scenes import CLASSES, Scene

CONFIDENCE = 0.001  # nearly all detections take part; the worst ones cost little
MOST = 300  # detections in one picture
OVERLAP = 0.45  # of two boxes of a class that overlap more, the worse one goes


def iou(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one box with N×4 others, all as left, top, right, bottom."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = (high - low).clip(0).prod(1)
    return shared / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - shared)


def detections(rows: np.ndarray, size: tuple[int, int]) -> list[tuple[int, float, np.ndarray]]:
    """Class, score and box of what one picture's rows (centre, size, objectness, classes) say, the surest first.

    `size` is the picture's height and width; boxes are cut to it.
    """
    rows = rows[rows[:, 4] > CONFIDENCE].astype(np.float32)
    classes = rows[:, 5:].argmax(1)
    scores = rows[:, 4] * rows[:, 5:].max(1)
    boxes = np.concatenate((rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2), 1)
    edges = np.array((size[1], size[0]) * 2, np.float32)
    found = []
    for index in np.argsort(-scores, kind="stable"):
        inside = boxes[index].clip(0, edges)
        if scores[index] <= CONFIDENCE or (inside[2:] <= inside[:2]).any() or len(found) == MOST:
            continue
        same = np.array([box for kind, _, box, _ in found if kind == classes[index]], np.float32).reshape(-1, 4)
        if not (iou(boxes[index], same) > OVERLAP).any():
            found.append((int(classes[index]), float(scores[index]), boxes[index], inside))
    return [(kind, score, inside) for kind, score, _, inside in found]


def mean_average_precision(rows: np.ndarray, scenes: list[Scene], threshold: float = 0.5) -> float:
    """The mean over the classes of the area under precision by recall, precision taken as its maximum from there on."""
    answers = [detections(picture, scene.mask.shape) for picture, scene in zip(rows, scenes, strict=True)]
    areas = []
    for kind in range(len(CLASSES)):
        truths = [np.array([box[1:] for box in scene.boxes if box[0] == kind], float).reshape(-1, 4) for scene in scenes]
        claims = sorted(((score, picture, box) for picture, answer in enumerate(answers)
                         for found, score, box in answer if found == kind), key=lambda claim: -claim[0])
        taken = [np.zeros(len(truth), bool) for truth in truths]
        right = np.zeros(len(claims))
        for index, (_, picture, box) in enumerate(claims):
            overlaps = iou(box, truths[picture])
            if len(overlaps) and overlaps.max() >= threshold:
                best = overlaps.argmax()
                right[index] = not taken[picture][best]
                taken[picture][best] = True
        hits = right.cumsum()
        recall = np.concatenate(([0], hits / sum(map(len, truths))))
        precision = np.maximum.accumulate((hits / np.arange(1, len(hits) + 1))[::-1])[::-1]
        areas.append((np.diff(recall) * precision).sum())
    return float(np.mean(areas))


def mean_iou(masks: np.ndarray, scenes: list[Scene]) -> float:
    """The mean over the background and the classes of shared pixels by pixels of either, over all scenes together."""
    count = len(CLASSES) + 1
    truth = np.stack([scene.mask for scene in scenes])
    table = np.bincount(truth.ravel().astype(int) * count + masks.ravel(), minlength=count * count).reshape(count, count)
    shared = table.diagonal()
    return float(np.mean(shared / (table.sum(0) + table.sum(1) - shared)))
