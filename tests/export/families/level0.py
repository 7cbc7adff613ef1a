"""PNNX's output at optimisation level 0: TorchScript's operators, with constants as separate operators."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import FLOATS, rand, randn, random_integers

UNARY = ("abs acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor frac log log10 log1p neg "
         "reciprocal round rsqrt sign sin sinh sqrt square tan tanh trunc").split()
BINARY = ("add atan2 div floor_divide fmod logaddexp maximum minimum mul pow remainder sub true_divide "
          "float_power").split()


@direct
def aten_unary(model: Model) -> None:
    for dtype in FLOATS:
        inside, above = rand(4, low=-0.9, high=0.9, dtype=dtype), rand(4, low=1.1, high=3.0, dtype=dtype)
        for name in UNARY:
            positive = name in ("acosh", "log", "log10", "log1p", "reciprocal", "rsqrt", "sqrt")
            model.op(f"aten::{name}", above if positive else inside, f=getattr(torch, name))
    for name in ("abs", "neg", "sign", "square", "ceil", "sin", "exp"):
        model.op(f"aten::{name}", random_integers(4, low=-3), f=getattr(torch, name))
    for name in ("detach", "adjoint", "matrix_H"):
        model.op(f"aten::{name}", randn(3, 2), f=lambda x: x if name == "detach" else x.mH)


@direct
def aten_binary(model: Model) -> None:
    for name in BINARY:
        function = getattr(torch, name)
        model.op(f"aten::{name}", rand(2, 3, low=0.5, high=2), rand(3, low=0.5, high=2), f=function)
        model.op(f"aten::{name}", rand(3, low=0.5, high=2, dtype=torch.float64), torch.tensor(1.5), f=function)
        if name != "logaddexp":
            model.op(f"aten::{name}", random_integers(3, low=1), random_integers(3, low=1), f=function)
        if name not in ("atan2", "logaddexp", "maximum", "minimum"):
            other = "exponent" if name in ("pow", "float_power") else "other"
            model.op(f"aten::{name}", rand(3, low=0.5, high=2), f=lambda x: function(x, 2), **{other: 2})
    x, y = random_integers(2, 3), random_integers(3)
    for name, function in (("and", torch.bitwise_and), ("or", torch.bitwise_or), ("xor", torch.bitwise_xor),
                           ("lshift", torch.bitwise_left_shift), ("rshift", torch.bitwise_right_shift)):
        model.op(f"aten::__{name}__", x, y, f=function)
    model.op("aten::rsub", randn(3), randn(3), f=lambda x, y: torch.rsub(x, y, alpha=2), alpha=2)
    model.op("aten::addcmul", randn(2, 3), randn(3), randn(2, 1), f=lambda *x: torch.addcmul(*x, value=0.5), value=0.5)
    model.op("aten::addcdiv", randn(2, 3), randn(3), rand(2, 1, low=1, high=2), f=torch.addcdiv)
    model.op("aten::lerp", randn(3), randn(3), f=lambda x, y: torch.lerp(x, y, 0.25), weight=0.25)
    model.op("aten::ger", randn(3), randn(2), f=torch.outer)
    model.op("aten::copy", randn(2, 3), random_integers(3), f=lambda x, y: x.clone().copy_(y))
    model.op("aten::zero", randn(2, 3), f=torch.zeros_like)
    model.op("aten::isinf", torch.tensor([1.0, float("inf"), float("nan")]), f=torch.isinf)
    for name in ("sum", "mean"):
        model.op(f"aten::{name}", randn(2, 3), f=lambda x: getattr(torch, name)(x, 1), dim=(1,))
        model.op(f"aten::{name}", randn(2, 3), f=getattr(torch, name))
    for name in ("max", "min"):
        model.op(f"aten::{name}", randn(2, 3), f=getattr(torch, name))
        model.op(f"aten::{name}", randn(2, 3), randn(3), f=getattr(torch, name))
    model.op("aten::moveaxis", randn(2, 3, 4), f=lambda x: torch.moveaxis(x, 0, 2), source=(0,), destination=(2,))
    for name in ("atleast_1d", "atleast_3d"):
        model.op(f"aten::{name}", randn(2), f=getattr(torch, name))


@direct
def aten_numbers(model: Model) -> None:
    x = randn(2, 3)
    model.op("aten::size", x, f=lambda x: torch.tensor(x.shape[1]), dim=1)
    model.op("Tensor.size", x, f=lambda x: torch.tensor(x.shape[0]), dim=0)
    model.op("aten::Int", torch.tensor(2.75), f=lambda x: x.long())
    model.op("aten::Float", torch.tensor(3), f=lambda x: x.double())
    model.op("aten::Bool", torch.tensor(3), f=lambda x: x.bool())
    model.op("aten::ScalarImplicit", torch.tensor(3), f=lambda x: x)
    model.op("prim::NumToTensor", torch.tensor(7), f=lambda x: x)
    model.op("aten::dim", x, f=lambda x: torch.tensor(x.dim()))
    model.op("aten::item", torch.tensor(2.5), f=lambda x: x)
    for numbers in ((7, 2), (-7, 2), (7.5, 2.0)):
        a, b = map(torch.tensor, numbers)
        model.op("aten::floordiv", a, b, f=torch.floor_divide)
        model.op("prim::max", a, b, f=torch.maximum)
        model.op("prim::min", a, b, f=torch.minimum)
    model.op("aten::to", x, f=lambda x: x.long(), dtype=torch.int64)


@direct
def methods_of_tensors(model: Model) -> None:
    x, y = random_integers(2, 3), random_integers(3)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        model.op(f"Tensor.{name}", x, y)
        model.op(f"Tensor.{name}", randn(2, 3), f=lambda x: getattr(torch, name)(x, 0.5), other=0.5)
    model.op("Tensor.as_strided", randn(4, 6), f=lambda x: x.as_strided((3, 2), (6, 2), 1), size=(3, 2), stride=(6, 2),
             storage_offset=1)
    model.op("Tensor.copy", randn(2, 3), randn(3), keys=["self", "src"], f=lambda x, y: x.clone().copy_(y))
    index = torch.tensor([2, 0])
    for space in ("torch", "Tensor"):
        model.op(f"{space}.index_fill", randn(2, 3), f=lambda x, index: x.index_fill(1, index, 0.5),
                 named={"index": index}, dim=1, value=0.5)
        model.op(f"{space}.index_add", randn(2, 3), f=lambda x, index, source: x.index_add(1, index, source, alpha=2),
                 named={"index": index, "source": randn(2, 2)}, dim=1, alpha=2)


@exported
def level0_arithmetic() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            a = torch.add(x, y, alpha=2) - 3 * x
            b = torch.rsub(x, 1.5) / torch.sub(y, 0.5, alpha=2)
            c = torch.div(x, 0.3, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc")
            d = torch.round(x, decimals=1), x ** 2, 2 ** x, x.clamp(min=0.1).sqrt(), x % 0.7, x // 0.3
            return a, b, c, d, x.sum(1), x.mean((0, 2), keepdim=True), x.max(), torch.max(x, y), x.min(dim=1)
    return Export(Net(), randn(2, 3, 4), randn(4), optlevel=0)


@exported
def level0_network() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.fc = nn.Linear(4, 5)

        def forward(self, x):
            x = torch.relu(self.norm(self.conv(x)))
            parts = torch.chunk(x, 2, dim=1)
            x = torch.cat([parts[1], parts[0] * 2], dim=1)
            x = torch.nn.functional.adaptive_avg_pool2d(x, 1)
            x = x.reshape(x.size(0), -1)
            return torch.softmax(self.fc(x)[:, 1:4:2], dim=-1), torch.moveaxis(x, 0, 1)
    return Export(Net(), randn(2, 3, 6, 6), optlevel=0)


@exported
def level0_modules_called_twice() -> Export:
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))

        def forward(self, x):
            return x * self.weight + self.bias

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.fc, self.attend = Scale(), nn.Linear(4, 4), nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            x = self.fc(torch.tanh(self.fc(self.scale(self.scale(x))))) + self.fc.bias
            attended, weights = self.attend(x, x, x)
            return attended, weights, self.attend(x, x, x, need_weights=False)[0]
    return Export(Net(), randn(2, 3, 4), others=[(randn(1, 3, 4),)], optlevel=0)


@exported
def level0_scripted() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

        def forward(self, x):
            assert x.dim() == 2, "expected a matrix, got something else"
            if x.size(1) % 2 != 0:
                raise ValueError("odd")
            kept = [x]
            for layer in self.layers:
                x = layer(x)
                kept.append(x)
            n, half = x.shape[0], x.shape[1] // 2
            y = torch.cat(kept, 1) * len(kept) + kept[-1].repeat(1, 3) * x.dim()
            z = x.view(n, half, 2) * min(n, 3) - max(half, 3) + x.sum().item()
            left = x.chunk(2, dim=1)[0], x.split([1, 3], dim=1)[1], x.split(3, dim=1)[-1]
            return y, z, left, x.to(kept[0].dtype) * len(x.shape), torch.zeros(n, half, dtype=x.dtype, device=x.device)
    return Export(Net(), randn(3, 4), others=[(randn(5, 4),)], optlevel=0, scripted=True)


@exported
def scripted_lists() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            assert x.dim() == 2, "expected a matrix"
            first = x.chunk(2, dim=1)[0]
            return first, x.split([1, 3], dim=1)[-1], x[:, :x.size(1) // 2], x * x.sum().item()
    return Export(Net(), randn(2, 4), scripted=True)


@exported
def level0_quantized() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            q = torch.quantize_per_tensor(x, 0.05, 100, torch.quint8)
            a, b = torch.split(q[:, :2], 1, dim=1)
            total = torch.ops.quantized.add(torch.relu(a), b, 0.07, 90)
            return [t.dequantize() for t in (total, torch.stack([a, b], dim=1), torch.cat([total, b], dim=1), a.mean(1))]
    return Export(Net(), randn(2, 3), optlevel=0)


@exported
def level1_sizes() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            n, c = x.shape[0], x.shape[1]
            y = x.view(n, c // 2, 2, -1).transpose(1, 2).reshape(n, c, -1)
            return y + torch.arange(c).view(1, c, 1), x.new_zeros(n, 2), x[:, :c // 2]
    return Export(Net(), randn(2, 4, 3), others=[(randn(3, 4, 5),), (randn(1, 4, 2),)], optlevel=1)


@exported
def indices_of_one_element_level1() -> Export:
    """PNNX writes an index of one element as a number."""
    class Net(nn.Module):
        def forward(self, x):
            y = x.clone()
            y[:, [-1]] = x[:, [0]]
            return x[:, [-1], None], x[[1]], x[[0], :, [2, 1]], y, x[:, :, [1]], x[:1][torch.tensor([True])], x[:1][torch.tensor([False])]
    return Export(Net(), randn(3, 4, 5), optlevel=1)
