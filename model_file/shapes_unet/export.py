"""Trains `shapes_unet` on rendered scenes, then exports it with samples to look at."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export_common import export, read_card, save_arrays, seed_everything  # noqa: E402
from metrics import mean_iou  # noqa: E402
from network import ShapesUNet  # noqa: E402
from scenes import CLASSES, Scene  # noqa: E402
from shapes import MEASURED_SEED, as_input, render_many, write_samples  # noqa: E402

SCENES = 3000
EPOCHS = 4
BATCH = 8
TRAINING_SEED = 2


def train(model: ShapesUNet, scenes: list[Scene]) -> None:
    """A fixed schedule, and the weights at its end."""
    x, masks = as_input(scenes), torch.from_numpy(np.stack([scene.mask for scene in scenes])).long()
    # The same numbers in another order, in which PyTorch's convolutions are twice as fast on a CPU.
    model.to(memory_format=torch.channels_last)
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=6e-3, total_steps=steps, pct_start=0.15)
    # Nine pixels of ten are background.
    loss_of = nn.CrossEntropyLoss(weight=torch.tensor([0.5] + [1.0] * len(CLASSES)))
    for epoch in range(EPOCHS):
        model.train()
        losses = []
        for chosen in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            turns, mirror = int(torch.randint(4, ())), bool(torch.rand(()) < 0.5)
            pictures, wanted = x[chosen][:, torch.randperm(3)].rot90(turns, (2, 3)), masks[chosen].rot90(turns, (1, 2))
            if mirror:
                pictures, wanted = pictures.flip(3), wanted.flip(2)
            loss = loss_of(model(pictures.contiguous(memory_format=torch.channels_last)), wanted)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1} of {EPOCHS}: loss {np.mean(losses):.4f}", flush=True)


def measure(model: ShapesUNet, scenes: list[Scene]) -> float:
    """Mean IoU on scenes."""
    model.eval()
    with torch.no_grad():
        masks = torch.cat([model(batch).argmax(1) for batch in as_input(scenes).split(50)])
    return mean_iou(masks.numpy(), scenes)


def main():
    card = read_card(HERE)
    assert card["output"]["labels"] == ["background", *CLASSES]
    seed_everything(0)
    model = ShapesUNet(1 + len(CLASSES))
    print(f"shapes_unet: {sum(parameter.numel() for parameter in model.parameters())} parameters")
    train(model, render_many(TRAINING_SEED, SCENES))

    model.to(memory_format=torch.contiguous_format)
    unseen = render_many(MEASURED_SEED, 500)
    reached = measure(model, unseen)
    print(f"shapes_unet: mean IoU {reached:.4f} on {len(unseen)} scenes of seed {MEASURED_SEED}")
    assert reached >= 0.9

    write_samples(HERE, card, first=60)
    inputs = [as_input(unseen[:1])]
    export(model, HERE, "shapes_unet", inputs, other_inputs=[as_input(unseen[1:3])], tolerance=1e-4)
    save_arrays(model, HERE, inputs)


if __name__ == "__main__":
    main()
