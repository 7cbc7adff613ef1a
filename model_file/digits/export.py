"""Trains `digits` on scikit-learn's digits, then exports it with samples to look at and the whole test split."""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from export_common import export, read_card, run, save_arrays, seed_everything  # noqa: E402
from network import DigitsNet  # noqa: E402

WHITE = 16  # the data set counts the set pixels of 4×4 blocks
CALIBRATION = 128  # pictures of the training split to calibrate int8 with
ZOOM = 16  # a sample of 128×128 pixels shows each of the 8×8 as a square of 16×16
EPOCHS = 60
BATCH = 64


def load_split():
    """Three quarters to train on, one quarter to test; u8 N×8×8 holding 0..16 and u8 N holding 0..9."""
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    return train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)


def as_input(images: np.ndarray) -> Tensor:
    """u8 N×8×8 holding 0..16 → f32 N×1×8×8 in 0..1."""
    return torch.from_numpy(images).unsqueeze(1).float() / WHITE


def augment(x: Tensor) -> Tensor:
    """Moves every picture by up to one pixel in each direction and adds a little noise."""
    padded = nn.functional.pad(x, (1, 1, 1, 1))
    shifts = torch.randint(0, 3, (len(x), 2)).tolist()
    moved = torch.stack([picture[:, dy:dy + 8, dx:dx + 8] for picture, (dy, dx) in zip(padded, shifts)])
    return (moved + 0.05 * torch.randn_like(moved)).clamp(0, 1)


def train(model: nn.Module, x: Tensor, labels: Tensor) -> None:
    """A fixed schedule, and the weights at its end: the test split takes no part in choosing them."""
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    model.train()
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss_of(model(augment(x[chosen])), labels[chosen]).backward()
            optimizer.step()
            schedule.step()


def accuracy(model: nn.Module, x: Tensor, labels: np.ndarray) -> float:
    """The part of `x` whose greatest logit is that of its label."""
    (logits,) = run(model, [x])
    return (logits.argmax(1).numpy() == labels).mean()


def write_samples(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> None:
    """Writes `samples/0.png` … `9.png`: of each digit the test picture that the model is surest of, and right."""
    (logits,) = run(model, [as_input(images)])
    probabilities = logits.softmax(1).numpy()
    (HERE / "samples").mkdir(exist_ok=True)
    for digit in range(10):
        best = np.where(labels == digit, probabilities[:, digit], 0).argmax()
        assert probabilities[best].argmax() == digit and probabilities[best, digit] > 0.9
        grey = np.rint(images[best] * (255 / WHITE)).astype(np.uint8)
        Image.fromarray(np.kron(grey, np.ones((ZOOM, ZOOM), np.uint8))).save(HERE / "samples" / f"{digit}.png")


def write_calibration(train_images: np.ndarray) -> None:
    """Writes `calibration/0.npy`: the first pictures of the training split, as the model takes them."""
    (HERE / "calibration").mkdir(exist_ok=True)
    np.save(HERE / "calibration" / "0.npy", as_input(train_images[:CALIBRATION]).numpy())


def read_samples(card: dict) -> Tensor:
    """What `model.toml` says a runtime makes of the ten samples: f32 10×1×8×8."""
    rule = card["input"]
    assert rule["size"] == [8, 8] and rule["filter"] == "area" and rule["fit"] == "stretch"
    pixels = np.stack([np.asarray(Image.open(HERE / "samples" / f"{digit}.png")) for digit in range(10)])
    averages = pixels.reshape(10, 8, ZOOM, 8, ZOOM).mean((2, 4))
    x = (averages * rule["scale"] - rule["mean"][0]) / rule["std"][0]
    return torch.from_numpy(x).unsqueeze(1).float()


def main():
    card = read_card(HERE)
    seed_everything(0)
    train_images, test_images, train_labels, test_labels = load_split()
    model = DigitsNet()
    train(model, as_input(train_images), torch.from_numpy(train_labels).long())

    reached = accuracy(model, as_input(test_images), test_labels)
    print(f"digits: {reached:.4%} of {len(test_labels)} test pictures right")
    assert reached >= 0.99

    np.savez(HERE / "test.npz", images=test_images, labels=test_labels)
    write_calibration(train_images)
    write_samples(model, test_images, test_labels)
    inputs = [read_samples(card)]
    export(model, HERE, "digits", inputs, other_inputs=[inputs[0][:3]])
    (logits,) = save_arrays(model, HERE, inputs)
    assert logits.argmax(1).tolist() == list(range(10))


if __name__ == "__main__":
    main()
