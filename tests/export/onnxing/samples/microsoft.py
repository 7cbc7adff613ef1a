"""Operators of onnxruntime's own domain, which exporters and its optimiser write."""

import numpy as np

from ..building import sample

OURS = {"domains": {"com.microsoft": 1}, "by_runtime": True}
MS = {"domain": "com.microsoft"}


@sample(**OURS)
def microsoft_products(m):
    a, b = m.input(m.normal(2, 3, 4)), m.input(m.normal(2, 5, 4))
    m("FusedMatMul", a, b, transB=1, alpha=0.5, **MS)
    m("FusedMatMul", a, m.constant(m.normal(4, 2)), **MS)
    m("FusedGemm", m.input(m.normal(3, 4)), m.constant(m.normal(4, 2)), m.constant(m.normal(2)), activation="Relu", **MS)
    m("FusedConv", m.input(m.normal(1, 2, 3, 3)), m.constant(m.normal(2, 2, 3, 3)), m.constant(m.normal(2)), activation="Relu",
      pads=[1, 1, 1, 1], **MS)


@sample(**OURS)
def microsoft_activations(m):
    x = m.input(m.normal(2, 4))
    m("FastGelu", x, **MS)
    m("FastGelu", x, m.constant(m.normal(4)), **MS)
    m("Gelu", x, **MS)
    m("BiasGelu", x, m.constant(m.normal(4)), **MS)
    m("QuickGelu", x, alpha=1.702, **MS)


@sample(**OURS)
def microsoft_norms(m):
    x, skip = m.input(m.normal(2, 3, 4)), m.input(m.normal(2, 3, 4))
    gamma, beta, bias = m.constant(m.normal(4)), m.constant(m.normal(4)), m.constant(m.normal(4))
    m("SkipLayerNormalization", x, skip, gamma, beta, bias, epsilon=1e-5, **MS)
    m("SkipLayerNormalization", x, skip, gamma, outputs=[True, False, False, True], epsilon=1e-5, **MS)
    m("SkipSimplifiedLayerNormalization", x, skip, gamma, epsilon=1e-5, **MS)
    m("EmbedLayerNormalization", m.input(np.array([[1, 2, 0]], np.int32)), m.input(np.array([[0, 1, 0]], np.int32)),
      m.constant(m.normal(5, 4)), m.constant(m.normal(6, 4)), m.constant(m.normal(2, 4)), gamma, beta, outputs=2, **MS)


@sample(by_runtime=True, standard=False)
def simplified_norm(m):
    """An operator that onnxruntime's optimiser writes as if it were ONNX's."""
    m("SimplifiedLayerNormalization", m.input(m.normal(2, 3, 4)), m.constant(m.normal(4)), epsilon=1e-5, axis=-1, stash_type=1)


@sample(**OURS)
def microsoft_attention(m):
    x = m.input(m.normal(1, 3, 4))
    m("Attention", x, m.constant(m.normal(4, 12)), m.constant(m.normal(12)), num_heads=2, **MS)
    m("Attention", x, m.constant(m.normal(4, 12)), m.constant(m.normal(12)), num_heads=2, unidirectional=1, **MS)
    q, k, v = (m.input(m.normal(1, 3, 4)) for _ in range(3))
    m("MultiHeadAttention", q, k, v, num_heads=2, **MS)
    padding = m.input(np.array([[1, 1, 0]], np.int32))
    m("MultiHeadAttention", q, k, v, "", padding, num_heads=2, **MS)


@sample(**OURS)
def microsoft_decoder(m):
    """Attention with fewer heads of keys and a cache, and what turns queries."""
    q, k, v = m.input(m.normal(1, 1, 16)), m.input(m.normal(1, 1, 8)), m.input(m.normal(1, 1, 8))
    past = [m.input(m.normal(1, 1, 2, 8)), m.input(m.normal(1, 1, 2, 8))]
    m("GroupQueryAttention", q, k, v, *past, m.input(np.array([2], np.int32)), m.input(np.array(3, np.int32)), num_heads=2, kv_num_heads=1,
      outputs=3, **MS)
    m("RotaryEmbedding", m.input(m.normal(1, 3, 8)), m.input(np.array([[0, 1, 2]])), m.constant(m.uniform(-1, 1, 8, 2)),
      m.constant(m.uniform(-1, 1, 8, 2)), num_heads=2, **MS)
    m("RotaryEmbedding", m.input(m.normal(1, 3, 8)), m.input(np.array([2])), m.constant(m.uniform(-1, 1, 8, 2)),
      m.constant(m.uniform(-1, 1, 8, 2)), num_heads=2, **MS)


@sample(**OURS)
def microsoft_four_bits(m):
    """A product whose weights have four bits, in blocks with scales and zero points."""
    x = m.input(m.normal(2, 32))
    b, scales = m.constant(m.integers(0, 256, 4, 2, 8, dtype=np.uint8)), m.constant(m.uniform(0.01, 0.1, 8))
    m("MatMulNBits", x, b, scales, K=32, N=4, bits=4, block_size=16, **MS)
    m("MatMulNBits", x, b, scales, m.constant(m.integers(0, 256, 4, dtype=np.uint8)), K=32, N=4, bits=4, block_size=16, **MS)


@sample(**OURS)
def microsoft_integers(m):
    scale, zero = m.constant(np.float32(0.05)), m.constant(np.uint8(128))
    a, b = m.input(m.integers(0, 256, 2, 4, dtype=np.uint8)), m.input(m.integers(0, 256, 2, 4, dtype=np.uint8))
    other, middle = m.constant(np.float32(0.03)), m.constant(np.uint8(110))
    m("QLinearAdd", a, scale, zero, b, other, middle, m.constant(np.float32(0.08)), zero, **MS)
    m("QLinearMul", a, scale, zero, b, other, middle, m.constant(np.float32(0.2)), zero, **MS)
    m("QLinearSigmoid", a, scale, zero, m.constant(np.float32(1 / 256)), m.constant(np.uint8(0)), **MS)
    m("QLinearLeakyRelu", a, scale, zero, scale, zero, alpha=0.1, **MS)
    m("QLinearConcat", scale, zero, a, scale, zero, b, other, middle, axis=1, **MS)
    x = m.input(m.integers(0, 256, 1, 2, 4, 4, dtype=np.uint8))
    # A sixteenth, so that no quotient is only nearly half of a step.
    exact = m.constant(np.float32(0.0625))
    m("QLinearGlobalAveragePool", x, exact, zero, exact, middle, **MS)
    m("QLinearAveragePool", x, exact, zero, exact, zero, kernel_shape=[2, 2], **MS)
    y, w = m.input(m.normal(2, 4)), m.constant(m.integers(-127, 128, 4, 3, dtype=np.int8))
    m("DynamicQuantizeMatMul", y, w, m.constant(np.float32(0.01)), m.constant(np.int8(0)), m.constant(m.normal(3)), **MS)
    m("MatMulIntegerToFloat", a, w, scale, m.constant(np.float32(0.01)), zero, m.constant(np.int8(0)), **MS)
    m("QuantizeLinear", y, scale, zero, **MS)
    m("DequantizeLinear", a, scale, zero, **MS)
