"""Recurrent networks, attention, and signals."""

import numpy as np

from ..building import sample


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@sample
def lstm(m):
    x = m.input(m.normal(3, 2, 4))
    w, r, b = m.constant(m.normal(1, 12, 4)), m.constant(m.normal(1, 12, 3)), m.constant(m.normal(1, 24))
    m("LSTM", x, w, r, hidden_size=3, outputs=3)
    m("LSTM", x, w, r, b, "", m.input(m.normal(1, 2, 3)), m.input(m.normal(1, 2, 3)), hidden_size=3, outputs=3)
    m("LSTM", x, w, r, b, hidden_size=3, outputs=[False, True])


@sample
def gru(m):
    x = m.input(m.normal(3, 2, 4))
    w, r, b = m.constant(m.normal(1, 9, 4)), m.constant(m.normal(1, 9, 3)), m.constant(m.normal(1, 18))
    m("GRU", x, w, r, hidden_size=3, outputs=2)
    m("GRU", x, w, r, b, "", m.input(m.normal(1, 2, 3)), hidden_size=3, linear_before_reset=1, outputs=2)


@sample
def rnn(m):
    x = m.input(m.normal(3, 2, 4))
    w, r, b = m.constant(m.normal(1, 3, 4)), m.constant(m.normal(1, 3, 3)), m.constant(m.normal(1, 6))
    m("RNN", x, w, r, hidden_size=3, outputs=2)
    m("RNN", x, w, r, b, "", m.input(m.normal(1, 2, 3)), hidden_size=3, outputs=2)


@sample(by_runtime=True)
def recurrent_rare(m):
    """Both directions, lengths, peepholes and other functions, of which the evaluator lacks some."""
    x, lengths = m.input(m.normal(3, 2, 2)), m.constant(np.array([3, 2], np.int32))
    w, r, b = m.constant(m.normal(2, 8, 2)), m.constant(m.normal(2, 8, 2)), m.constant(m.normal(2, 16))
    m("LSTM", x, w, r, b, lengths, hidden_size=2, direction="bidirectional", outputs=3)
    one = [m.constant(m.normal(1, 8, 2)), m.constant(m.normal(1, 8, 2)), m.constant(m.normal(1, 16))]
    m("LSTM", x, *one, "", "", "", m.constant(m.normal(1, 6)), hidden_size=2, direction="reverse", outputs=3)
    m("LSTM", x, *one, hidden_size=2, clip=0.5, outputs=3)
    gru = [m.constant(m.normal(2, 6, 2)), m.constant(m.normal(2, 6, 2)), m.constant(m.normal(2, 12))]
    m("GRU", x, *gru, lengths, hidden_size=2, direction="bidirectional", outputs=2)
    rnn = [m.constant(m.normal(2, 2, 2)), m.constant(m.normal(2, 2, 2)), m.constant(m.normal(2, 4))]
    m("RNN", x, *rnn, hidden_size=2, direction="bidirectional", activations=["Relu", "Sigmoid"], outputs=2)


@sample(opset=23)
def attention(m):
    q, k, v = m.input(m.normal(1, 2, 3, 4)), m.input(m.normal(1, 2, 5, 4)), m.input(m.normal(1, 2, 5, 4))
    m("Attention", q, k, v)
    m("Attention", q, k, v, is_causal=1)
    m("Attention", q, k, v, m.input(m.bools(3, 5) | np.eye(3, 5, dtype=bool)), scale=0.3)
    m("Attention", q, k, v, m.input(m.normal(1, 1, 3, 5)), softcap=2.0)
    # Fewer heads of keys, and heads in one axis.
    m("Attention", m.input(m.normal(1, 3, 8)), m.input(m.normal(1, 5, 4)), m.input(m.normal(1, 5, 4)), q_num_heads=4, kv_num_heads=2)
    past = [m.input(m.normal(1, 2, 2, 4)), m.input(m.normal(1, 2, 2, 4))]
    m("Attention", q, k, v, "", *past, outputs=3)


@sample(opset=23)
def rotary(m):
    x = m.input(m.normal(1, 2, 3, 4))
    cos, sin = m.constant(m.uniform(-1, 1, 8, 2)), m.constant(m.uniform(-1, 1, 8, 2))
    m("RotaryEmbedding", x, cos, sin, m.input(i64(2, 0, 5).reshape(1, 3)))
    m("RotaryEmbedding", x, cos, sin, m.constant(i64(0, 1, 2).reshape(1, 3)), interleaved=1)
    m("RotaryEmbedding", m.input(m.normal(1, 3, 8)), cos, sin, m.constant(i64(0, 1, 2).reshape(1, 3)), num_heads=2)


@sample(opset=27)
def linear_attention(m):
    q, k, v = (m.input(m.normal(1, 3, 4)) for _ in range(3))
    m("LinearAttention", q, k, v, "", "", "", q_num_heads=2, kv_num_heads=2, update_rule="linear", outputs=2)


@sample(opset=27)
def causal_conv(m):
    x, w = m.input(m.normal(1, 2, 5)), m.constant(m.normal(2, 1, 3))
    m("CausalConvWithState", x, w, outputs=2)
    m("CausalConvWithState", x, w, m.constant(m.normal(2)), m.input(m.normal(1, 2, 2)), outputs=2)


@sample
def transforms(m):
    real = m.input(m.normal(1, 8, 1))
    m("DFT", real, "", m.constant(np.int64(1)))
    m("DFT", real, "", m.constant(np.int64(1)), onesided=1)
    m("DFT", m.input(m.normal(1, 6, 2)), "", m.constant(np.int64(1)), inverse=1)
    m("DFT", real, m.constant(np.int64(5)), m.constant(np.int64(1)))
    signal, step = m.input(m.normal(1, 16, 1)), m.constant(np.int64(4))
    m("STFT", signal, step, m.constant(m.uniform(0, 1, 8)))
    m("STFT", signal, step, "", m.constant(np.int64(8)), onesided=0)


@sample
def window_functions(m):
    size = m.constant(np.int64(6))
    for name in "HannWindow HammingWindow BlackmanWindow".split():
        m(name, size)
        m(name, size, periodic=0)
    m("MelWeightMatrix", m.constant(np.int64(4)), m.constant(np.int64(16)), m.constant(np.int64(8000)), m.constant(np.float32(0)),
      m.constant(np.float32(4000)))
