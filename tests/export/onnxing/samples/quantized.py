"""Integers that stand for numbers: Q/DQ, and operators in integers."""

import numpy as np

from ..building import sample

SCALE, ZERO = np.float32(0.05), np.uint8(128)


@sample
def quantize(m):
    x = m.input(m.uniform(-9, 9, 2, 4))
    m("QuantizeLinear", x, m.constant(SCALE), m.constant(ZERO))
    m("QuantizeLinear", x, m.constant(SCALE), m.constant(np.int8(3)))
    m("QuantizeLinear", x, m.constant(SCALE))
    m("QuantizeLinear", x, m.constant(m.uniform(0.01, 0.1, 2)), m.constant(np.array([1, -2], np.int8)), axis=0)
    m("QuantizeLinear", m.input(np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)), m.constant(np.float32(1)), m.constant(np.int8(0)))
    m("DynamicQuantizeLinear", x, outputs=3)


@sample
def dequantize(m):
    m("DequantizeLinear", m.input(m.integers(0, 256, 5, dtype=np.uint8)), m.constant(SCALE), m.constant(ZERO))
    x = m.input(m.integers(-128, 128, 2, 4, dtype=np.int8))
    m("DequantizeLinear", x, m.constant(SCALE))
    m("DequantizeLinear", x, m.constant(m.uniform(0.01, 0.1, 4)), m.constant(m.integers(-9, 9, 4, dtype=np.int8)), axis=1)
    m("DequantizeLinear", x, m.constant(m.uniform(0.01, 0.1, 2, 2)), m.constant(m.integers(-9, 9, 2, 2, dtype=np.int8)), axis=1, block_size=2)
    m("DequantizeLinear", m.input(m.integers(-9999, 9999, 3, dtype=np.int32)), m.constant(SCALE))


@sample
def quantized_layers(m):
    """What quantisers write around a layer: Q and DQ of its input, DQ of its weights, Q and DQ of its output."""
    def fake(x, scale):
        q = m.hidden("QuantizeLinear", x, m.constant(np.float32(scale)), m.constant(np.int8(0)))
        return m.hidden("DequantizeLinear", q, m.constant(np.float32(scale)), m.constant(np.int8(0)))
    scales = m.constant(m.uniform(0.01, 0.02, 3))
    w = m.hidden("DequantizeLinear", m.constant(m.integers(-127, 128, 3, 2, 3, 3, dtype=np.int8)), scales, axis=0)
    y = m.hidden("Conv", fake(m.input(m.normal(1, 2, 5, 5)), 0.03), w, m.constant(m.normal(3)))
    y = fake(m.hidden("Relu", y), 0.1)
    flat = m.hidden("Flatten", y)
    v = m.hidden("DequantizeLinear", m.constant(m.integers(-127, 128, 27, 2, dtype=np.int8)), m.constant(np.float32(0.01)))
    m("QuantizeLinear", m.hidden("MatMul", flat, v), m.constant(np.float32(0.1)), m.constant(np.int8(0)))


@sample
def integer_products(m):
    a, b = m.input(m.integers(0, 256, 3, 4, dtype=np.uint8)), m.constant(m.integers(-128, 128, 4, 2, dtype=np.int8))
    m("MatMulInteger", a, b)
    m("MatMulInteger", a, b, m.constant(np.uint8(120)))
    m("MatMulInteger", a, b, m.constant(np.uint8(120)), m.constant(np.int8(3)))
    x, w = m.input(m.integers(0, 256, 1, 1, 3, 3, dtype=np.uint8)), m.constant(m.integers(0, 256, 1, 1, 2, 2, dtype=np.uint8))
    m("ConvInteger", x, w)
    m("ConvInteger", x, w, m.constant(np.uint8(120)), m.constant(np.uint8(7)), pads=[1, 1, 1, 1])


@sample
def integer_layers(m):
    a, b = m.input(m.integers(0, 256, 3, 4, dtype=np.uint8)), m.constant(m.integers(0, 256, 4, 2, dtype=np.uint8))
    m("QLinearMatMul", a, m.constant(SCALE), m.constant(ZERO), b, m.constant(np.float32(0.02)), m.constant(np.uint8(100)),
      m.constant(np.float32(0.3)), m.constant(np.uint8(110)))
    x, w = m.input(m.integers(0, 256, 1, 2, 4, 4, dtype=np.uint8)), m.constant(m.integers(0, 256, 2, 2, 3, 3, dtype=np.uint8))
    m("QLinearConv", x, m.constant(SCALE), m.constant(ZERO), w, m.constant(np.float32(0.02)), m.constant(np.uint8(100)),
      m.constant(np.float32(0.3)), m.constant(np.uint8(110)), pads=[1, 1, 1, 1])


@sample
def dynamically_quantized(m):
    """What onnxruntime's dynamic quantisation writes for a product."""
    x = m.input(m.normal(3, 4))
    q, scale, zero = m.hidden("DynamicQuantizeLinear", x, outputs=3)
    product = m.hidden("MatMulInteger", q, m.constant(m.integers(-127, 128, 4, 2, dtype=np.int8)), zero, m.constant(np.int8(0)))
    factor = m.hidden("Mul", scale, m.constant(np.float32(0.01)))
    m("Add", m.hidden("Mul", m.hidden("Cast", product, to=1), factor), m.constant(m.normal(2)))
