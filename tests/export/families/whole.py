"""Whole networks, small and with random weights: a speech front end, and a detector."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import DeformConv2d, RoIAlign

from case import Export, exported
from values import randn


def mel_filters(bins: int, mels: int, rate: int) -> torch.Tensor:
    """Triangles over the bins of a spectrum, evenly spaced as the ear hears pitch; mels×bins."""
    top = 2595 * math.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, mels + 2) / 2595) - 1)
    places = torch.linspace(0, rate / 2, bins)
    rising = (places - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - places) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(rising, falling).clamp(min=0)


class Denoiser(nn.Module):
    """From a sound to its spectrum, by a mask that a small network finds in its mel bands, and back."""

    def __init__(self, n_fft: int = 256, hop: int = 64, mels: int = 24, width: int = 24):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", mel_filters(n_fft // 2 + 1, mels, 16000))
        self.before, self.rows = nn.Conv1d(mels, width, 3, padding=1), nn.GRU(width, width, batch_first=True)
        self.after = nn.Linear(width, n_fft // 2 + 1)

    def forward(self, sound):
        spectrum = torch.stft(sound, self.n_fft, self.hop, window=self.window, return_complex=True)
        bands = torch.log(torch.matmul(self.filters, spectrum.abs() ** 2) + 1e-4)
        rows, _ = self.rows(F.relu(self.before(bands)).transpose(1, 2))
        mask = torch.sigmoid(self.after(rows)).transpose(1, 2)
        return torch.istft(spectrum * mask, self.n_fft, self.hop, window=self.window, length=16000), mask


@exported
def network_denoiser() -> Export:
    seconds = torch.arange(16000) / 16000
    sound = 0.5 * torch.sin(2 * math.pi * 220 * seconds) + 0.2 * torch.sin(2 * math.pi * 1330 * seconds) + 0.05 * randn(16000)
    return Export(Denoiser(), sound[None], tolerance=1e-3)


class Detector(nn.Module):
    """Features by convolutions that look where they choose, regions of them, and what is in each and where exactly."""

    def __init__(self, width: int = 12, classes: int = 5):
        super().__init__()
        self.start = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU())
        self.places, self.weights = nn.Conv2d(width, 18, 3, padding=1), nn.Conv2d(width, 9, 3, padding=1)
        self.deformed, self.plain = DeformConv2d(width, width, 3, padding=1), DeformConv2d(width, width, 3, padding=1)
        self.regions = RoIAlign((3, 3), 0.25, 2, aligned=True)
        self.inside, self.kinds, self.edges = nn.Linear(9 * width, 24), nn.Linear(24, classes), nn.Linear(24, 4)

    def forward(self, picture, boxes):
        x = self.start(picture)
        offset = self.places(x)
        x = F.relu(self.deformed(x, offset, torch.sigmoid(self.weights(x))))
        x = F.relu(self.plain(x, offset)) + x
        inside = F.relu(self.inside(torch.flatten(self.regions(x, boxes), 1)))
        return torch.softmax(self.kinds(inside), 1), boxes[:, 1:] + self.edges(inside)


@exported
def network_detector() -> Export:
    boxes = torch.tensor([[0, 2.5, 3.0, 30.0, 41.5], [0, 10, 12, 22, 19], [1, 0, 0, 47, 63], [1, -4, 30, 12, 70]])
    return Export(Detector(), randn(2, 3, 64, 48), boxes, others=[(randn(1, 3, 40, 56), boxes[:2].contiguous())], tolerance=1e-3)
