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


@direct
def aten_fftshift(model: Model) -> None:
    for name, f in (("fftshift", torch.fft.fftshift), ("ifftshift", torch.fft.ifftshift)):
        for dtype in (torch.float32, torch.float16, torch.int64, torch.bool, torch.complex128):
            model.op(f"aten::fft_{name}", (randn(2, 5) * 3).to(dtype), f=f)
        for size, dim in (((3, 4, 5), (0, 2)), ((3, 4, 5), (-1,)), ((2, 3), (1, 1)), ((0, 3), None), ((1, 1), (0,)), ((7,), None)):
            model.op(f"aten::fft_{name}", randn(*size), f=lambda x: f(x, dim), keys=["input"], dim=dim)


@direct
def aten_fftfreq(model: Model) -> None:
    for name, f in (("fftfreq", torch.fft.fftfreq), ("rfftfreq", torch.fft.rfftfreq)):
        results = [model.op(f"aten::fft_{name}", f=lambda: f(n, d), n=n, d=d, shown=False)[0] for n, d in ((5, 1.0), (8, 0.25), (1, 3.0), (2, 1.0), (0, 1.0))]
        model.op("torch.cat", results, dim=0)
        for dtype in (torch.float64, torch.float16):
            model.op(f"aten::fft_{name}", f=lambda: f(4, dtype=dtype), n=4, dtype=dtype)
        model.op(f"aten::fft_{name}", torch.tensor(6), f=lambda n: f(int(n), 0.5), keys=["n"], d=0.5)


@exported
def centred_spectrum() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            spectrum = torch.fft.fftshift(torch.fft.fft2(x), dim=(-2, -1))
            back = torch.fft.ifft2(torch.fft.ifftshift(spectrum, dim=(-2, -1))).real
            return spectrum.abs(), back, torch.fft.fftshift(x), torch.fft.ifftshift(x, dim=1)
    return Export(Net(), randn(1, 5, 4), others=[(randn(2, 2, 3),), (randn(1, 1, 1),)])


@exported
def frequencies_of_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return torch.fft.fftfreq(n) * x, torch.fft.rfftfreq(n, 0.5, dtype=torch.float64), torch.fft.fftfreq(n, d=0.25)
    return Export(Net(), randn(5), others=[(randn(8),), (randn(1),)])


class Masked(nn.Module):
    """A mask for a spectrum, as separators and vocoders use it."""

    def __init__(self):
        super().__init__()
        self.mask = nn.Linear(9, 9)

    def forward(self, x):
        window = torch.hann_window(16)
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        masked = spectrum * torch.sigmoid(self.mask(spectrum.abs().transpose(1, 2))).transpose(1, 2)
        return torch.istft(masked, 16, 4, window=window, length=x.shape[-1])


@exported
def istft_to_a_length() -> Export:
    return Export(Masked(), randn(2, 61))


@exported
def istft_to_any_length() -> Export:
    return Export(Masked(), randn(2, 61), others=[(randn(1, 50),), (randn(3, 33),)])


@exported
def level0_istft_to_a_length() -> Export:
    return Export(Masked(), randn(1, 40), optlevel=0)


@exported
def stft_of_torchscript() -> Export:
    """Frames whose hop is a size of the input, and PyTorch's function that centres frames itself."""
    class Net(nn.Module):
        def forward(self, x):
            hop, window = x.shape[1] // 8, torch.hann_window(8)
            centred = torch.ops.aten.stft.center(x, 8, 3, None, window, True, "constant", False, None, True)
            return torch.stft(x, 8, hop, window=window, return_complex=True), torch.stft(x, 8, hop, window=window, center=False, return_complex=True), centred
    return Export(Net(), randn(2, 24))
