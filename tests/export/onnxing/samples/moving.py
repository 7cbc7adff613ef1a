"""Operators that only move elements, or choose among them."""

import numpy as np

from ..building import sample


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@sample
def reshape(m):
    x = m.input(m.normal(2, 3, 4))
    m("Reshape", x, m.constant(i64(4, 6)))
    m("Reshape", x, m.constant(i64(0, -1)))
    m("Reshape", x, m.constant(i64(-1)))
    m("Reshape", m.input(m.normal(0, 3)), m.constant(i64(3, 0)), allowzero=1)
    m("Reshape", m.input(m.normal(1, 1)), m.constant(np.zeros(0, np.int64)))
    for axis in (0, 1, 2, 3, -1):
        m("Flatten", x, axis=axis)


@sample
def squeeze(m):
    x = m.input(m.normal(1, 3, 1, 2))
    m("Squeeze", x)
    m("Squeeze", x, m.constant(i64(0)))
    m("Squeeze", x, m.constant(i64(-2, 0)))
    y = m.input(m.normal(2, 3))
    m("Unsqueeze", y, m.constant(i64(0)))
    m("Unsqueeze", y, m.constant(i64(-1, 1, 0)))
    m("Unsqueeze", m.input(np.float32(1.5)), m.constant(i64(0)))


@sample
def transpose(m):
    x = m.input(m.normal(2, 3, 4))
    m("Transpose", x)
    m("Transpose", x, perm=[1, 0, 2])
    m("Transpose", x, perm=[2, 0, 1])
    m("Transpose", m.input(m.integers(0, 9, 2, 3)))
    m("Transpose", m.input(m.bools(2, 3)))


@sample
def concat(m):
    a, b = m.input(m.normal(2, 3)), m.input(m.normal(2, 1))
    m("Concat", a, b, axis=1)
    m("Concat", a, b, a, axis=-1)
    m("Concat", a, m.constant(m.normal(0, 3)), m.input(m.normal(1, 3)), axis=0)
    m("Concat", a, axis=0)
    m("Concat", m.input(m.integers(0, 9, 2)), m.constant(i64(7)), axis=0)


@sample
def split(m):
    x = m.input(m.normal(2, 7))
    m("Split", x, m.constant(i64(2, 5)), axis=1, outputs=2)
    m("Split", x, m.constant(i64(1, 0, 6)), axis=-1, outputs=3)
    m("Split", x, axis=0, num_outputs=2, outputs=2)
    # Parts that are not equal: the last is smaller.
    m("Split", x, axis=1, num_outputs=3, outputs=3)


@sample
def slices(m):
    x = m.input(m.normal(5, 6))
    m("Slice", x, m.constant(i64(1)), m.constant(i64(4)))
    m("Slice", x, m.constant(i64(1, 0)), m.constant(i64(-1, 1000)), m.constant(i64(0, 1)), m.constant(i64(1, 2)))
    m("Slice", x, m.constant(i64(-1)), m.constant(i64(-(2**62))), m.constant(i64(1)), m.constant(i64(-1)))
    m("Slice", x, m.constant(i64(4)), m.constant(i64(2)), m.constant(i64(-1)))
    m("Slice", x, m.constant(np.array([-2], np.int32)), m.constant(np.array([2**31 - 1], np.int32)), m.constant(np.array([0], np.int32)))
    m("Slice", x, m.input(i64(1)), m.input(i64(3)), m.constant(i64(1)))


