"""Activation functions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case import Export, Model, direct
from modules import Each, export_each, scrambled
from values import COMPLEX, FLOATS, INTEGERS, rand, randn, random_bools, random_integers, special

# Module, function, and settings: {} leaves out what has a default, and numbers come as integers and as floats.
PLAIN = [
    ("ReLU", "relu", [{}]),
    ("ReLU6", "relu6", [{}]),
    ("Sigmoid", "sigmoid", [{}]),
    ("SiLU", "silu", [{}]),
    ("Tanh", "tanh", [{}]),
    ("Hardsigmoid", "hardsigmoid", [{}]),
    ("Hardswish", "hardswish", [{}]),
    ("LeakyReLU", "leaky_relu", [{}, {"negative_slope": 0.3}, {"negative_slope": 0}, {"negative_slope": -0.5}]),
    ("RReLU", "rrelu", [{}, {"lower": 0.1, "upper": 0.7}, {"lower": 0, "upper": 1}, {"lower": 0.4, "upper": 0.4}]),
    ("Threshold", "threshold", [{"threshold": 0.1, "value": 20}, {"threshold": 1, "value": -0.5}]),
    ("ELU", "elu", [{}, {"alpha": 2}, {"alpha": -0.6}, {"alpha": 0}]),
    ("CELU", "celu", [{}, {"alpha": 2}, {"alpha": 0.5}, {"alpha": -1.5}]),
    ("SELU", "selu", [{}]),
    ("Softplus", "softplus", [{}, {"beta": 2}, {"beta": 0.7, "threshold": 1.5}, {"beta": -0.7, "threshold": 0.3}]),
    ("Softsign", "softsign", [{}]),
    ("Softshrink", "softshrink", [{}, {"lambd": 0}, {"lambd": 1.25}]),
    ("Hardshrink", "hardshrink", [{}, {"lambd": 0}, {"lambd": 1.25}, {"lambd": -1.0}]),
    ("Tanhshrink", "tanhshrink", [{}]),
    ("Hardtanh", "hardtanh", [{}, {"min_val": -0.2, "max_val": 2}, {"min_val": 0, "max_val": 0.5}]),
    ("GELU", "gelu", [{}, {"approximate": "tanh"}, {"approximate": "none"}]),
    ("Mish", "mish", [{}]),
    ("LogSigmoid", "logsigmoid", [{}]),
]
# These take integers: either they stay integers, or become f32.
STAY_INTEGERS = {"relu", "relu6", "hardtanh", "threshold"}
BECOME_FLOATS = {"sigmoid", "tanh", "softsign", "tanhshrink"}
TAKE_BOOLS = {"sigmoid", "tanh"}
TAKE_COMPLEX = {"sigmoid", "tanh", "silu", "softsign", "tanhshrink"}


def integer_settings(settings: dict) -> dict:
    return {key: round(value) for key, value in settings.items()}


def fill(model: Model, module: str, function: str, variants: list[dict]) -> None:
    module, function = f"nn.{module}", f"F.{function}"
    short = function.removeprefix("F.")
    for settings in variants:
        model.op(module, randn(2, 3) * 2, **settings)
        model.op(function, special_for(short), **settings)
    settings = variants[-1]
    model.op(function, special_for(short, torch.float64), **settings)
    model.op(function, torch.tensor([-88.5, -30.0, -1e-5, 1e-5, 30.0, 88.5, 104.0]), **settings)
    model.op(module, torch.tensor(-0.75), **settings)
    model.op(function, randn(2, 0, 3, dtype=torch.float64), **settings)
    model.op(module, randn(1, 2, 1, 2, 1, 2, 1, 1), **settings)
    whole = integer_settings(variants[0])
    for dtype in INTEGERS if short in STAY_INTEGERS | BECOME_FLOATS else []:
        model.op(function, random_integers(5, low=0 if dtype == torch.uint8 else -8, high=9, dtype=dtype), **whole)
    if short in TAKE_BOOLS:
        model.op(function, random_bools(4))
    for dtype in COMPLEX if short in TAKE_COMPLEX else []:
        model.op(function, randn(2, 3, dtype=dtype))


def special_for(function: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """The special values, without those for which PyTorch's vectors get a function wrong."""
    values = special(dtype)
    if function == "gelu" and dtype == torch.float32:
        return values[values.abs() != torch.inf][:-2]
    # There, the largest numbers are multiplied by 6 before they are divided by it, and become infinite.
    return values[:-2] if function == "hardswish" else values


