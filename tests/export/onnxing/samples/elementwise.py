"""Operators that compute each element for itself."""

import ml_dtypes
import numpy as np

from ..building import sample

NAN, INF = float("nan"), float("inf")
SPECIAL = np.array([NAN, INF, -INF, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 3e38], np.float32)


@sample
def unary(m):
    x = m.input(m.normal(2, 3))
    for name in "Abs Neg Sign Ceil Floor Round Exp Sin Cos Sinh Cosh Tan Tanh Atan Asinh Sigmoid Erf Identity".split():
        m(name, x)
    positive = m.input(m.uniform(0.2, 3, 2, 3))
    for name in "Sqrt Log Reciprocal".split():
        m(name, positive)
    inside = m.input(m.uniform(-0.9, 0.9, 4))
    for name in "Asin Acos Atanh".split():
        m(name, inside)
    m("Acosh", m.input(m.uniform(1, 4, 4)))


@sample
def unary_special(m):
    x = m.input(SPECIAL)
    for name in "Abs Neg Sign Ceil Floor Round Exp Tanh Sigmoid Erf Relu IsNaN IsInf".split():
        m(name, x)
    m("IsInf", x, detect_negative=0)
    m("IsInf", x, detect_positive=0)


@sample
def unary_types(m):
    for dtype in (np.int8, np.int32, np.int64):
        x = m.input(m.integers(-100, 100, 5, dtype=dtype))
        for name in "Abs Neg Sign".split():
            m(name, x)
    double, half = m.input(m.normal(3, dtype=np.float64)), m.input(m.normal(3, dtype=np.float16))
    for name in "Abs Neg Exp Tanh Floor".split():
        m(name, double)
        m(name, half)


@sample
def activations(m):
    x = m.input(m.uniform(-4, 4, 2, 6))
    for name in "Relu LeakyRelu Elu Selu Celu HardSigmoid HardSwish Softplus Softsign ThresholdedRelu Shrink Mish Gelu".split():
        m(name, x)
    m("LeakyRelu", x, alpha=0.3)
    m("Elu", x, alpha=2.0)
    m("Selu", x, alpha=1.5, gamma=0.7)
    m("Celu", x, alpha=1.7)
    m("HardSigmoid", x, alpha=0.3, beta=0.4)
    m("ThresholdedRelu", x, alpha=2.0)
    m("Shrink", x, lambd=1.5, bias=0.5)
    m("Gelu", x, approximate="tanh")
    m("PRelu", x, m.constant(m.normal(6)))
    m("PRelu", x, m.constant(m.normal(2, 1)))


@sample(opset=24)
def swish(m):
    x = m.input(m.normal(2, 3))
    m("Swish", x)
    m("Swish", x, alpha=1.5)


@sample(opset=28)
def swiglu(m):
    a, b = m.input(m.normal(2, 3)), m.input(m.normal(2, 3))
    m("SwiGLU", a, b)
    m("SwiGLU", a, b, alpha=1.5)


@sample
def arithmetic(m):
    a, b = m.input(m.normal(2, 3, 4)), m.input(m.uniform(0.5, 2, 3, 1))
    for name in "Add Sub Mul Div".split():
        m(name, a, b)
    m("Pow", b, a)
    m("Pow", a, m.constant(np.int64(2)))
    m("Mod", a, b, fmod=1)
    # Shapes that stretch each other, an empty tensor, and a number.
    m("Add", m.input(m.normal(1, 3)), m.input(m.normal(4, 1, 1)))
    m("Mul", m.input(m.normal(0, 3)), m.input(m.normal(1)))
    m("Sub", m.input(np.float32(3)), a)


@sample
def arithmetic_integers(m):
    for dtype in (np.int64, np.int32, np.int8, np.uint8):
        low = 0 if dtype == np.uint8 else -9
        a, b = m.input(m.integers(low, 9, 6, dtype=dtype)), m.input(np.array([1, 2, 3, 4, 5, 7], dtype))
        for name in "Add Sub Mul Div Mod".split():
            m(name, a, b)
    a, b = m.input(np.array([-7, -7, 7, 7])), m.input(np.array([3, -3, 3, -3]))
    m("Mod", a, b)
    m("Mod", a, b, fmod=1)
    m("Div", a, b)
    m("Pow", a, m.constant(np.array([2, 1, 3, 0])))


@sample
def arithmetic_types(m):
    for dtype in (np.float64, np.float16):
        a, b = m.input(m.normal(2, 3, dtype=dtype)), m.input(m.uniform(0.5, 2, 3).astype(dtype))
        for name in "Add Sub Mul Div".split():
            m(name, a, b)


@sample
def bfloat16(m):
    a, b = m.input(m.normal(2, 3, dtype=ml_dtypes.bfloat16)), m.input(m.uniform(0.5, 2, 3).astype(ml_dtypes.bfloat16))
    for name in "Add Sub Mul Div".split():
        m(name, a, b)
    m("Cast", a, to=1)
    m("Cast", m.input(m.normal(4)), to=16)


