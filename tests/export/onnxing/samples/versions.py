"""Older versions of operators, whose parameters were attributes, or whose meaning was another. The evaluator knows few of them."""

import numpy as np
import onnx
from onnx import helper
from onnx import numpy_helper

from ..building import sample


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@sample(opset=6, convert=13, by_runtime=True)
def opset_6(m):
    """Arithmetic that stretches its second input only where an attribute says so."""
    x, last = m.input(m.normal(2, 3, 4)), m.constant(m.uniform(0.5, 2, 4))
    for name in "Add Sub Mul Div".split():
        m(name, x, last, broadcast=1)
    m("Gemm", m.input(m.normal(2, 3)), m.constant(m.normal(3, 2)), m.constant(m.normal(2)), broadcast=1)
    of = [m.constant(m.uniform(0.5, 2, 3)) for _ in range(4)]
    m("BatchNormalization", m.input(m.normal(1, 3, 2, 2)), *of, is_test=1)
    m("Dropout", x, is_test=1)
    m("Sum", x, m.input(m.normal(2, 3, 4)))
    m("Selu", x)


def unsqueezed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same in version 13, where axes of the second operand count from the last one. Of 3 axes, `axis` is the first one."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    nodes = []
    for node in model.graph.node:
        axis = next(attribute.i for attribute in node.attribute if attribute.name == "axis")
        rank = next(len(value.type.tensor_type.shape.dim) for value in model.graph.input if value.name == node.input[1])
        axes = helper.make_tensor(f"{node.name}_axes", onnx.TensorProto.INT64, [3 - axis - rank], range(rank, 3 - axis))
        model.graph.initializer.append(axes)
        wide = f"{node.name}_wide"
        nodes += [helper.make_node("Unsqueeze", [node.input[1], axes.name], [wide]),
                  helper.make_node(node.op_type, [node.input[0], wide], node.output)] if rank + axis < 3 else [
                  helper.make_node(node.op_type, node.input, node.output)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import[0].version = 13
    return model


@sample(opset=6, instead=unsqueezed)
def opset_6_axes(m):
    """Arithmetic whose second input is stretched from an axis on."""
    x = m.input(m.normal(2, 3, 4))
    m("Add", x, m.input(m.normal(3)), broadcast=1, axis=1)
    m("Mul", x, m.input(m.normal(2, 3)), broadcast=1, axis=0)
    m("Sub", x, m.input(m.normal(3, 4)), broadcast=1, axis=1)


@sample(opset=7, by_runtime=True)
def opset_7(m):
    x = m.input(m.normal(2, 3))
    m("Dropout", x)
    m("Sum", x, m.input(m.normal(2, 3)))
    m("Max", x, m.input(m.normal(2, 3)))
    m("Cast", x, to=7)
    m("Gemm", x, m.constant(m.normal(3, 2)), m.constant(m.normal(2)))
    y = m.input(m.normal(1, 2, 4, 4))
    m("Upsample", y, scales=[1.0, 1.0, 2.0, 2.0])
    m("AveragePool", y, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    m("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2])
    of = [m.constant(m.uniform(0.5, 2, 2)) for _ in range(4)]
    m("BatchNormalization", y, *of)
    m("Reshape", y, m.constant(i64(0, -1)))
    m("PRelu", y, m.constant(m.normal(2, 1, 1)))


@sample(opset=9, by_runtime=True)
def opset_9(m):
    """Attributes instead of inputs; `Upsample` by an input."""
    x = m.input(m.normal(2, 3, 4))
    m("Slice", x, starts=[0, 1], ends=[2, -1], axes=[0, 2])
    m("Slice", x, starts=[1], ends=[1000])
    m("Pad", x, pads=[0, 1, 0, 1, 0, 2], value=0.5)
    m("Pad", x, pads=[0, 1, 1, 0, 1, 1], mode="reflect")
    m("Clip", x, min=-0.5, max=1.0)
    m("Clip", x, min=0.0)
    m("TopK", x, k=2, axis=1, outputs=2)
    m("Upsample", m.input(m.normal(1, 1, 2, 2)), m.constant(np.array([1, 1, 2, 3], np.float32)))
    m("Scatter", m.input(m.normal(3, 3)), m.constant(np.array([[0, 2, 1]])), m.input(m.normal(1, 3)))
    m("Split", x, axis=2, split=[1, 3], outputs=2)
    m("ConstantOfShape", m.constant(i64(2)), value=numpy_helper.from_array(np.array([2.5], np.float32)))


@sample(opset=10, by_runtime=True)
def opset_10(m):
    x = m.input(m.normal(1, 1, 3, 4))
    m("Resize", x, m.constant(np.array([1, 1, 2, 2], np.float32)))
    m("Slice", x, m.constant(i64(1)), m.constant(i64(3)), m.constant(i64(2)))
    m("Dropout", x)
    m("QuantizeLinear", x, m.constant(np.float32(0.1)), m.constant(np.uint8(3)))


@sample(opset=11, by_runtime=True)
def opset_11(m):
    """Axes as attributes; `Softmax` of all axes from the first on."""
    x = m.input(m.normal(2, 3, 4))
    for name in "Softmax LogSoftmax Hardmax".split():
        m(name, x)
        m(name, x, axis=2)
    m("Squeeze", m.input(m.normal(1, 3, 1)), axes=[0, -1])
    m("Unsqueeze", x, axes=[0, 2])
    for name in "ReduceSum ReduceMean ReduceMax ReduceL2 ReduceLogSumExp".split():
        m(name, x, axes=[1], keepdims=0)
        m(name, x)
    m("Split", x, axis=2, split=[1, 3], outputs=2)
    m("Split", x, axis=0, outputs=2)
    m("Clip", x, m.constant(np.float32(-1)), m.constant(np.float32(1)))
    m("Pad", x, m.constant(i64(0, 1, 0, 0, 1, 2)), m.constant(np.float32(3)))
    m("ArgMax", x, axis=1)
    m("CumSum", x, m.constant(np.int32(1)))
    m("Resize", m.input(m.normal(1, 1, 2, 3)), m.constant(np.zeros(0, np.float32)), m.constant(np.zeros(0, np.float32)),
      m.constant(i64(1, 1, 4, 6)), mode="linear", coordinate_transformation_mode="half_pixel")
    m("ScatterElements", m.input(m.normal(1, 5)), m.constant(np.array([[1, 3]])), m.input(m.normal(1, 2)), axis=1)


@sample(opset=13, by_runtime=True)
def opset_13(m):
    x = m.input(m.normal(2, 3, 4))
    m("ReduceSum", x, m.constant(i64(1)))
    m("ReduceMean", x, axes=[-1])
    m("Split", x, axis=0, outputs=2)
    m("Split", x, m.constant(i64(1, 3)), axis=2, outputs=2)
    m("Softmax", x)
    m("Squeeze", m.input(m.normal(1, 2)), m.constant(i64(0)))
    m("DequantizeLinear", m.input(m.integers(0, 256, 2, 2, dtype=np.uint8)), m.constant(m.uniform(0.01, 0.1, 2)),
      m.constant(np.array([1, 2], np.uint8)), axis=1)


@sample(opset=17, by_runtime=True)
def opset_17(m):
    x = m.input(m.normal(2, 3, 4))
    m("LayerNormalization", x, m.constant(m.normal(4)), m.constant(m.normal(4)))
    m("ReduceMax", x, axes=[0, 1], keepdims=0)
    m("DFT", m.input(m.normal(1, 5, 1)), axis=1)
    m("Pad", x, m.constant(i64(0, 1, 0, 0, 1, 2)), mode="edge")
    m("GridSample", m.input(m.normal(1, 1, 3, 3)), m.input(m.uniform(-1, 1, 1, 2, 2, 2)), mode="bilinear")
    m("Split", x, axis=2, outputs=2)


@sample(opset=18, standard=False)
def opset_18(m):
    """Scales and shifts of each group: a version that was withdrawn, but is in files."""
    m("GroupNormalization", m.input(m.normal(2, 4, 3)), m.constant(m.normal(2)), m.constant(m.normal(2)), num_groups=2)
    m("Mish", m.input(m.normal(3)))


@sample(opset=28)
def newest(m):
    """Operators of the newest set, as a model of today has them."""
    x = m.input(m.normal(2, 3))
    y = m.hidden("Relu", m.hidden("Gemm", x, m.constant(m.normal(3, 4)), m.constant(m.normal(4))))
    m("Softmax", y)
    m("Reshape", y, m.constant(i64(-1)))
    m("Celu", x)
    m("Mod", m.input(m.integers(0, 9, 3)), m.constant(np.int64(4)))
    m("TopK", x, m.constant(i64(1)), outputs=2)
    m("OneHot", m.input(i64(1, 0)), m.constant(np.int64(2)), m.constant(np.array([0, 1], np.float32)))
    m("Cast", x, to=10)
