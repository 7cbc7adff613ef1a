"""Trains `shapes_unet` on rendered scenes, then exports it with samples to look at."""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export_common import export, read_card, save_arrays, seed_everything  # noqa: E402
from metrics import mean_iou  # noqa: E402
from network import ShapesUNet  # noqa: E402
from scenes import CLASSES, FIRST_UNSEEN_SEED, Scene, render  # noqa: E402

SIZE = 128
SCENES = 3000
EPOCHS = 4
BATCH = 8
TRAINING_SEED = 2
MEASURED_SEED = FIRST_UNSEEN_SEED + 1


def as_input(scenes: list[Scene]) -> Tensor:
    """f32 N×3×128×128 in 0..1."""
    return torch.from_numpy(np.stack([scene.pixels for scene in scenes])).permute(0, 3, 1, 2).float() / 255


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


def write_samples(card: dict) -> None:
    """Writes `samples/0.png` … from scenes that no training saw."""
    assert card["input"]["size"] == [SIZE, SIZE] and card["input"]["fit"] == "letterbox"
    (HERE / "samples").mkdir(exist_ok=True)
    for index, (width, height) in enumerate(((128, 128), (192, 128), (128, 192), (128, 128))):
        Image.fromarray(render(FIRST_UNSEEN_SEED, index + 60, width, height).pixels).save(HERE / "samples" / f"{index}.png")


def main():
    card = read_card(HERE)
    assert card["output"]["labels"] == ["background", *CLASSES]
    seed_everything(0)
    model = ShapesUNet(1 + len(CLASSES))
    print(f"shapes_unet: {sum(parameter.numel() for parameter in model.parameters())} parameters")
    train(model, [render(TRAINING_SEED, index, SIZE, SIZE) for index in range(SCENES)])

    model.to(memory_format=torch.contiguous_format)
    unseen = [render(MEASURED_SEED, index, SIZE, SIZE) for index in range(500)]
    reached = measure(model, unseen)
    print(f"shapes_unet: mean IoU {reached:.4f} on {len(unseen)} scenes of seed {MEASURED_SEED}")
    assert reached >= 0.9

    write_samples(card)
    inputs = [as_input(unseen[:1])]
    export(model, HERE, "shapes_unet", inputs, other_inputs=[as_input(unseen[1:3])], tolerance=1e-4)
    save_arrays(model, HERE, inputs)


if __name__ == "__main__":
    main()
