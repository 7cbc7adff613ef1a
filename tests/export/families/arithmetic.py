"""Arithmetic, which PNNX writes as `pnnx.Expression`: functions of one and two arguments, numbers, casts, sizes."""

import torch
import torch.nn.functional as F
from torch import nn

from case import Export, Model, direct, exported
from formula import UNARY, expression, expressions
from modules import Each
from values import ALL, COMPLEX, FLOATS, INF, INTEGERS, NAN, rand, randn, random_bools, random_integers, special, values_of

BINARY = ["add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "atan2", "max", "min", "maximum", "minimum",
          "logaddexp"]


def unary(model: Model, dtype: torch.dtype, names: list[str] = UNARY) -> None:
    """All functions of one argument: within [-1, 1], large numbers, and those that go wrong."""
    x = torch.cat([rand(8, low=-1.0, high=1.0, dtype=dtype), randn(8, dtype=dtype) * 4, special(dtype)])
    assert expressions(model, [f"{name}(@0)" for name in names], x) == len(names)


@direct(tolerance=1e-6)
def expression_unary_f32(model: Model) -> None:
    unary(model, torch.float32)


@direct(tolerance=1e-14)
def expression_unary_f64(model: Model) -> None:
    unary(model, torch.float64)


@direct
def expression_unary_f16(model: Model) -> None:
    unary(model, torch.float16)


@direct
def expression_unary_bf16(model: Model) -> None:
    unary(model, torch.bfloat16)


@direct(tolerance=1e-6)
def expression_unary_integers(model: Model) -> None:
    x = torch.tensor([-128, -3, -1, 0, 1, 2, 127], dtype=torch.int8)
    assert expressions(model, [f"{name}(@0)" for name in UNARY], x) == len(UNARY)


@direct(tolerance=1e-6)
def expression_unary_of_all_types(model: Model) -> None:
    names = [f"{name}(@0)" for name in ("abs", "neg", "sign", "square", "floor", "exp", "sqrt", "reciprocal")]
    for dtype in [torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool]:
        x = values_of(dtype, 6)
        assert expressions(model, names, x) >= 5
    # The least integer has no positive counterpart.
    least = torch.tensor([-2**63, 2**63 - 1])
    expressions(model, ["abs(@0)", "neg(@0)", "square(@0)"], least)


@direct(tolerance=1e-6)
def expression_unary_c64(model: Model) -> None:
    x = torch.cat([randn(8, dtype=torch.complex64), torch.tensor([0, 1, -1, 1j, -1j, 2 + 0j, -2 + 0j, 0.5j])])
    assert expressions(model, [f"{name}(@0)" for name in UNARY if name != "sign"], x) >= 20


