"""Quantised tensors: what PNNX exports, and by hand what it exported from older versions of PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.nn.intrinsic import quantized as fused
from torch.ao.nn import quantized

from case import Export, Model, direct, exported
from modules import Each, export_each
from values import randn

torch.backends.quantized.engine = "onednn" if "onednn" in torch.backends.quantized.supported_engines else "fbgemm"


def q8(x, scale=0.037, zero_point=113):
    return torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)


def both_types(x):
    signed = torch.quantize_per_tensor(x, 0.021, -5, torch.qint8)
    return q8(x).dequantize(), signed.dequantize(), signed.int_repr(), q8(x).int_repr()


export_each("quantize_and_dequantize", lambda: Export(Each(both_types), randn(2, 3, 5), others=[(randn(1, 3, 70),), (randn(3, 1, 1),)]))


@exported
def quantize_per_channel() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales, self.zeros = torch.tensor([0.01, 0.02, 0.037]), torch.tensor([0, 7, -9])

        def forward(self, x):
            return torch.quantize_per_channel(x, self.scales, self.zeros, 1, torch.qint8).dequantize()
    return Export(Net(), randn(2, 3, 4))


@exported
def fake_quantize() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            scales, zeros = torch.tensor([0.01, 0.02, 0.037]), torch.tensor([0, 7, 9], dtype=torch.int32)
            return (torch.fake_quantize_per_tensor_affine(x, 0.013, 100, 0, 255),
                    torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -128, 127))
    return Export(Net(), randn(2, 3, 4))


@exported
def quantized_arithmetic() -> Export:
    def compute(x, y):
        a, b = q8(x), q8(y, 0.023, 90)
        total, product = torch.ops.quantized.add(a, b, 0.051, 120), torch.ops.quantized.mul(a, b, 0.043, 61)
        joined = torch.ops.quantized.cat([total, b, product], 1, 0.047, 101)
        plain = torch.cat([torch.relu(total), torch.ops.quantized.add_relu(a, b, 0.029, 3)], 1)
        return tuple(t.dequantize() for t in (total, product, joined, plain, torch.ops.quantized.mul_relu(a, b, 0.031, 0)))
    return Export(Each(compute), randn(2, 3, 4), randn(2, 3, 4), others=[(randn(1, 3, 9), randn(1, 3, 9))])


@exported
def quantized_activations() -> Export:
    def compute(x):
        q, ops = q8(x), torch.ops.quantized
        results = [F.relu(q), F.relu6(q), torch.clamp(q, -0.71, 1.13), F.hardtanh(q), torch.sigmoid(q), torch.tanh(q), F.hardsigmoid(q),
                   ops.hardswish(q, 0.029, 33), ops.leaky_relu(q, 0.17, False, 0.033, 71), ops.elu(q, 0.031, 47, 1.0), ops.sigmoid(q, 1 / 256, 0),
                   F.leaky_relu(q, 0.23)]
        return tuple(t.dequantize() for t in results)
    return Export(Each(compute), randn(3, 5, 7))


@exported
def quantized_means() -> Export:
    """PyTorch uses integers over the last axes and floats over others, which rounds ties differently."""
    def compute(x):
        results = []
        for q in (q8(x, 0.1, 93), torch.quantize_per_tensor(x, 0.037, 7, torch.qint8)):
            results += [torch.mean(q), torch.mean(q, -1), torch.mean(q, (1, 2), keepdim=True), torch.mean(q, 0), torch.mean(q, (0, 1)), torch.mean(q, 1),
                        torch.std(q, 1)]
        return tuple(t.dequantize() for t in results)
    # Of odd numbers of elements there are no halves, which floats round by the order of their sum.
    return Export(Each(compute), randn(7, 5, 8), others=[(randn(3, 5, 6),)])


@exported
def quantized_orders_and_shapes() -> Export:
    def compute(x):
        q = q8(x)
        moved = [torch.sort(q, 1)[0], torch.topk(q, 2, 1)[0], torch.max(q, 1)[0], F.pad(q, (1, 2)), F.pad(q, (1, 2), mode="reflect"), torch.stack([q, q]), F.gelu(q),
                 q[torch.tensor([1, 0])], q.reshape(x.size(0) * q.size(1), -1), torch.min(q)]
        return *(t.dequantize() for t in moved), q < 0.3, q >= q8(x.flip(0)), q == q8(x.flip(0), 0.021, 100), torch.topk(q, 1, 1)[1]
    return Export(Each(compute), randn(3, 4, 5), others=[(randn(2, 4, 7),)])


@exported
def quantized_in_32_bits() -> Export:
    def compute(x):
        q = torch.quantize_per_tensor(x, 0.001, 3, torch.qint32)
        results = [q, torch.sigmoid(q), torch.tanh(q), torch.relu(q), F.max_pool1d(q, 2), torch.mean(q, 0)]
        return tuple(t.dequantize() for t in results)
    return Export(Each(compute), randn(3, 4, 5))


@exported
def channels_of_scales_are_moved() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales, self.zeros = torch.tensor([0.01, 0.02, 0.037]), torch.tensor([0, 7, -9])

        def forward(self, x):
            q = torch.quantize_per_channel(x, self.scales, self.zeros, 1, torch.qint8)
            moved = [q[:1], q[0], q[..., 1:3], q[1, :, 1:], q.flatten(2), q.unsqueeze(0), q.split(1, 3)[1], q.unbind(0)[1], q.view(2, 3, 2, 10)]
            return tuple(t.dequantize() for t in moved)
    return Export(Net(), randn(2, 3, 4, 5))


@exported
def quantized_pools_and_views() -> Export:
    def compute(x):
        q = q8(x)
        pooled = F.max_pool2d(q, 3, 2, 1)
        means = F.adaptive_avg_pool2d(q, (2, 3)), F.avg_pool2d(q, (2, 3), 2), F.adaptive_avg_pool2d(pooled, 1)
        moved = torch.flatten(pooled.permute(0, 2, 3, 1), 2), pooled[:, 1:].reshape(x.size(0), -1)
        return tuple(t.dequantize() for t in (pooled, *means, *moved))
    return Export(Each(compute), randn(2, 3, 8, 6), others=[(randn(1, 3, 11, 7),)])


@direct
def fake_quantize_oddities(model: Model) -> None:
    """Scales that are not above zero, zero points that are not whole, NaN and double precision."""
    tensor, channel = "aten::fake_quantize_per_tensor_affine", "aten::fake_quantize_per_channel_affine"
    x = torch.cat([randn(5), torch.tensor([float("nan"), 0.5, 1.5, -9.0, 9.0])])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for scale in (0.5, -0.25, 0.0, float("nan"), 1 / 3):
            model.op(tensor, x.to(dtype), keys=["input"], f=lambda x: torch.fake_quantize_per_tensor_affine(x, scale, 1, -2, 3), scale=scale, zero_point=1,
                     quant_min=-2, quant_max=3)
        for zeros in (torch.tensor([1, 0], dtype=torch.int32), torch.tensor([1.6, 9.0])):
            model.op(channel, x.to(dtype).reshape(5, 2), torch.tensor([0.3, 0.25]), zeros, keys=["input", "scale", "zero_point"],
                     f=lambda x, scales, zeros: torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, 0, 11), axis=1, quant_min=0, quant_max=11)
    near = torch.tensor([0.5 + 1e-12, 1.5 - 1e-12], dtype=torch.float64)
    model.op(tensor, near, keys=["input"], f=lambda x: torch.fake_quantize_per_tensor_affine(x, 1.0, 0, -5, 5), scale=1.0, zero_point=0, quant_min=-5, quant_max=5)


# What PyTorch gives a model that it quantises after training: weights of each output have a scale of their own.
def weights_of(weight: torch.Tensor) -> torch.Tensor:
    scales = weight.flatten(1).abs().amax(1).double() / 127
    return torch.quantize_per_channel(weight, scales, torch.zeros(len(scales), dtype=torch.long), 0, torch.qint8)


def call(model: Model, op_type: str, module, x: torch.Tensor, input_scale: float, input_zero: int, **params):
    """A module that works on a quantised tensor, whose whole numbers are `x`."""
    def compute(whole):
        return module(torch._make_per_tensor_quantized_tensor(whole, input_scale, input_zero)).int_repr()
    weight = module.weight()
    weights = {"weight": weight.int_repr(), "weight.q_per_channel_scales": weight.q_per_channel_scales(),
               "weight.q_per_channel_zero_points": weight.q_per_channel_zero_points(), "bias": module.bias().detach()}
    return model.op(op_type, x, f=compute, weights=weights, scale=module.scale, zero_point=module.zero_point, **params)[0]


def start(model: Model, x: torch.Tensor, scale: float = 0.031, zero: int = 127) -> torch.Tensor:
    def compute(x):
        return torch.quantize_per_tensor(x, scale, zero, torch.quint8).int_repr()
    return model.op("torch.quantize_per_tensor", x, f=compute, keys=["input"], scale=scale, zero_point=zero, dtype="torch.quint8")[0]


@direct
def quantized_convolutions(model: Model) -> None:
    whole = start(model, randn(2, 4, 9, 7))
    for made, op_type in ((quantized.Conv2d, "nn.quantized.Conv2d"), (fused.ConvReLU2d, "nn.intrinsic.quantized.ConvReLU2d")):
        for settings in (dict(out_channels=6, kernel_size=3), dict(out_channels=3, kernel_size=1, stride=2), dict(
                out_channels=8, kernel_size=(3, 2), padding=(1, 0), dilation=(2, 1), groups=2), dict(out_channels=4, kernel_size=3, padding=2, groups=4)):
            module = made(4, **settings)
            shape = (settings["out_channels"], 4 // settings.get("groups", 1), *module.kernel_size)
            module.set_weight_bias(weights_of(randn(*shape)), randn(settings["out_channels"]))
            module.scale, module.zero_point = 0.083, 101
            params = {key: getattr(module, key) for key in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")}
            call(model, op_type, module, whole, 0.031, 127, bias=True, padding_mode="zeros", **params)


@direct
def quantized_linear_maps(model: Model) -> None:
    whole = start(model, randn(5, 12))
    for made, op_type in ((quantized.Linear, "nn.quantized.Linear"), (fused.LinearReLU, "nn.intrinsic.quantized.LinearReLU")):
        module = made(12, 7)
        module.set_weight_bias(weights_of(randn(7, 12)), randn(7))
        module.scale, module.zero_point = 0.071, 93
        call(model, op_type, module, whole, 0.031, 127, in_features=12, out_features=7)


@direct
def quantized_modules(model: Model) -> None:
    """PNNX says `torch.qint8` of every module that quantises; the recorded type is right."""
    def restore(whole, scale=0.031, zero=127):
        return torch._make_per_tensor_quantized_tensor(whole, scale, zero).dequantize()
    x = randn(3, 4)
    whole = model.op("nn.quantized.Quantize", x, f=lambda x: q8(x, 0.031, 127).int_repr(), scale=0.031, zero_point=127, dtype="torch.qint8")[0]
    model.op("nn.quantized.DeQuantize", whole, f=restore)
    signed = model.op("nn.quantized.Quantize", x, f=lambda x: torch.quantize_per_tensor(x, 0.02, -3, torch.qint8).int_repr(),
                      scale=0.02, zero_point=-3, dtype="torch.qint8")[0]
    model.op("torch.dequantize", signed, f=lambda whole: restore(whole, 0.02, -3))