@sample
def gather(m):
    x = m.input(m.normal(3, 4))
    m("Gather", x, m.input(i64(0, 2, -1)))
    m("Gather", x, m.constant(np.array([[0, 1], [3, -4]], np.int32)), axis=1)
    m("Gather", x, m.constant(np.int64(1)), axis=1)
    m("Gather", m.constant(m.normal(6, 2)), m.input(m.integers(0, 6, 2, 2)))
    m("Gather", m.input(m.integers(0, 9, 4)), m.constant(np.zeros(0, np.int64)))
    m("GatherElements", x, m.input(np.array([[0, 2, -1, 1]])))
    m("GatherElements", x, m.input(np.array([[0, 3], [1, -2], [2, 0]])), axis=1)
    y = m.input(m.normal(2, 3, 2))
    m("GatherND", y, m.input(np.array([[0, 1], [1, -1]])))
    m("GatherND", y, m.input(np.array([[[1]], [[0]]])), batch_dims=1)


@sample
def scatter(m):
    x, updates = m.input(m.normal(3, 4)), m.input(m.normal(2, 3))
    indices = m.input(np.array([[0, 2, -1], [1, 0, 0]]))
    m("ScatterElements", x, indices, updates)
    distinct = m.input(np.array([[0, 2, 1], [1, 3, 0]]))
    m("ScatterElements", x, distinct, updates, axis=1)
    for reduction in "add mul max min".split():
        m("ScatterElements", x, m.constant(np.array([[0, 0, 1], [0, 2, 1]])), updates, axis=1, reduction=reduction)
    y, rows = m.input(m.normal(4, 2)), m.input(m.normal(2, 2))
    m("ScatterND", y, m.input(np.array([[3], [-4]])), rows)
    m("ScatterND", y, m.input(np.array([[1, 1], [2, 0], [0, 1]])), m.input(m.normal(3)))
    for reduction in "add mul max min".split():
        m("ScatterND", y, m.constant(np.array([[1], [1]])), rows, reduction=reduction)


@sample(opset=24)
def tensor_scatter(m):
    cache, update = m.input(m.normal(2, 2, 4, 3)), m.input(m.normal(2, 2, 1, 3))
    m("TensorScatter", cache, update, m.input(i64(1, 3)))
    m("TensorScatter", cache, m.input(m.normal(2, 2, 2, 3)), m.constant(i64(3, 2)), mode="circular")


@sample
def expand(m):
    x = m.input(m.normal(3, 1))
    m("Expand", x, m.constant(i64(2, 1, 4)))
    m("Expand", x, m.constant(i64(3, 4)))
    m("Expand", x, m.constant(i64(1)))
    m("Expand", m.input(np.float32(2)), m.constant(i64(2, 2)))
    m("Tile", x, m.constant(i64(2, 3)))
    m("Tile", m.input(m.integers(0, 9, 2)), m.constant(i64(3)))


@sample
def pads(m):
    x = m.input(m.normal(3, 4))
    m("Pad", x, m.constant(i64(1, 0, 2, 3)))
    m("Pad", x, m.constant(i64(0, 1, 0, 2)), m.constant(np.float32(7)))
    for mode in "reflect edge wrap".split():
        m("Pad", x, m.constant(i64(1, 2, 2, 1)), mode=mode)
    m("Pad", x, m.constant(i64(1, 2)), "", m.constant(i64(-1)))
    m("Pad", m.input(m.integers(0, 9, 3)), m.constant(i64(1, 1)), m.constant(np.int64(-1)))


@sample
def blocks(m):
    x = m.input(m.normal(1, 8, 2, 3))
    m("DepthToSpace", x, blocksize=2)
    m("DepthToSpace", x, blocksize=2, mode="CRD")
    m("SpaceToDepth", m.input(m.normal(1, 2, 4, 6)), blocksize=2)


@sample
def reversed_sequences(m):
    x = m.input(m.normal(4, 3))
    m("ReverseSequence", x, m.input(i64(4, 1, 2)), time_axis=0, batch_axis=1)
    m("ReverseSequence", x, m.constant(i64(1, 2, 3, 1)), time_axis=1, batch_axis=0)