def fill_halves(model: Model, module: str, function: str, variants: list[dict]) -> None:
    model.op(f"nn.{module}", special_for(function).half(), **variants[-1])
    model.op(f"F.{function}", randn(6, dtype=torch.bfloat16), **variants[0])


def register(module: str, function: str, variants: list[dict]) -> None:
    def of_modules() -> Export:
        made = [getattr(nn, module)(**settings) for settings in variants]
        x = randn(2, 3, 5) * 2
        return Export(Each(*made), x, others=[(randn(4, 3, 7),), (randn(1, 3, 1),), (randn(3, 3, 2) * 5,)])

    def of_functions() -> Export:
        def call(settings: dict):
            return lambda x: getattr(F, function)(x, **settings)
        return Export(Each(*map(call, variants)), randn(3, 4) * 2)

    def all_types(model: Model) -> None:
        fill(model, module, function, variants)

    all_types.__name__ = f"F_{function}_direct"
    direct(all_types)
    export_each(f"nn_{module}", of_modules)
    export_each(f"F_{function}", of_functions)


for entry in PLAIN:
    register(*entry)


@direct(tolerance=1e-2)
def activations_of_halves(model: Model) -> None:
    for entry in PLAIN[:11]:
        fill_halves(model, *entry)


@direct(tolerance=1e-2)
def more_activations_of_halves(model: Model) -> None:
    for entry in PLAIN[11:]:
        fill_halves(model, *entry)


@direct
def activations_of_every_rank(model: Model) -> None:
    for rank in range(9):
        x = randn(*[2 if axis in (0, rank - 1) else 1 for axis in range(rank)])
        for name in ("F.gelu", "F.relu", "F.silu"):
            model.op(name, x)


def prelus(x: Tensor) -> Export:
    return Export(Each(nn.PReLU(), scrambled(nn.PReLU(3)), nn.PReLU(init=0.7)), x,
                  others=[(randn(1, 3, 6),), (randn(5, 3, 1),), (randn(2, 3, 2),)])


export_each("nn_PReLU", lambda: prelus(randn(2, 3, 4)))


def f_prelu() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = nn.Parameter(rand(3))

        def forward(self, x, slope, slopes):
            return F.prelu(x, slope), F.prelu(x, slopes), F.prelu(x, self.own)
    return Export(Net(), randn(2, 3, 4), rand(1), rand(3))


export_each("F_prelu", f_prelu)


@direct(tolerance=1e-3)
def F_prelu_direct(model: Model) -> None:
    for dtype in FLOATS:
        model.op("F.prelu", randn(2, 3, dtype=dtype), rand(3, dtype=dtype))
    many = torch.tensor([0.5])
    for shape in [(), (4,), (2, 0, 3), (0, 3), (1, 2, 1, 2, 1, 1, 2, 2)]:
        model.op("F.prelu", randn(*shape), many)
    model.op("F.prelu", special(), torch.tensor([-2.0]))
    model.op("F.prelu", randn(2), torch.tensor(0.5))
    model.op("nn.PReLU", randn(2, 4), num_parameters=4)


export_each("nn_GLU", lambda: Export(Each(nn.GLU(), nn.GLU(1), nn.GLU(-3)), randn(2, 4, 6),
                                     others=[(randn(4, 2, 2),), (randn(6, 8, 4),), (randn(2, 2, 8),)]))
export_each("F_glu", lambda: Export(Each(F.glu, lambda x: F.glu(x, 0), lambda x: F.glu(x, dim=-2)),
                                    randn(2, 4, 6)))


@direct(tolerance=1e-3)
def F_glu_direct(model: Model) -> None:
    for dtype in FLOATS:
        model.op("F.glu", randn(2, 4, dtype=dtype))
    model.op("F.glu", randn(4), dim=0)
    model.op("nn.GLU", randn(0, 4))
    model.op("F.glu", randn(3, 0), dim=1)
    model.op("F.glu", special()[:14], dim=-1)
    model.op("F.glu", randn(1, 2, 1, 2, 1, 2, 2, 1), dim=-2)
