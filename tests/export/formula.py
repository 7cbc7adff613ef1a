"""`pnnx.Expression` in direct cases: the text is evaluated with PyTorch."""

import math
import operator
import re
from collections.abc import Callable

import torch
from torch import Tensor

from case import Model
from text import NAMES, dtype_name

UNARY = ("abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p neg reciprocal round "
         "rsqrt sign sin sinh sqrt square tan tanh trunc").split()
BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "fmod": torch.fmod, "pow": operator.pow,
    "atan2": torch.atan2, "maximum": torch.maximum, "minimum": torch.minimum, "logaddexp": torch.logaddexp,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift,
}
DTYPES = [*NAMES, torch.bfloat16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128]


def number_or_tensor(of_numbers: Callable, of_tensors: Callable) -> Callable:
    """A function that uses Python for numbers, and PyTorch if any argument is a tensor."""
    return lambda *x: (of_tensors if any(isinstance(a, Tensor) for a in x) else of_numbers)(*x)


def functions() -> dict[str, Callable]:
    """The functions in expressions; a `_` is appended to Python keywords."""
    of_numbers = {"abs": abs, "neg": operator.neg, "round": round, "square": lambda x: x * x,
                  "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: 1 / math.sqrt(x),
                  "sign": lambda x: (x > 0) - (x < 0)}
    known = {}
    for name in UNARY:
        plain = of_numbers[name] if name in of_numbers else getattr(math, name)
        known[name + "_"] = number_or_tensor(plain, getattr(torch, name))
    for name, function in BINARY.items():
        known[name + "_"] = function
    known["max_"] = number_or_tensor(max, torch.max)
    known["min_"] = number_or_tensor(min, torch.min)
    known["int_"] = number_or_tensor(int, lambda x: x.trunc().long() if x.is_floating_point() else x.long())
    known["size_"] = lambda x, *axis: list(x.shape) if not axis else x.shape[axis[0]]
    for dtype in DTYPES:
        known[dtype_name(dtype).replace(".", "_") + "_"] = number_or_tensor(
            lambda x, dtype=dtype: torch.tensor(x, dtype=dtype).item(), lambda x, dtype=dtype: x.to(dtype))
    return known | {"inf": math.inf, "nan": math.nan}


FUNCTIONS = functions()


def evaluate(text: str, inputs: tuple[Tensor, ...]) -> Tensor:
    """The value of a tidy expression."""
    code = re.sub(r"@(\d+)", r"x[\1]", text).replace("torch.", "torch_")
    code = re.sub(r"([a-z_0-9]+)\(", r"\1_(", code)
    value = eval(code, FUNCTIONS | {"x": inputs, "__builtins__": {}})
    if isinstance(value, list) and any(isinstance(item, Tensor) for item in value):
        return torch.stack(torch.broadcast_tensors(*[torch.as_tensor(item) for item in value]))
    return torch.as_tensor(value)


def expression(model: Model, text: str, *inputs: Tensor, shown: bool = True) -> Tensor:
    """Adds a `pnnx.Expression` to a case."""
    return model.op("pnnx.Expression", *inputs, f=lambda *x: [evaluate(text, x)], shown=shown, expr=text)[0]


def expressions(model: Model, texts: list[str], *inputs: Tensor) -> int:
    """Adds the expressions that PyTorch supports for these inputs; returns their number."""
    added = 0
    for text in texts:
        try:
            evaluate(text, inputs)
        except (RuntimeError, TypeError):
            continue
        expression(model, text, *inputs)
        added += 1
    return added