@direct(tolerance=1e-13)
def expression_unary_c128(model: Model) -> None:
    x = torch.cat([randn(8, dtype=torch.complex128), torch.tensor([1e-9, 1e-9j, 30 + 1j, -30 - 1j, -0.5])])
    assert expressions(model, [f"{name}(@0)" for name in UNARY if name != "sign"], x) >= 20


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Each value that goes wrong with each."""
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0], dtype=dtype)
    return x.reshape(-1, 1), x.clone()


@direct(tolerance=1e-6)
def expression_binary_f32(model: Model) -> None:
    assert expressions(model, [f"{name}(@0,@1)" for name in BINARY], *pairs(torch.float32)) == len(BINARY)


@direct(tolerance=1e-14)
def expression_binary_f64(model: Model) -> None:
    x, y = randn(24, dtype=torch.float64) * 3, randn(24, dtype=torch.float64) * 3
    assert expressions(model, [f"{name}(@0,@1)" for name in BINARY], x, y) == len(BINARY)
    assert expressions(model, [f"{name}(@0,@1)" for name in BINARY], *pairs(torch.float64)) == len(BINARY)


@direct
def expression_binary_f16(model: Model) -> None:
    assert expressions(model, [f"{name}(@0,@1)" for name in BINARY], *pairs(torch.float16)) >= 13
    x, y = randn(24, dtype=torch.float16) * 3, randn(24, dtype=torch.float16) * 3
    assert expressions(model, [f"{name}(@0,@1)" for name in BINARY], x, y) >= 13


@direct
def expression_binary_bf16(model: Model) -> None:
    assert expressions(model, [f"{name}(@0,@1)" for name in BINARY], *pairs(torch.bfloat16)) >= 13
    x, y = randn(24, dtype=torch.bfloat16) * 3, randn(24, dtype=torch.bfloat16) * 3
    assert expressions(model, [f"{name}(@0,@1)" for name in BINARY], x, y) >= 13


@direct(tolerance=1e-6)
def expression_binary_integers(model: Model) -> None:
    bits = ["and", "or", "xor", "lshift", "rshift"]
    for dtype in (torch.int64, torch.int8, torch.uint8):
        info = torch.iinfo(dtype)
        x = torch.tensor([info.min, info.min + 1, 3, 7, 100, info.max], dtype=dtype)
        if dtype != torch.uint8:
            x = torch.cat([x, torch.tensor([-1, -7], dtype=dtype)])
        names = [name for name in BINARY if name not in ("pow", "logaddexp")]
        column, row = x.reshape(-1, 1), x[x != 0]
        assert expressions(model, [f"{name}(@0,@1)" for name in names + bits], column, row) == len(names + bits)


@direct
def expression_powers(model: Model) -> None:
    # Of integers: too large powers wrap, negative exponents leave 0 but of 1 and -1.
    base = torch.tensor([-3, -2, -1, 0, 1, 2, 3, 10]).reshape(-1, 1)
    expression(model, "pow(@0,@1)", base[base.flatten() != 0], torch.tensor([-3, -2, -1, 0, 1, 2, 3, 40, 63]))
    expression(model, "pow(@0,@1)", base.to(torch.int8), torch.tensor([0, 1, 2, 5, 9], dtype=torch.int8))
    for exponent in ("2", "3", "0", "0.5", "-1.0", "2.0", "-2.0", "-0.5", "4", "1.5", "inf", "nan"):
        expression(model, f"pow(@0,{exponent})", torch.tensor([-2.0, -0.0, 0.0, 0.5, 1.0, 3.0, INF, -INF, NAN]))
    for number in ("2", "-2", "0", "1", "1.5", "-1.5"):
        expression(model, f"pow({number},@0)", torch.tensor([-2.0, -0.5, 0.0, 2.0, 3.0, INF, NAN]))
    expression(model, "pow(2,@0)", torch.tensor([0, 1, 5, 62, 63, 64]))
    expression(model, "pow(@0,2.5)", torch.tensor([0, 1, 2, 3]))


@direct(tolerance=1e-6)
def expression_division(model: Model) -> None:
    # Signs of the quotient, of the remainder, of zeros; quotients beside a whole number.
    x = torch.tensor([7.0, -7.0, 6.0, -6.0, 0.0, -0.0, 1.0, 0.3, 1e30]).reshape(-1, 1)
    y = torch.tensor([2.0, -2.0, 3.0, -3.0, 0.1, -0.1, INF, -INF, 1e-30])
    for name in ("div", "floor_divide", "remainder", "fmod"):
        result = f"{name}(@0,@1)"
        expression(model, result, x, y)
        # 1 / 0 and 1 / -0 differ where zeros do.
        expression(model, f"div(1,{result})", x, y)
    whole = torch.tensor([7, -7, 6, -6, 0, 1]).reshape(-1, 1)
    for name in ("div", "floor_divide", "remainder", "fmod"):
        expression(model, f"{name}(@0,@1)", whole, torch.tensor([2, -2, 3, -3, 4, -4]))
        if name != "fmod":
            expression(model, f"{name}(@0,3)", whole)
            expression(model, f"{name}(@0,-3)", whole)
            expression(model, f"{name}(@0,0.5)", whole)
            expression(model, f"{name}(11,@0)", torch.tensor([2, -2, 3, -3, 4, -4]))


@direct
def expression_signed_zeros(model: Model) -> None:
    x = torch.tensor([0.0, -0.0, 0.4, -0.4, 0.5, -0.5])
    for name in ("neg", "abs", "ceil", "floor", "round", "trunc", "sin", "tan", "sqrt", "asinh", "atanh", "expm1", "log1p",
                 "sign", "erf", "tanh", "reciprocal"):
        expression(model, f"reciprocal({name}(@0))", x)
    for name in ("add", "sub", "mul", "max", "min", "maximum", "minimum", "atan2"):
        expression(model, f"div(1.0,{name}(@0,@1))", x[:2].reshape(-1, 1), x[:2].clone())


@direct
def expression_rounding(model: Model) -> None:
    halves = torch.arange(-3.5, 4.0, 0.5)
    large = torch.tensor([2.0**23 - 0.5, 2.0**23 + 1, 2.0**24 + 2, 0.49999997, -0.49999997, 1e30, INF, -INF])
    for x in (halves, large, halves.double(), torch.tensor([0.49999999999999994, 2.0**52 - 0.5]).double()):
        for name in ("round", "floor", "ceil", "trunc"):
            expression(model, f"{name}(@0)", x)
    for dtype in (torch.float16, torch.bfloat16):
        expression(model, "round(@0)", halves.to(dtype))


@direct
def expression_promotion(model: Model) -> None:
    # Tensors with axes, without axes, and numbers: which decides the type.
    tensors = [values_of(dtype, 2) for dtype in ALL]
    scalars = [values_of(dtype) for dtype in (torch.float64, torch.int64, torch.bool, torch.complex128, torch.float16)]
    for x in tensors:
        for scalar in scalars:
            if {x.dtype, scalar.dtype} != {torch.bfloat16, torch.complex128}:  # A type of its own.
                expression(model, "mul(@0,@1)", x, scalar)


@direct
def expression_promotion_of_pairs(model: Model) -> None:
    tensors = [values_of(dtype, 2) for dtype in ALL]
    for i, x in enumerate(tensors):
        for y in tensors[i + 1:]:
            expression(model, "add(@0,@1)", x, y)


@direct
def expression_promotion_of_numbers(model: Model) -> None:
    for dtype in ALL:
        x = values_of(dtype, 2)
        assert expressions(model, ["add(@0,2)", "mul(@0,1.5)", "add(True,@0)", "mul(@0,1.000000e+00-2.000000e+00j)"], x) >= 3
    for dtype in (torch.float16, torch.float64, torch.int32, torch.bool):
        x = values_of(dtype)
        expressions(model, ["add(@0,2)", "mul(@0,1.5)", "mul(@0,1.000000e+00-2.000000e+00j)"], x)
    # A number does not make a tensor more precise, but one without axes is none.
    expression(model, "add(mul(@0,0.1),@1)", randn(3, dtype=torch.float16), torch.tensor(2.0))
    expression(model, "add(@0,@1)", torch.tensor(1, dtype=torch.int8), torch.tensor(2.5, dtype=torch.float64))


@direct
def expression_bools(model: Model) -> None:
    x, y = torch.tensor([True, False]).reshape(-1, 1), torch.tensor([True, False])
    texts = [f"{name}(@0,@1)" for name in ("add", "mul", "div", "and", "or", "xor", "max", "min", "maximum", "minimum",
                                           "atan2", "pow", "remainder", "floor_divide")]
    assert expressions(model, texts, x, y) >= 10
    for other in (torch.tensor([1, 0]), torch.tensor([0.5, 2.0])):
        expressions(model, ["add(@0,@1)", "mul(@0,@1)", "and(@0,@1)", "pow(@0,@1)"], x, other)


@direct
def expression_overflow(model: Model) -> None:
    for dtype in INTEGERS:
        info = torch.iinfo(dtype)
        x = torch.tensor([info.min, info.max, 1], dtype=dtype)
        for text in ("add(@0,1)", "sub(@0,1)", "mul(@0,@0)", "neg(@0)"):
            expression(model, text, x)
    x = torch.tensor([65504.0, 300.0], dtype=torch.float16)
    for text in ("add(@0,16)", "add(@0,15)", "mul(@0,@0)", "exp(@0)", "square(@0)"):
        expression(model, text, x)
    expression(model, "mul(@0,@0)", torch.tensor([1e30, 1e-30, 1e-20]))


@direct
def expression_shifts(model: Model) -> None:
    for dtype in INTEGERS:
        info = torch.iinfo(dtype)
        bits = info.bits
        x = torch.tensor([1, 3, 77, info.max, info.min], dtype=dtype).reshape(-1, 1)
        by = torch.tensor([0, 1, bits - 2, bits - 1, bits, bits + 1, 100], dtype=dtype)
        if dtype != torch.uint8:
            by = torch.cat([by, torch.tensor([-1, -100], dtype=dtype)])
        for text in ("lshift(@0,@1)", "rshift(@0,@1)"):
            expression(model, text, x, by)
    expression(model, "lshift(@0,3)", torch.tensor([1, 2], dtype=torch.int32))
    expression(model, "rshift(@0,3)", torch.tensor([-1, 64], dtype=torch.int32))
    expression(model, "lshift(1,@0)", torch.tensor([1, 2], dtype=torch.int32))


@direct
def expression_casts(model: Model) -> None:
    names = ["torch.bool", "torch.float", "torch.long", "torch.half", "torch.double", "torch.int", "torch.short", "torch.int8",
             "torch.uint8", "torch.bfloat16", "torch.complex64", "torch.complex128"]
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int64, torch.bool):
        x = rand(5, low=0.0, high=100.0, dtype=dtype) if dtype.is_floating_point else values_of(dtype, 5)
        expressions(model, [f"{name}(@0)" for name in names], x)


@direct
def expression_casts_of_odd_numbers(model: Model) -> None:
    # What PyTorch defines: integers wrap, floats in range are cut off, everything but zero is true.
    wide = torch.tensor([-2**40 - 1, -129, -1, 0, 127, 128, 255, 256, 70000, 2**53 + 1, 2**62 + 2**54 + 1])
    for name in ("torch.int", "torch.short", "torch.int8", "torch.uint8", "torch.bool", "torch.double", "torch.float"):
        expression(model, f"{name}(@0)", wide)
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1e-45, 0.9, -0.9])
    expression(model, "torch.bool(@0)", x)
    expression(model, "torch.half(@0)", torch.tensor([65519.0, 65520.0, 1e-8, 1.00048828125, NAN, -INF]))
    expression(model, "torch.bfloat16(@0)", torch.tensor([3.3961776e38, 1.00390625, 1.01171875, NAN, -INF]))
    expression(model, "torch.long(@0)", torch.tensor([2.0**62, -2.0**63, 0.9, -0.9, 16777217.0]))
    expression(model, "torch.complex64(@0)", x[3:])
    expression(model, "int(@0)", torch.tensor([1.9, -1.9, 0.5]))
    expression(model, "int(@0)", torch.tensor(2.9))


@direct
def expression_ranks(model: Model) -> None:
    for rank in range(9):
        shape = [2, 1, 3, 1, 2, 1, 1, 2][:rank]
        other = [1, 2, 1, 2, 1, 2, 2, 1][:rank]
        x, y = randn(*shape), randn(*other)
        expression(model, "add(mul(@0,2.5),@1)", x, y)
        expression(model, "sub(@0,@1)", x, randn(*shape[1:]))
    for shape in ([0], [2, 0], [0, 3], [2, 0, 3]):
        expression(model, "exp(mul(@0,2))", randn(*shape))
        expression(model, "add(@0,@1)", randn(*shape), randn(1))
    expression(model, "add(@0,@1)", randn(0, 1), randn(3))
    expression(model, "floor_divide(@0,0)", torch.zeros(0, dtype=torch.int64))


def sizes(model: Model, text: str, *inputs: torch.Tensor) -> None:
    """An expression of sizes. A list is used once more, for as an output each of its items would be one."""
    is_list = text.startswith("[") or text == "size(@0)"
    value = expression(model, text, *inputs, shown=not is_list)
    if is_list:
        expression(model, "add(@0,0)", value)


@direct
def expression_sizes(model: Model) -> None:
    x, empty = randn(2, 3, 5), randn(4, 0)
    for text in ("size(@0,0)", "size(@0,-1)", "[size(@0,0),size(@0,1),size(@0,2)]", "size(@0)", "[int(div(size(@0,2),2)),-1]",
                 "[floor_divide(size(@0,2),2),mul(size(@0,1),size(@0,0))]", "add(size(@0,1),0.5)", "div(size(@0,2),2)",
                 "[int(floor(mul(size(@0,2),1.5))),int(ceil(div(size(@0,2),2))),int(round(div(size(@0,2),2)))]",
                 "max(size(@0,0),size(@0,1))", "min(size(@0,0),2)", "[sub(size(@0,0),7),abs(sub(size(@0,0),7))]",
                 "sqrt(size(@0,2))", "mul(@0,size(@0,2))", "add(@0,div(size(@0,1),size(@0,2)))", "pow(size(@0,1),2)",
                 "pow(size(@0,2),-0.5)", "remainder(sub(0,size(@0,2)),3)", "floor_divide(sub(0,size(@0,2)),3)",
                 "[size(exp(@0),1)]", "rsqrt(size(@0,2))", "[trunc(div(size(@0,2),2)),neg(size(@0,0))]"):
        sizes(model, text, x)
    for text in ("size(@0,1)", "size(@0)", "add(size(@0,0),size(@0,1))"):
        sizes(model, text, empty)
    sizes(model, "[@0,@1]", torch.tensor(3), torch.tensor(4))
    sizes(model, "[size(@0,0),@1]", x, torch.tensor(4))


@direct
def expression_of_numbers(model: Model) -> None:
    for text in ("0", "1.5", "-7", "True", "False", "add(1,2)", "div(1,2)", "mul(2,1.5)", "floor_divide(7,2)", "floor_divide(-7,2)",
                 "remainder(-7,2)", "neg(3)", "add(True,True)", "pow(2,10)", "exp(1)", "[1,2,3]", "[0]", "round(2.5)",
                 "floor(-1.5)", "ceil(1.2)", "trunc(-1.7)", "1.200000e+00-9.000000e-01j", "mul(1.000000e+00+2.000000e+00j,2)",
                 "inf", "-inf", "max(3,4)", "square(3)", "sqrt(2)", "int(2.7)"):
        expression(model, text)


@direct
def expression_loses_brackets(model: Model) -> None:
    # As PNNX writes functions that its own printer does not know.
    x, y = rand(2, 3), rand(3)
    for text, f in (("log1p,@0", torch.log1p), ("expm1,sub(@0,0.5)", lambda x: torch.expm1(x - 0.5)),
                    ("add(@0,,mul(@0,2))", lambda x: x + x * 2), ("log1p(exp(@0", lambda x: torch.log1p(torch.exp(x)))):
        model.op("pnnx.Expression", x, f=f, expr=text)
    model.op("pnnx.Expression", x, y, f=lambda x, y: torch.expm1(x) * torch.log1p(y), expr="mul(expm1,@0),log1p,@1")
    model.op("pnnx.Expression", x, y, f=lambda x, y: torch.log1p(torch.exp(x)) * 2 + y, expr="add(mul(log1p,exp(@0)),2),@1")


@direct
def expression_complex(model: Model) -> None:
    x, y = randn(2, 3, dtype=torch.complex64), randn(3, dtype=torch.complex64)
    for text in ("add(@0,@1)", "sub(@0,@1)", "mul(@0,@1)", "div(@0,@1)", "pow(@0,@1)", "mul(@0,1.000000e+00-2.000000e+00j)",
                 "pow(@0,2)", "pow(@0,0.5)", "logaddexp(@0,@1)", "abs(mul(@0,@1))", "reciprocal(@0)", "square(@0)",
                 "exp(mul(@0,0.000000e+00+1.000000e+00j))", "sub(2,@0)", "div(1,@0)"):
        expressions(model, [text], x, y)
    for other in (randn(3), randn(3, dtype=torch.float64), random_integers(3), random_bools(3), torch.tensor(2.0).double()):
        expression(model, "mul(@0,@1)", x, other)
    expression(model, "add(@0,@1)", randn(3, dtype=torch.float64), torch.tensor(1 + 2j))
    expression(model, "mul(@0,@0)", randn(3, dtype=torch.complex128))


@direct(tolerance=1e-12)
def expression_complex_branch_cuts(model: Model) -> None:
    # The sign of a zero says on which side of a cut a number lies.
    parts = torch.tensor([0.0, -0.0, 0.5, -0.5, 2.0, -2.0], dtype=torch.float64)
    zero = torch.tensor([0.0, -0.0], dtype=torch.float64).reshape(-1, 1).expand(2, 6)
    for x in (torch.complex(parts.expand(2, 6), zero), torch.complex(zero, parts.expand(2, 6))):
        for name in ("sqrt", "acos", "asin", "acosh", "asinh", "atan", "atanh", "log1p"):
            expression(model, f"{name}(@0)", x)
    expression(model, "log(@0)", torch.complex(parts[2:].expand(2, 4), zero[:, 2:]))


@direct(tolerance=1e-12)
def expression_complex_extremes(model: Model) -> None:
    x = torch.tensor([1e200 + 1e200j, 1e-200 - 1e-200j, 1e200 + 1j, 400 + 1j, -400 - 1j, 1 + 400j], dtype=torch.complex128)
    for text in ("abs(@0)", "sqrt(@0)", "log(@0)", "div(@0,@0)", "reciprocal(@0)", "tanh(@0)", "tan(@0)", "asinh(@0)", "acos(@0)",
                 "atan(@0)", "atanh(@0)", "log10(@0)"):
        expression(model, text, x)


@direct
def torch_positive(model: Model) -> None:
    for dtype in ALL:
        if dtype != torch.bool:
            model.op("torch.positive", values_of(dtype, 2, 3))
    model.op("torch.positive", special())
    model.op("torch.positive", torch.tensor(2.5))
    model.op("torch.positive", randn(0, 2))
    model.op("torch.positive", randn(1, 2, 1, 2, 1, 1, 1, 2))


@direct(tolerance=1e-5)
def torch_lgamma(model: Model) -> None:
    x = torch.cat([rand(10, low=0.01, high=8.0), rand(10, low=-5.0, high=0.0), special(), torch.tensor([-1.0, -2.0, 100.0, 1e-30])])
    for dtype in FLOATS:
        if dtype == torch.float64:
            model.op("torch.lgamma", rand(16, low=-9.0, high=40.0, dtype=dtype))
        model.op("torch.lgamma", (x if dtype not in (torch.float16, torch.bfloat16) else x[:10]).to(dtype))
    for dtype in INTEGERS + [torch.bool]:
        model.op("torch.lgamma", values_of(dtype, 6).abs() if dtype != torch.bool else random_bools(4))
    model.op("torch.lgamma", torch.tensor(0.5))
    model.op("torch.lgamma", randn(2, 0))
    model.op("torch.lgamma", rand(1, 2, 1, 2, 1, 1, 1, 2, low=0.5, high=3.0))


@exported
def floor_divisions_of_integers() -> Export:
    """PNNX drops the rounding mode, but records that the results are integers. It merges divisions that differ in nothing else."""
    class Net(nn.Module):
        def forward(self, scores, i, k):
            best, where = scores.flatten(1).topk(4)
            box = torch.div(where, 5, rounding_mode="floor")
            return (box, where % 5, scores.gather(1, box.unsqueeze(-1).expand(-1, -1, 5)), torch.div(i, k, rounding_mode="floor"),
                    (i.div(3, rounding_mode="floor") * 2 - k).abs(), torch.div(i + 1, 4, rounding_mode="floor").float() / 8, i / 7)
    i, k = random_integers(2, 3, low=-20, high=20), torch.tensor([3, -2, 5])
    return Export(Net(), rand(2, 7, 5), i, k, others=[(rand(3, 9, 5), random_integers(3, 3, low=-20, high=20), k * 2)])


@exported
def arithmetic_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            a = x * 2 + y
            b = torch.sin(a) * torch.cos(x) - torch.tanh(y)
            c = torch.div(x, y.abs() + 1) ** 2
            d = x + 0.5 * y * a
            return a, b, c, d, torch.rsqrt(x.abs() + 0.1), torch.expm1(x) + torch.log1p(y.abs()), (x - y).abs().square()
    return Export(Net(), randn(2, 3, 4), randn(3, 1), others=[(randn(1, 3, 6), randn(3, 1)), (randn(4, 3, 1), randn(3, 1))])


@exported
def functions_of_one_argument() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            u = torch.tanh(x) * 0.9
            v = torch.abs(x) + 1.1
            return (torch.acos(u), torch.asin(u), torch.atan(x), torch.atanh(u), torch.acosh(v), torch.asinh(x),
                    torch.ceil(x * 3), torch.floor(x * 3), torch.round(x * 3), torch.trunc(x * 3), torch.erf(x), torch.exp(x),
                    torch.expm1(x), torch.log(v), torch.log10(v), torch.log1p(v), torch.neg(x), torch.reciprocal(v),
                    torch.rsqrt(v), torch.sign(x), torch.sinh(x), torch.cosh(x), torch.sqrt(v), torch.square(x), torch.tan(u),
                    torch.lgamma(v), torch.positive(x))
    return Export(Net(), randn(2, 3))


@exported
def functions_of_two_arguments() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            return (torch.atan2(x, y), torch.maximum(x, y), torch.minimum(x, y), torch.max(x, y), torch.min(x, y),
                    torch.fmod(x, y), torch.remainder(x, y), torch.floor_divide(x, y), torch.pow(x.abs(), y),
                    torch.logaddexp(x, y), x // 2, x % 0.7, 2 - x, 2 / x, 2 ** x, torch.sub(x, y, alpha=0.5),
                    torch.add(x, y, alpha=-2), torch.rsub(x, y), torch.true_divide(x, y))
    return Export(Net(), randn(2, 3), randn(2, 1))


@exported
def integer_arithmetic_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            return (x + y, x - 3, x * y, x / y, x // y, x % y, x & y, x | 6, x ^ y, ~x, x << 2, x >> 1, -x, x ** 2,
                    (x > y).float() * 2.5, x.float() + y)
    return Export(Net(), random_integers(2, 3, low=-9, high=9), random_integers(3, low=1, high=5))


@exported
def sizes_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            n, c, h, w = x.shape
            a = x.reshape(n, c // 2, 2, h * w)
            b = x.view(n, -1) * (h * w) ** -0.5
            return a, b, x / x.shape[-1], torch.zeros(n, h + 1), x.reshape(n * c, (h * w) // 2, 2)
    return Export(Net(), randn(1, 4, 2, 3), others=[(randn(2, 4, 4, 5),), (randn(3, 4, 6, 1),)])


@exported
def casts_of_a_network() -> Export:
    class Net(nn.Module):
        def forward(self, x, i):
            return (x.long(), x.int() + i, x.bool(), i.float() * 0.5, i.double() + x, (x > 0).long(), (x > 0).float(),
                    x.to(torch.float64), i.to(torch.int32), x.short(), x.char(), i.byte())
    return Export(Net(), rand(2, 3, low=-9.0, high=9.0), random_integers(2, 3, low=0, high=9))


@exported
def more_complex_numbers() -> Export:
    """What takes complex numbers, beside what expressions compute."""
    def compute(x, y):
        z, w = torch.complex(x, y), torch.complex(y, x + 1)
        results = (F.linear(z, w), F.linear(z, w, w[:, 0]), F.normalize(z, dim=1), torch.dist(z, w), torch.vdot(z[0], w[1]), z.mH, torch.nan_to_num(z / 0),
                   torch.matmul(z, w.mT), torch.prod(z, 1), torch.cumprod(z, 0), z.mean(1), torch.std(z, 1), torch.linalg.vector_norm(z, dim=1),
                   (z.to(torch.complex32) * w.to(torch.complex32)).to(torch.complex64) - z * w)
        return tuple(torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in results)
    return Export(Each(compute), randn(3, 4), randn(3, 4), others=[(randn(3, 2), randn(3, 2))], tolerance=1e-3)
