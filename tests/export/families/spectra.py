"""Fourier transforms and spectra of short frames."""

import torch
from torch import Tensor, nn

from case import Export, Model, direct, exported
from values import random_bools, randn, random_integers

LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
REAL_INPUT = ("rfft", "ihfft")


def inputs(name: str, *shape: int) -> list[Tensor]:
    """Real numbers of both precisions, integers, and complex numbers where the transform takes them."""
    real = [randn(*shape), randn(*shape, dtype=torch.float64), random_integers(*shape, low=-5), random_bools(*shape)]
    return real if any(name.startswith(start) for start in REAL_INPUT) else real + [
        randn(*shape, dtype=torch.complex64), randn(*shape, dtype=torch.complex128)]


@direct
def torch_fft_lines(model: Model) -> None:
    for name in LINES:
        for x in inputs(name, 2, 5, 4):
            model.op(f"torch.fft.{name}", x, dim=-1, norm=None, n=None)
        x = inputs(name, 3, 6)[-1]
        for norm in ("forward", "backward", "ortho"):
            for n in (4, 7):
                model.op(f"torch.fft.{name}", x, dim=0, norm=norm, n=n)
        model.op(f"torch.fft.{name}", randn(0, 5))
        model.op(f"torch.fft.{name}", randn(7), n=1)


@direct
def torch_fft_planes(model: Model) -> None:
    for name in LINES:
        x = inputs(name, 2, 3, 4)[-1]
        model.op(f"torch.fft.{name}2", x)
        model.op(f"torch.fft.{name}2", randn(3, 5), s=(4, 6), dim=(0, 1), norm="ortho")
        model.op(f"torch.fft.{name}2", randn(3, 4, 5), s=(-1, 3), dim=(2, 0), norm="forward")


@direct
def torch_fft_volumes(model: Model) -> None:
    for name in LINES:
        x = inputs(name, 2, 3, 4)[-1]
        model.op(f"torch.fft.{name}n", x)
        model.op(f"torch.fft.{name}n", x, dim=(1,), norm="ortho")
        model.op(f"torch.fft.{name}n", randn(2, 3, 5), s=(2, 4), dim=None, norm=None)
        model.op(f"torch.fft.{name}n", randn(2, 3, 2, 5), s=(3, 2, 4), dim=(0, 1, -1), norm="forward")


@exported
def torch_fft_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            spectrum = torch.fft.rfft(x, dim=-1)
            mixed = torch.fft.fft2(x).real
            return torch.fft.irfft(spectrum, n=8, dim=-1), mixed, torch.fft.rfftn(x, dim=(1, 2), norm="ortho").imag
    return Export(Net(), randn(1, 4, 8), others=[(randn(3, 4, 8),), (randn(2, 4, 8),)])


@direct
def torch_stft(model: Model) -> None:
    x, window = randn(2, 40), torch.hann_window(16)
    for center, mode in ((True, "reflect"), (True, "constant"), (True, "replicate"), (False, "reflect")):
        model.op("torch.stft", x, keys=["input"], named={"window": window}, n_fft=16, hop_length=5, win_length=16,
                 center=center, pad_mode=mode, normalized=center, onesided=True, return_complex=True)
    model.op("torch.stft", randn(40, dtype=torch.float64), keys=["input"],
             named={"window": torch.hamming_window(10, dtype=torch.float64)}, n_fft=16, hop_length=None,
             win_length=10, normalized=False, onesided=False, return_complex=True)
    model.op("torch.stft", randn(24, dtype=torch.complex64), keys=["input"], n_fft=8, hop_length=3, win_length=6,
             window=None, onesided=None, return_complex=True)


@direct
def torch_istft(model: Model) -> None:
    window = torch.hann_window(16)
    for one_sided, length in ((True, None), (False, 37), (True, 50)):
        spectrum = torch.stft(randn(2, 40), 16, 4, window=window, onesided=one_sided, return_complex=True)
        model.op("torch.istft", spectrum, keys=["input"], named={"window": window}, n_fft=16, hop_length=4,
                 win_length=16, center=True, normalized=False, onesided=one_sided, length=length)
    # Where frames are not centred, a window of ones leaves no place without a weight.
    spectrum = torch.stft(randn(30, dtype=torch.float64), 8, 4, window=torch.ones(8, dtype=torch.float64),
                          center=False, normalized=True, return_complex=True)
    model.op("torch.istft", spectrum, f=lambda x: torch.istft(x, 8, 4, window=torch.ones(8, dtype=torch.float64),
                                                              center=False, normalized=True),
             keys=["input"], n_fft=8, hop_length=4, center=False, normalized=True, window=None)


def spectrogram(signal: Tensor, pad: int, window: Tensor, n_fft: int, hop: int, power: float | None,
                normalized: bool | str, center: bool = True, onesided: bool = True) -> Tensor:
    """What torchaudio's documentation says, in PyTorch's own operators."""
    signal = torch.nn.functional.pad(signal, (pad, pad))
    spectrum = torch.stft(signal, n_fft, hop, len(window), window, center, "reflect", normalized == "frame_length",
                          onesided, return_complex=True)
    if normalized in (True, "window"):
        spectrum = spectrum / window.pow(2).sum().sqrt()
    return spectrum if power is None else spectrum.abs().pow(power)


@direct
def torchaudio_spectrogram(model: Model) -> None:
    window = torch.hann_window(16)
    settings = [(0, 2.0, False), (3, 1.0, True), (0, 0.5, "window"), (2, None, "frame_length")]
    for pad, power, normalized in settings:
        model.op("torchaudio.functional.spectrogram", randn(2, 48), keys=["waveform"], weights={"window": window},
                 f=lambda x: spectrogram(x, pad, window, 16, 6, power, normalized), pad=pad, n_fft=16, hop_length=6,
                 win_length=16, power=power, normalized=normalized, center=True, pad_mode="reflect", onesided=True)


@direct
def torchaudio_inverse_spectrogram(model: Model) -> None:
    window = torch.hann_window(16)
    for normalized, length in ((False, None), (True, 40), ("frame_length", None)):
        spectrum = spectrogram(randn(2, 48), 0, window, 16, 4, None, normalized)
        scale = window.pow(2).sum().sqrt() if normalized is True else 1.0
        model.op("torchaudio.functional.inverse_spectrogram", spectrum, keys=["spectrogram"],
                 f=lambda x: torch.istft(x * scale, 16, 4, window=window, normalized=normalized == "frame_length",
                                         length=length),
                 weights={"window": window}, length=length, pad=0, n_fft=16, hop_length=4, win_length=16,
                 normalized=normalized, center=True, onesided=True)