@sample
def comparisons(m):
    a, b = m.input(m.integers(-3, 3, 2, 4).astype(np.float32)), m.input(m.integers(-3, 3, 4).astype(np.float32))
    for name in "Equal Less LessOrEqual Greater GreaterOrEqual".split():
        m(name, a, b)
    x, y = m.input(m.integers(-3, 3, 6)), m.input(m.integers(-3, 3, 6))
    for name in "Equal Less LessOrEqual Greater GreaterOrEqual".split():
        m(name, x, y)
    nan = m.input(SPECIAL)
    m("Equal", nan, nan)
    m("Less", nan, m.constant(np.float32(0)))
    m("Equal", m.input(m.bools(4)), m.input(m.bools(4)))


@sample
def logic(m):
    a, b = m.input(m.bools(2, 4)), m.input(m.bools(4))
    for name in "And Or Xor".split():
        m(name, a, b)
    m("Not", a)
    m("Where", a, m.input(m.normal(2, 4)), m.input(m.normal(1)))
    m("Where", b, m.input(m.integers(0, 9, 2, 1)), m.input(np.int64(-1)))


@sample
def bits(m):
    for dtype in (np.int32, np.uint8):
        a, b = m.input(m.integers(0, 100, 5, dtype=dtype)), m.input(m.integers(0, 100, 5, dtype=dtype))
        for name in "BitwiseAnd BitwiseOr BitwiseXor".split():
            m(name, a, b)
        m("BitwiseNot", a)
    x, by = m.input(m.integers(0, 100, 5, dtype=np.uint8)), m.input(m.integers(0, 7, 5, dtype=np.uint8))
    m("BitShift", x, by, direction="LEFT")
    m("BitShift", x, by, direction="RIGHT")


@sample(opset=26)
def bit_casts(m):
    m("BitCast", m.input(m.normal(4)), to=6)
    m("BitCast", m.input(m.integers(0, 2**30, 4, dtype=np.int32)), to=1)
    m("BitCast", m.input(m.integers(-100, 100, 4, dtype=np.int8)), to=2)


@sample
def variadic(m):
    a, b, c = m.input(m.normal(2, 3)), m.input(m.normal(3)), m.input(m.normal(2, 1))
    for name in "Max Min Sum Mean".split():
        m(name, a)
        m(name, a, b)
        m(name, a, b, c)
    for dtype in (np.int64, np.int32, np.uint8):
        x, y = m.input(m.integers(0, 9, 4, dtype=dtype)), m.input(m.integers(0, 9, 4, dtype=dtype))
        m("Max", x, y)
        m("Min", x, y)
    nan = m.input(SPECIAL)
    m("Max", nan, m.constant(np.float32(0)))
    m("Min", nan, m.constant(np.float32(0)))


@sample
def clips(m):
    x = m.input(m.uniform(-4, 4, 2, 5))
    low, high = m.constant(np.float32(-1)), m.constant(np.float32(2))
    m("Clip", x)
    m("Clip", x, low)
    m("Clip", x, "", high)
    m("Clip", x, low, high)
    # Bounds that the graph computes, and bounds that cross: the upper one wins.
    m("Clip", x, m.input(np.float32(-2)), m.input(np.float32(0.5)))
    m("Clip", x, high, low)
    m("Clip", m.input(m.integers(-9, 9, 5)), m.constant(np.int64(-3)), m.constant(np.int64(4)))
    m("Clip", m.input(m.integers(0, 9, 5, dtype=np.uint8)), m.constant(np.uint8(3)))


@sample
def casts(m):
    x = m.input(np.array([-2.7, -0.5, 0.0, 0.5, 1.5, 100.9], np.float32))
    for to in (1, 10, 11, 6, 7, 9, 3):  # f32 f16 f64 i32 i64 bool i8
        m("Cast", x, to=to)
    m("Cast", m.input(m.integers(-200, 400, 4, dtype=np.int32)), to=3)
    m("Cast", m.input(m.integers(0, 3, 4)), to=9)
    m("Cast", m.input(m.bools(4)), to=1)
    m("Cast", m.input(m.bools(4)), to=7)
    m("CastLike", x, m.input(m.integers(0, 3, 2)))
    m("CastLike", m.input(m.integers(0, 9, 3)), m.constant(np.float16(0)))


@sample
def constants(m):
    from onnx import numpy_helper
    x = m.input(m.normal(2, 2))
    m("Add", x, m.hidden("Constant", value=numpy_helper.from_array(m.normal(2))))
    m("Mul", x, m.hidden("Constant", value_float=2.5))
    m("Mul", x, m.hidden("Constant", value_floats=[1.0, -1.0]))
    m("Add", m.hidden("Shape", x), m.hidden("Constant", value_int=3))
    m("Add", m.hidden("Shape", x), m.hidden("Constant", value_ints=[1, 2]))
    m("ConstantOfShape", m.hidden("Shape", x))
    m("ConstantOfShape", m.constant(np.array([2, 0])), value=numpy_helper.from_array(np.array([7])))
    m("ConstantOfShape", m.constant(np.zeros(0, np.int64)), value=numpy_helper.from_array(np.array([True])))
    # An output that is a constant, and one that is an input.
    m("Constant", value=numpy_helper.from_array(m.normal(3)))
    m("Identity", x)