@sample
def triangles(m):
    x = m.input(m.normal(2, 3, 4))
    m("Trilu", x)
    m("Trilu", x, upper=0)
    m("Trilu", x, m.constant(np.int64(1)))
    m("Trilu", x, m.constant(np.int64(-1)), upper=0)
    m("Trilu", m.input(m.integers(0, 9, 3, 3)), m.constant(np.int64(5)))
    m("EyeLike", m.input(m.normal(3, 4)), k=1)
    m("EyeLike", m.input(m.integers(0, 9, 2, 2)), dtype=1, k=-1)


@sample
def ranges(m):
    m("Range", m.input(np.float32(1)), m.input(np.float32(5)), m.input(np.float32(1.5)))
    m("Range", m.input(np.int64(10)), m.input(np.int64(3)), m.constant(np.int64(-3)))
    m("Range", m.constant(np.int32(3)), m.input(np.int32(3)), m.constant(np.int32(1)))
    x = m.input(m.normal(2, 3, 4))
    m("Shape", x)
    m("Shape", x, start=1)
    m("Shape", x, start=-2, end=-1)
    m("Size", x)


@sample
def one_hot(m):
    indices, values = m.input(i64(0, 2, -1, 7)), m.constant(np.array([0.5, 2], np.float32))
    m("OneHot", indices, m.constant(np.int64(3)), values)
    m("OneHot", indices, m.constant(np.int64(4)), values, axis=0)
    m("OneHot", m.input(m.integers(0, 3, 2, 2)), m.constant(np.int64(3)), m.constant(i64(0, 1)), axis=1)


@sample(by_runtime=True)
def beyond_the_evaluator(m):
    """A depth of rank 1, pads that crop, and a count of boxes that is left out, and so 0, which the evaluator lacks."""
    m("NonMaxSuppression", m.input(m.uniform(0, 1, 1, 2, 4)), m.input(m.uniform(0, 1, 1, 1, 2)))
    m("OneHot", m.input(i64(0, 2, -1, 7)), m.constant(i64(4)), m.constant(np.array([0.5, 2], np.float32)), axis=0)
    m("Pad", m.input(m.normal(3, 4)), m.constant(i64(-1, 1, 0, -2)))


@sample
def chosen(m):
    """Results whose sizes depend on values."""
    x = m.input(m.normal(3, 4))
    condition = m.input(np.array([True, False, True]))
    m("Compress", x, condition, axis=0)
    m("Compress", x, condition)
    m("NonZero", m.input(np.array([[1, 0, 2], [0, 0, 3]], np.float32)))
    m("NonZero", m.input(m.bools(4)))


@sample
def unique(m):
    x = m.input(np.array([2, 1, 1, 3, 4, 3], np.float32))
    m("Unique", x, outputs=4)
    m("Unique", x, sorted=0, outputs=[True, False, True, True])
    m("Unique", m.input(np.array([[1, 0, 1], [2, 3, 2], [1, 0, 1]])), axis=0, outputs=1)


@sample
def top_k(m):
    x = m.input(m.normal(3, 5))
    m("TopK", x, m.constant(i64(2)), outputs=2)
    m("TopK", x, m.constant(i64(3)), axis=0, largest=0, outputs=2)
    m("TopK", m.input(m.integers(0, 4, 6)), m.constant(i64(3)), outputs=2)
    m.outputs += m.hidden("TopK", x, m.input(i64(1)), outputs=2)[:1]


@sample
def windows_of_pictures(m):
    x = m.input(m.normal(1, 12, 4))
    m("Col2Im", x, m.constant(i64(3, 3)), m.constant(i64(2, 2)))
    m("Col2Im", m.input(m.normal(1, 4, 4)), m.constant(i64(3, 3)), m.constant(i64(2, 2)), pads=[0, 0, 1, 1], strides=[2, 2])
    y = m.input(m.normal(5, 2, 3))
    m("CenterCropPad", y, m.constant(i64(3, 4, 3)))
    m("CenterCropPad", y, m.constant(i64(4, 2)), axes=[0, 2])
