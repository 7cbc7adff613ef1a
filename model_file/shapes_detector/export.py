"""Trains `shapes_detector` on rendered scenes, then exports it with samples to look at."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export_common import export, read_card, save_arrays, seed_everything  # noqa: E402
from loss import detection_loss  # noqa: E402
from metrics import mean_average_precision  # noqa: E402
from network import ShapesDetector  # noqa: E402
from scenes import CLASSES, Scene  # noqa: E402
from shapes import MEASURED_SEED, SIZE, as_input, render_many, write_samples  # noqa: E402

SCENES = 5000
EPOCHS = 6
BATCH = 16
TRAINING_SEED = 1


def centred(scene: Scene) -> Tensor:
    """M×5: class, centre x and y, width, height in pixels."""
    boxes = torch.tensor(scene.boxes, dtype=torch.float32).reshape(-1, 5)
    low, high = boxes[:, 1:3], boxes[:, 3:5]
    return torch.cat((boxes[:, :1], (low + high) / 2, high - low), 1)


def flipped(x: Tensor, boxes: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Each picture as it is or mirrored, and colours in any order; boxes with the number of their picture."""
    x = x.clone()
    moved = []
    for index, box in enumerate(boxes):
        box = box.clone()
        for axis, column in ((2, 1), (1, 2)):
            if torch.rand(()) < 0.5:
                x[index] = x[index].flip(axis)
                box[:, column] = SIZE - box[:, column]
        x[index] = x[index][torch.randperm(3)]
        moved.append(torch.cat((torch.full((len(box), 1), float(index)), box), 1))
    return x, torch.cat(moved)


def train(model: ShapesDetector, scenes: list[Scene]) -> None:
    """A fixed schedule, and the weights at its end."""
    x, boxes = as_input(scenes), [centred(scene) for scene in scenes]
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps, pct_start=0.15)
    for epoch in range(EPOCHS):
        model.train()
        losses = []
        for chosen in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            pictures, wanted = flipped(x[chosen], [boxes[index] for index in chosen])
            loss = detection_loss(model(pictures), wanted)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1} of {EPOCHS}: loss {np.mean(losses):.4f}", flush=True)


def measure(model: ShapesDetector, scenes: list[Scene]) -> float:
    """mAP@0.5 on scenes."""
    model.eval()
    with torch.no_grad():
        rows = torch.cat([model(batch) for batch in as_input(scenes).split(50)])
    return mean_average_precision(rows.numpy(), scenes)


def main():
    card = read_card(HERE)
    assert card["output"]["labels"] == list(CLASSES)
    seed_everything(0)
    model = ShapesDetector(len(CLASSES))
    print(f"shapes_detector: {sum(parameter.numel() for parameter in model.parameters())} parameters")
    train(model, render_many(TRAINING_SEED, SCENES))

    unseen = render_many(MEASURED_SEED, 500)
    reached = measure(model, unseen)
    print(f"shapes_detector: mAP@0.5 {reached:.4f} on {len(unseen)} scenes of seed {MEASURED_SEED}")
    assert reached >= 0.9

    write_samples(HERE, card, first=40)
    inputs = [as_input(unseen[:2])]
    export(model, HERE, "shapes_detector", inputs, other_inputs=[as_input(unseen[:3])], tolerance=1e-4)
    save_arrays(model, HERE, inputs)


if __name__ == "__main__":
    main()
