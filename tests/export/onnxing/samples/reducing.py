"""Reductions, running sums, and what normalises along an axis."""

import numpy as np

from ..building import sample

REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split()


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@sample
def reductions(m):
    x = m.input(m.normal(2, 3, 4))
    for name in REDUCTIONS:
        m(name, x)
        m(name, x, m.constant(i64(1)), keepdims=0)
        m(name, x, m.constant(i64(-1, 0)))
    positive = m.input(m.uniform(0.1, 2, 2, 3))
    m("ReduceLogSum", positive, m.constant(i64(1)))
    m("ReduceLogSum", positive, keepdims=0)


@sample
def reductions_odd(m):
    x = m.input(m.normal(2, 3))
    for name in "ReduceSum ReduceMax ReduceL2".split():
        m(name, x, noop_with_empty_axes=1)
        m(name, x, m.constant(np.zeros(0, np.int64)), keepdims=0)
    empty = m.input(m.normal(2, 0, 3))
    for name in "ReduceSum ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceMax ReduceMin".split():
        m(name, empty, m.constant(i64(1)), keepdims=0)
    m("ReduceSum", m.input(np.float32(3)))
    for dtype in (np.int32, np.int64):
        y = m.input(m.integers(-9, 9, 2, 3, dtype=dtype))
        for name in "ReduceSum ReduceMax ReduceMin ReduceProd ReduceMean".split():
            m(name, y, m.constant(i64(1)))
    small = m.input(m.integers(0, 9, 4, dtype=np.uint8))
    m("ReduceMax", small)
    m("ReduceMin", m.input(m.bools(3)))


@sample
def arg_max(m):
    x = m.input(m.normal(3, 4))
    ties = m.input(np.array([[1, 3, 3], [2, 2, 0]], np.float32))
    for name in ("ArgMax", "ArgMin"):
        m(name, x)
        m(name, x, axis=1, keepdims=0)
        m(name, x, axis=-1)
        m(name, ties, axis=1)
        m(name, ties, axis=1, select_last_index=1)


@sample
def running_sums(m):
    x, axis = m.input(m.normal(2, 4)), m.constant(np.int64(1))
    m("CumSum", x, axis)
    m("CumSum", x, axis, exclusive=1)
    m("CumSum", x, m.constant(np.int32(-2)), reverse=1)
    m("CumSum", x, axis, exclusive=1, reverse=1)
    m("CumSum", m.input(m.integers(-9, 9, 4)), m.constant(np.int64(0)))


@sample(opset=26)
def running_products(m):
    x, axis = m.input(m.normal(2, 4)), m.constant(np.int64(1))
    m("CumProd", x, axis)
    m("CumProd", x, axis, exclusive=1)
    m("CumProd", x, axis, exclusive=1, reverse=1)


@sample
def softmax(m):
    x = m.input(m.normal(2, 3, 4))
    for name in "Softmax LogSoftmax Hardmax".split():
        m(name, x)
        m(name, x, axis=0)
        m(name, x, axis=1)
    m("Softmax", m.input(np.array([[1e5, 1e5 + 1, -1e30], [-1e4, 0, 1e4]], np.float32)))


@sample
def lp_normalization(m):
    x = m.input(m.normal(2, 3, 4))
    m("LpNormalization", x)
    m("LpNormalization", x, p=2, axis=1)


@sample(by_runtime=True)
def l1_normalization(m):
    """The evaluator divides by sums of signed values."""
    m("LpNormalization", m.input(m.normal(2, 3, 4)), p=1, axis=1)


@sample
def losses(m):
    scores, labels = m.input(m.normal(3, 4)), m.input(i64(1, 0, 3))
    logs = m.hidden("LogSoftmax", scores, axis=1)
    weights = m.constant(m.uniform(0.2, 1, 4))
    for reduction in "none sum mean".split():
        m("NegativeLogLikelihoodLoss", logs, labels, weights, reduction=reduction)
        m("SoftmaxCrossEntropyLoss", scores, labels, weights, reduction=reduction, outputs=2)
    m("NegativeLogLikelihoodLoss", logs, labels, ignore_index=0)
    pictures = m.input(m.normal(2, 3, 2, 2))
    m("SoftmaxCrossEntropyLoss", pictures, m.input(m.integers(0, 3, 2, 2, 2)), ignore_index=1)
