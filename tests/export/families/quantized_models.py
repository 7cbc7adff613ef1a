"""Models that state how they are quantised, by fake quantisation or by operators that quantise and dequantise."""

import numpy as np
import torch
import torch.nn.functional as F
from onnx import TensorProto
from torch import nn
from torch.ao import quantization
from torch.ao.quantization.quantize_fx import prepare_qat_fx

from case import Export, exported
from onnx_case import Onnx, from_onnx
from values import randn

# The last results may be rounded to the next step.
STEP = 0.05


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.second_norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.third, self.last = nn.Conv2d(8, 12, 3, stride=2), nn.Linear(12, 5)

    def forward(self, x):
        x = F.relu(self.first_norm(self.first(x)))
        x = F.relu(x + self.second_norm(self.second(x)))
        x = F.relu(self.third(F.max_pool2d(x, 2)))
        return self.last(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def trained(reduce_range: bool) -> Export:
    """As `prepare_qat_fx` prepares a model, with activations of 7 bits, if the range is reduced, or of 8 bits, with any zero point."""
    activation = quantization.FakeQuantize.with_args(observer=quantization.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=torch.quint8,
                                                     qscheme=torch.per_tensor_affine, reduce_range=reduce_range)
    weight = quantization.FakeQuantize.with_args(observer=quantization.MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127,
                                                 dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
    mapping = quantization.QConfigMapping().set_global(quantization.QConfig(activation=activation, weight=weight))
    prepared = prepare_qat_fx(Residual().train(), mapping, (randn(1, 3, 12, 12),))
    for _ in range(4):
        prepared(randn(4, 3, 12, 12))
    prepared.eval().apply(quantization.disable_observer)
    return Export(prepared, randn(2, 3, 12, 12), tolerance=STEP)


@exported
def quantized_in_training() -> Export:
    """PyTorch's ranges for x86."""
    return trained(reduce_range=True)


@exported
def quantized_in_training_in_8_bits() -> Export:
    """PyTorch's ranges for Arm."""
    return trained(reduce_range=False)


class Pair(nn.Module):
    """Rounds to the steps of int8, by the largest number of the first tensor that it sees."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype, self.zero_point, self.scale = dtype, 128 if dtype == torch.quint8 else 0, None

    def steps(self, x) -> tuple[float, int]:
        return x.abs().max().item() / 127, self.zero_point

    def forward(self, x):
        if self.scale is None:
            self.scale, self.zero_point = self.steps(x)
        return torch.quantize_per_tensor(x, self.scale, self.zero_point, self.dtype).dequantize()


class AffinePair(Pair):
    """Rounds to 256 steps, from the smallest to the largest number of the first tensor that it sees."""

    def steps(self, x) -> tuple[float, int]:
        least, most = min(x.min().item(), 0), max(x.max().item(), 0)
        scale = (most - least) / 255
        return scale, round(-least / scale) - (128 if self.dtype == torch.qint8 else 0)


@torch.no_grad()
def round_weights(layer: nn.Module) -> None:
    scales = layer.weight.flatten(1).abs().amax(1) / torch.linspace(40, 127, len(layer.weight)).round()
    scales = scales.reshape(-1, *[1] * (layer.weight.dim() - 1))
    layer.weight.copy_((layer.weight / scales).round() * scales)


class Paired(Residual):
    """Weights are whole multiples of a scale for each channel, one of which is not the largest over 127."""

    def __init__(self, pair=Pair):
        super().__init__()
        self.pairs = nn.ModuleList(pair(torch.quint8 if index % 2 else torch.qint8) for index in range(7))
        for layer in (self.first, self.second, self.third, self.last):
            round_weights(layer)

    def forward(self, x):
        pair = self.pairs
        x = pair[1](F.relu(self.first(pair[0](x))))
        x = pair[3](F.relu(x + pair[2](self.second(x))))
        x = pair[4](F.relu(self.third(F.max_pool2d(x, 2))))
        return pair[6](self.last(torch.flatten(pair[5](F.adaptive_avg_pool2d(x, 1)), 1)))


def paired(module: nn.Module, *shape: int) -> Export:
    with torch.no_grad():
        module.eval()(randn(4, *shape))
    return Export(module, randn(2, *shape), tolerance=STEP)


@exported
def quantized_in_pairs() -> Export:
    return paired(Paired(), 3, 12, 12)


@exported
def quantized_in_affine_pairs() -> Export:
    return paired(Paired(AffinePair), 3, 12, 12)


class Perceptron(nn.Module):
    """Linear layers, activation functions and joined tensors, whose numbers have any zero points."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(10, 12), nn.Linear(12, 12), nn.Linear(24, 4)
        self.pairs = nn.ModuleList(AffinePair(torch.quint8) for _ in range(5))
        for layer in (self.first, self.second, self.last):
            round_weights(layer)

    def forward(self, x):
        pair = self.pairs
        x = pair[1](self.first(pair[0](x)))
        y = pair[2](self.second(x))
        both = pair[3](torch.cat([F.silu(x), torch.tanh(y).flip(1)], 1))
        return pair[4](self.last(both))


@exported
def quantized_perceptron() -> Export:
    return paired(Perceptron(), 10)


@from_onnx
def onnx_quantized_in_pairs(m: Onnx) -> None:
    """Symmetric, with weights in int8. Of a zero point of one element, PNNX only says `None`, so there are none."""
    m.tolerance = 1.2 * STEP
    m.opset = 21

    def pair(x: str, scale: float) -> tuple[str, str]:
        step = m.constant(np.float32(scale))
        return m.hidden("QuantizeLinear", x, step, output_dtype=TensorProto.INT8), step

    def rounded(x: str, scale: float) -> str:
        return m.hidden("DequantizeLinear", *pair(x, scale))

    def weight(*shape: int) -> str:
        scales = np.linspace(0.001, 0.003, shape[0], dtype=np.float32)
        values = np.clip(np.round(randn(*shape).numpy() * 40), -128, 127).astype(np.int8)
        zeros = np.zeros(shape[0], np.int8)
        return m.hidden("DequantizeLinear", m.constant(values), m.constant(scales), m.constant(zeros), axis=0)

    x = rounded(m.input(randn(1, 3, 12, 12).numpy()), 0.03)
    first = rounded(m.hidden("Relu", m.hidden("Conv", x, weight(8, 3, 3, 3), m.constant(randn(8).numpy()), pads=[1, 1, 1, 1])), 0.02)
    second = rounded(m.hidden("Conv", first, weight(8, 8, 3, 3), pads=[1, 1, 1, 1]), 0.03)
    x = rounded(m.hidden("Relu", m.hidden("Add", first, second)), 0.04)
    x = m.hidden("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = rounded(m.hidden("Relu", m.hidden("Conv", x, weight(12, 8, 3, 3), strides=[2, 2])), 0.05)
    x = rounded(m.hidden("Flatten", m.hidden("GlobalAveragePool", x)), 0.02)
    x = m.hidden("Gemm", x, weight(5, 12), m.constant(randn(5).numpy()), transB=1)
    m("DequantizeLinear", *pair(x, STEP))
