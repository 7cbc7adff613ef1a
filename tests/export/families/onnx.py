"""Operators that keep their ONNX names: what PNNX makes of ONNX files and has no PyTorch name for."""

import numpy as np

from onnx_case import Onnx, from_onnx
from values import randn


def floats(*shape: int) -> np.ndarray:
    return randn(*shape).numpy()


def integers(*values: int, dtype=np.int64) -> np.ndarray:
    return np.array(values, dtype)


@from_onnx
def onnx_reductions(m: Onnx) -> None:
    m.opset = 18
    x = m.input(floats(2, 3, 4))
    axes = m.within(integers(-1, 0))
    for name in ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2", "SumSquare", "LogSumExp"):
        m(f"Reduce{name}", x, m.constant(integers(1)), keepdims=0)
        m(f"Reduce{name}", x, axes)
        m(f"Reduce{name}", x, m.within(integers()), noop_with_empty_axes=1)
    m("ReduceLogSum", m.input(floats(2, 3, 4) ** 2), m.constant(integers(1, 2)))
    m("ReduceSumSquare", x)
    numbers = m.input(integers(3, -1, 2, 5, 7, -6, dtype=np.int32).reshape(2, 3))
    for name in ("Max", "Min", "Sum", "Mean", "Prod", "L1", "SumSquare"):
        m(f"Reduce{name}", numbers, m.within(integers(1)))


@from_onnx
def onnx_places(m: Onnx) -> None:
    x = m.input(np.array([[1, 5, 5, 2], [7, 0, 7, 0]], np.float32))
    for name in ("ArgMax", "ArgMin"):
        m(name, x)
        m(name, x, axis=-1, keepdims=0)
        m(name, x, axis=1, select_last_index=1)
    m("Hardmax", x)
    m("Hardmax", x, axis=0)
    m("TopK", x, m.constant(integers(3)), outputs=2)
    m("TopK", x, m.within(integers(1)), outputs=2, axis=0, largest=0)
    m("TopK", m.input(np.array([4, 1, 3, 9], np.float32)), m.constant(integers(4)), outputs=2, sorted=0)


@from_onnx
def onnx_scans(m: Onnx) -> None:
    x = m.input(floats(2, 4))
    i = m.input(integers(1, 2, 3, 4, 5, 6).reshape(2, 3))
    for exclusive in (0, 1):
        for reverse in (0, 1):
            m("CumSum", x, m.within(np.array(-1)), exclusive=exclusive, reverse=reverse)
    m("CumSum", i, m.constant(np.array(0)), exclusive=1)
    m("CumSum", i, m.constant(np.array(1, np.int32)))
    m("LpNormalization", x)
    m("LpNormalization", x, axis=0, p=1)
    s = m.input(floats(4, 3, 2))
    m("ReverseSequence", s, m.constant(integers(4, 1, 2)))
    m("ReverseSequence", s, m.within(integers(3, 2, 1, 3)), batch_axis=0, time_axis=1)


@from_onnx
def onnx_gathers(m: Onnx) -> None:
    x = m.input(floats(3, 4))
    m("Gather", x, m.constant(integers(0, -1, 1, 2).reshape(2, 2)), axis=1)
    m("Gather", m.hidden("Relu", x), m.within(integers(2, -3)), axis=-1)
    m("Gather", x, m.within(np.array(-1)), axis=1)
    m("GatherElements", x, m.within(integers(0, -1, 2, 1).reshape(1, 4)))
    m("GatherElements", x, m.constant(integers(0, -1, 2, 1, 3, 3).reshape(3, 2)), axis=-1)
    m("GatherND", x, m.constant(integers(0, -1, 2, 1).reshape(2, 2)))
    m("GatherND", x, m.constant(integers(-1, 0).reshape(2, 1)))
    m("GatherND", m.input(floats(2, 3, 2)), m.constant(integers(2, -3).reshape(2, 1)), batch_dims=1)


@from_onnx
def onnx_scatters(m: Onnx) -> None:
    m.opset = 18
    x = m.input(floats(3, 4))
    index, updates = m.constant(integers(1, 0, -1, 1, 1, 2).reshape(2, 3)), m.input(floats(2, 3))
    for reduction in ("none", "add", "mul", "max", "min"):
        m("ScatterElements", x, index if reduction != "none" else m.constant(integers(1, 0, -1, 0, 1, 0).reshape(2, 3)),
          updates, axis=0, reduction=reduction)
    m("ScatterElements", x, m.within(integers(3, 0, -2, 1).reshape(2, 2)), m.input(floats(2, 2)), axis=1)
    rows, places = m.input(floats(2, 4)), m.input(floats(3))
    for reduction in ("none", "add", "mul", "max", "min"):
        m("ScatterND", x, m.constant(integers(-1, 0).reshape(2, 1)), rows, reduction=reduction)
        m("ScatterND", x, m.constant(integers(0, 3, 1, -4, 2, 2).reshape(3, 2)), places, reduction=reduction)


@from_onnx
def onnx_conditions(m: Onnx) -> None:
    x, keep = m.input(floats(3, 4)), m.truth([1, 0, 1])
    m("Compress", x, keep, axis=0)
    m("Compress", x, m.truth([0, 1, 1]), axis=-1)
    m("Compress", x, m.truth([1, 0, 0, 0, 1, 1]))
    m("NonZero", m.hidden("Relu", x))


@from_onnx
def onnx_functions(m: Onnx) -> None:
    m.opset = 15
    x = m.input(np.array([[-2.0, -0.5, 0.0], [0.3, 1.5, 3.0]], np.float32))
    special = m.input(np.array([np.nan, np.inf, -np.inf, 1], np.float32))
    m("IsNaN", special)
    m("IsInf", special)
    m("IsInf", special, detect_negative=0)
    m("IsInf", special, detect_positive=0)
    m("IsInf", special, detect_positive=0, detect_negative=0)
    m("Selu", x, alpha=2.0, gamma=3.0)
    m("Shrink", x, bias=0.75, lambd=0.75)
    m("Shrink", x, bias=0.25, lambd=0.25)
    m("Softsign", x)
    m("ThresholdedRelu", x, alpha=0.2)
    m("PRelu", x, m.input(floats(2, 3)))
    m("Mean", x, m.input(floats(3)), m.input(floats(1, 1)))
    m("Mean", x)
    bits = m.input(np.array([3, 128, 255], np.uint8))
    m("BitShift", bits, m.input(np.array([1, 2, 7], np.uint8)), direction="LEFT")
    m("BitShift", bits, m.constant(np.array([1, 2, 7], np.uint8)), direction="RIGHT")


@from_onnx
def onnx_Swish(m: Onnx) -> None:
    m.opset, m.by_evaluator = 24, True
    m("Swish", m.input(floats(2, 3)), alpha=0.7)


@from_onnx
def onnx_Bernoulli(m: Onnx) -> None:
    m.values = False
    x = m.input(np.array([0.0, 0.5, 1.0], np.float32))
    m("Bernoulli", x)
    m("Bernoulli", x, dtype=7, seed=3.0)


@from_onnx
def onnx_shapes(m: Onnx) -> None:
    m.opset = 19
    x = m.input(floats(2, 3, 4))
    m("Size", x)
    m("Transpose", x)
    m("Expand", m.input(floats(3, 1)), m.within(integers(2, 1, 4)))
    m("Expand", m.input(floats(1, 2)), m.within(integers(2)))
    m("Slice", x, m.constant(integers(1, -3)), m.constant(integers(9, -1)))
    m("Slice", x, m.within(integers(0, 1)), m.within(integers(1, 3)), m.constant(integers(0, 2)))
    m("Slice", x, m.within(integers(-1, 3)), m.within(integers(-9, 0)), m.constant(integers(1, 2)), m.constant(integers(-2, -1)))
    m("Slice", x, m.constant(integers(0, 1, dtype=np.int32)), m.constant(integers(2, 3, dtype=np.int32)))
    for mode in ("constant", "reflect", "edge", "wrap"):
        m("Pad", x, m.within(integers(0, 1, 2, 0, 0, 1)), mode=mode)
    m("Pad", x, m.within(integers(1, 0, -1, 2)), m.input(np.array(7, np.float32)), m.constant(integers(0, -1)))
    m("CenterCropPad", x, m.constant(integers(5, 1)), axes=[1, -1])
    m("CenterCropPad", x, m.within(integers(1, 3, 7)))
    square = m.input(floats(3, 4))
    m("Trilu", square)
    m("Trilu", square, m.constant(np.array(1)), upper=0)
    m("Trilu", square, m.within(np.array(-1)))
    m("EyeLike", square)
    m("EyeLike", square, k=1, dtype=7)
    m("DepthToSpace", m.input(floats(1, 8, 2, 3)), blocksize=2)
    m("DepthToSpace", m.input(floats(1, 8, 2, 3)), blocksize=2, mode="CRD")


@from_onnx
def onnx_convolutions(m: Onnx) -> None:
    x, w, b = m.input(floats(1, 2, 5, 6)), m.constant(floats(4, 1, 3, 2)), m.constant(floats(4))
    for auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        m("Conv", x, w, b, auto_pad=auto_pad, strides=[2, 2], group=2)
        m("Conv", x, m.constant(floats(1, 2, 2, 3)), auto_pad=auto_pad)
        m("ConvTranspose", x, m.constant(floats(2, 1, 3, 3)), auto_pad=auto_pad, strides=[2, 2])


@from_onnx
def onnx_transposed(m: Onnx) -> None:
    x = m.input(floats(1, 2, 5, 6))
    weights, b = m.constant(floats(2, 3, 3, 3)), m.constant(floats(3))
    for auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        m("ConvTranspose", x, weights, b, auto_pad=auto_pad, strides=[2, 2], output_shape=[9, 12])
        m("ConvTranspose", x, weights, b, auto_pad=auto_pad, strides=[2, 2], output_shape=[12, 14])
    m("ConvTranspose", x, weights, b, strides=[2, 2], output_padding=[1, 1], pads=[1, 0, 0, 1])
    m("ConvTranspose", x, weights, b, auto_pad="VALID", dilations=[2, 1])


@from_onnx
def onnx_Col2Im(m: Onnx) -> None:
    m.opset = 18
    m("Col2Im", m.input(floats(1, 4, 6)), m.constant(integers(3, 4)), m.constant(integers(2, 2)))
    m("Col2Im", m.input(floats(2, 8, 4)), m.constant(integers(4, 5)), m.constant(integers(2, 2)), pads=[0, 1, 0, 0],
      strides=[2, 2], dilations=[1, 2])


@from_onnx
def onnx_pools(m: Onnx) -> None:
    x = m.input(floats(1, 2, 5, 6))
    m("LpPool", x, kernel_shape=[2, 3])
    m("LpPool", x, kernel_shape=[3, 3], p=3, strides=[2, 2], auto_pad="SAME_UPPER")
    m("LpPool", x, kernel_shape=[3, 3], p=1, strides=[2, 1], pads=[1, 0, 0, 1])
    m("LpPool", m.input(floats(1, 2, 7)), kernel_shape=[3])
    m("LpPool", x, kernel_shape=[3, 3], auto_pad="SAME_LOWER", strides=[2, 1])
    places = m.within(integers(3, 5, 8, 10, 19, 22, 27, 30).reshape(1, 2, 2, 2))
    m("MaxUnpool", m.input(floats(1, 2, 2, 2)), places, kernel_shape=[2, 2], strides=[2, 2])


@from_onnx
def onnx_largest(m: Onnx) -> None:
    x = m.input(floats(2, 2, 5, 6))
    for more in ({"pads": [1, 0, 0, 1]}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}):
        m("MaxPool", x, kernel_shape=[3, 2], strides=[2, 3], outputs=2, **more)
    m("MaxPool", x, kernel_shape=[2, 2], pads=[0, 1, 1, 0], strides=[3, 3], ceil_mode=1, outputs=2)
    m("MaxPool", x, kernel_shape=[2, 3], pads=[0, 1, 1, 0], dilations=[2, 1], storage_order=1, outputs=2)
    m("MaxPool", m.input(floats(1, 2, 7)), kernel_shape=[3], pads=[2, 0], strides=[2], outputs=2)
    m("MaxPool", m.input(floats(1, 2, 4, 3, 4)), kernel_shape=[2, 2, 3], auto_pad="SAME_UPPER", outputs=2)


@from_onnx
def onnx_largest_bytes(m: Onnx) -> None:
    x = m.input((np.arange(30, dtype=np.int8).reshape(1, 1, 5, 6) * 37 % 50 - 120).astype(np.int8))
    m("MaxPool", x, kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 0, 1], outputs=2)


@from_onnx
def onnx_quantisation(m: Onnx) -> None:
    x = m.input(floats(2, 3, 4))
    scales, zeros = m.constant(np.array([0.1, 0.02, 0.5], np.float32)), m.constant(np.array([128, 3, 255], np.uint8))
    m("QuantizeLinear", x, scales, zeros)
    m("QuantizeLinear", x, m.constant(np.float32(0.03)))
    m("QuantizeLinear", x, m.constant(np.array([0.01], np.float32)), m.input(integers(-5, dtype=np.int8)))
    bytes_ = m.input(np.arange(24, dtype=np.uint8).reshape(2, 3, 4) * 10)
    m("DequantizeLinear", bytes_, scales, zeros)
    m("DequantizeLinear", bytes_, m.constant(np.float32(0.5)))
    m("DequantizeLinear", m.input(integers(5, -70000, dtype=np.int32)), m.constant(np.float32(0.25)))
    m("DynamicQuantizeLinear", x, outputs=3)


@from_onnx
def onnx_integer_products(m: Onnx) -> None:
    a, b = m.input(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40), m.input(np.arange(12, dtype=np.int8).reshape(3, 4) - 5)
    m("MatMulInteger", a, b)
    m("MatMulInteger", a, b, m.input(integers(100, dtype=np.uint8)), m.input(integers(3, dtype=np.int8)))
    step = [m.constant(np.array([value], np.float32)) for value in (0.02, 0.1, 0.3)]
    zero = [m.input(integers(value, dtype=dtype)) for value, dtype in ((100, np.uint8), (-2, np.int8), (90, np.uint8))]
    m("QLinearMatMul", a, step[0], zero[0], b, step[1], zero[1], step[2], zero[2])
    x, w = m.input(np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4) * 8), m.constant(np.arange(24, dtype=np.uint8).reshape(3, 2, 2, 2))
    m("ConvInteger", x, w, m.input(integers(100, dtype=np.uint8)), m.input(integers(12, dtype=np.uint8)))
    m("ConvInteger", x, w, strides=[2, 1], pads=[1, 0, 1, 0])
    per_channel = m.constant(np.array([0.1, 0.2, 0.05], np.float32)), m.constant(np.array([3, 12, 0], np.uint8))
    m("QLinearConv", x, step[0], zero[0], w, *per_channel, m.constant(np.float32(2.0)), zero[2],
      m.constant(integers(100, -500, 7, dtype=np.int32)))


@from_onnx
def onnx_recurrent(m: Onnx) -> None:
    x, h, c = m.input(floats(4, 2, 3)), m.input(floats(1, 2, 5)), m.input(floats(1, 2, 5))
    for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        more = {"linear_before_reset": 1} if name == "GRU" else {}
        w, r, b = m.constant(floats(1, 5 * gates, 3)), m.constant(floats(1, 5 * gates, 5)), m.constant(floats(1, 10 * gates))
        m(name, x, w, r, b, outputs=3 if name == "LSTM" else 2, hidden_size=5, direction="reverse", **more)
        state = [h, c] if name == "LSTM" else [h]
        m(name, x, w, r, b, "", *state, outputs=[False, *(True for _ in state)], hidden_size=5, **more)
        both = m.constant(floats(2, 5 * gates, 3)), m.constant(floats(2, 5 * gates, 5))
        m(name, x, *both, outputs=[True], hidden_size=5, direction="bidirectional", **more)


@from_onnx
def onnx_gates(m: Onnx) -> None:
    """What recurrent networks of PyTorch do not have."""
    x, lens = m.input(floats(4, 2, 3)), m.constant(integers(4, 2, dtype=np.int32))

    def weights(gates: int, directions: int = 1) -> list[str]:
        shapes = (5 * gates, 3), (5 * gates, 5), (10 * gates,)
        return [m.constant(floats(directions, *shape)) for shape in shapes]
    lstm, peepholes = weights(4), m.constant(floats(1, 15))
    m("LSTM", x, *lstm, lens, outputs=3, hidden_size=5, clip=0.5)
    m("LSTM", x, *lstm, "", "", "", peepholes, outputs=3, hidden_size=5)
    m("LSTM", x, *lstm, lens, "", "", peepholes, outputs=3, hidden_size=5, direction="reverse", input_forget=1)
    m("LSTM", x, *lstm, outputs=3, hidden_size=5, activations=["HardSigmoid", "ScaledTanh", "Softsign"],
      activation_alpha=[0.3, 1.5], activation_beta=[0.4, 0.7])
    m("LSTM", x, *weights(4, 2), lens, outputs=3, hidden_size=5, direction="bidirectional")
    gru = weights(3)
    m("GRU", x, *gru, outputs=2, hidden_size=5)
    m("GRU", x, *gru, lens, m.input(floats(1, 2, 5)), outputs=2, hidden_size=5, clip=0.4, direction="reverse")
    m("GRU", x, *gru, lens, outputs=2, hidden_size=5, linear_before_reset=1, clip=0.4)
    m("GRU", x, *weights(3, 2), outputs=2, hidden_size=5, direction="bidirectional")
    rnn = weights(1)
    for name, factors in (("Relu", {}), ("LeakyRelu", {"activation_alpha": [0.2]}), ("Elu", {"activation_alpha": [0.5]}),
                          ("ThresholdedRelu", {"activation_alpha": [0.3]}), ("Softplus", {}), ("Softsign", {}), ("Sigmoid", {}),
                          ("Affine", {"activation_alpha": [0.5], "activation_beta": [0.1]})):
        m("RNN", x, *rnn, lens, outputs=2, hidden_size=5, activations=[name], **factors)


@from_onnx
def onnx_boxes(m: Onnx) -> None:
    pictures = m.input(floats(2, 2, 6, 6))
    boxes, which = m.input(np.array([[0, 0, 4, 4], [1.5, 1, 5.2, 3.9]], np.float32)), m.within(integers(1, 0))
    m("RoiAlign", pictures, boxes, which, output_height=2, output_width=3, sampling_ratio=2)
    m("RoiAlign", pictures, boxes, m.constant(integers(0, 1)), output_height=2, output_width=2, spatial_scale=0.5,
      coordinate_transformation_mode="output_half_pixel")
    corners = m.input(np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 10.1, 0, 11.1]]], np.float32))
    scores = m.input(np.array([[[0.9, 0.75, 0.6, 0.95, 0.5], [0.1, 0.8, 0.2, 0.3, 0.7]]], np.float32))
    limits = [m.constant(integers(3)), m.constant(np.array([0.5], np.float32)), m.constant(np.array([0.15], np.float32))]
    m("NonMaxSuppression", corners, scores, *limits)
    m("NonMaxSuppression", corners, scores, m.within(integers(2)), center_point_box=1)
    m("NonMaxSuppression", corners, scores)


@from_onnx
def onnx_AffineGrid(m: Onnx) -> None:
    m.opset, m.by_evaluator = 20, True
    m("AffineGrid", m.input(floats(1, 2, 3)), m.constant(integers(1, 1, 3, 4)))
    m("AffineGrid", m.input(floats(1, 3, 4)), m.constant(integers(1, 1, 2, 2, 3)), align_corners=1)


@from_onnx
def onnx_single_indices(m: Onnx) -> None:
    x = m.input(floats(3, 4))
    m("Gather", x, m.constant(np.array(-1)), axis=1)
    m("Gather", x, m.constant(integers(2)))
    m("Gather", x, m.constant(integers(-1)), axis=-1)
    m("Gather", m.hidden("Relu", x), m.constant(integers(1)), axis=1)


@from_onnx
def onnx_Scatter(m: Onnx) -> None:
    m.opset = 10
    m("Scatter", m.input(floats(3, 4)), m.constant(integers(2, 0).reshape(1, 2)), m.input(floats(1, 2)), axis=1)


@from_onnx
def onnx_pads(m: Onnx) -> None:
    m.opset = 18
    x = m.input(floats(2, 3, 4))
    m("Pad", x, m.constant(integers(0, 1, 2, 0, 0, 1)), m.constant(np.float32(2.5)))
    m("Pad", x, m.constant(integers(0, -1, 2, 0, 0, 1)))
    m("Pad", x, m.constant(integers(1, 2)), m.constant(np.float32(-1)), m.constant(integers(1)))


@from_onnx
def onnx_resized(m: Onnx) -> None:
    m.opset = 18
    x = m.input(floats(1, 1, 4, 5))

    def resize(scales=None, sizes=None, roi=None, **attributes):
        optional = [m.constant(np.array(roi, np.float32)) if roi else "", m.constant(np.array(scales, np.float32)) if scales else ""]
        m("Resize", x, *optional, *([m.constant(np.array(sizes))] if sizes else []), **attributes)
    resize(scales=[2.0, 0.6], axes=[2, 3])
    resize(sizes=[7, 3], axes=[3, 2], mode="nearest")
    for nearest_mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        resize(sizes=[1, 1, 7, 3], coordinate_transformation_mode="asymmetric", nearest_mode=nearest_mode)
    for policy in ("not_larger", "not_smaller"):
        resize(sizes=[7, 8], axes=[2, 3], keep_aspect_ratio_policy=policy)
    resize(sizes=[1, 1, 3, 6], mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=10.0,
           roi=[0, 0, 0.4, 0.6, 1, 1, 1.2, 0.9])
    for mode in ("linear", "cubic"):
        for places in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
            resize(sizes=[7, 3], axes=[2, 3], mode=mode, coordinate_transformation_mode=places)
        resize(sizes=[3, 2], axes=[2, 3], mode=mode, antialias=1)
        resize(scales=[1.7, 0.6], axes=[2, 3], mode=mode, exclude_outside=int(mode == "cubic"))
    resize(sizes=[6, 9], axes=[2, 3], mode="cubic", cubic_coeff_a=-0.5, coordinate_transformation_mode="tf_crop_and_resize",
           roi=[0.1, 0.2, 0.8, 0.9])


@from_onnx
def onnx_resized_symmetrically(m: Onnx) -> None:
    m.opset = 19
    for mode in ("nearest", "linear", "cubic"):
        m("Resize", m.input(floats(1, 1, 4, 5)), "", m.constant(np.array([2.3, 0.7], np.float32)), axes=[2, 3], mode=mode,
          coordinate_transformation_mode="half_pixel_symmetric")


@from_onnx
def onnx_CumProd(m: Onnx) -> None:
    m.opset, m.by_evaluator = 26, True
    x = m.input(floats(2, 3))
    for reverse in (0, 1):
        m("CumProd", x, m.constant(np.array(1)), exclusive=1 - reverse, reverse=reverse)


@from_onnx
def onnx_one_hot(m: Onnx) -> None:
    indices = m.within(integers(0, 2, -1, 5))
    m("OneHot", indices, m.constant(np.array(3)), m.constant(np.array([0.0, 1.0], np.float32)))
    m("OneHot", indices, m.constant(np.array(4)), m.constant(integers(2, 5)), axis=0)


@from_onnx
def onnx_bounds(m: Onnx) -> None:
    x = m.input(floats(2, 3))
    m("Clip", x, m.input(np.float32(-0.2)), m.input(np.float32(0.3)))
    m("Clip", x, m.input(np.float32(0.1)))
    m("CastLike", x, m.input(integers(1)))
    m("Det", m.input(floats(2, 3, 3)))
    m("Det", m.input(np.array([[0, 2], [3, 0]], np.float32)))


@from_onnx
def onnx_means(m: Onnx) -> None:
    x = m.input(floats(2, 3, 4, 5))
    for include in (0, 1):
        m("AveragePool", x, kernel_shape=[3, 3], pads=[0, 0, 1, 1], strides=[2, 2], count_include_pad=include)
        m("AveragePool", x, kernel_shape=[3, 3], pads=[1, 0, 0, 1], strides=[3, 3], count_include_pad=include, ceil_mode=1)
        m("AveragePool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1], strides=[3, 3], count_include_pad=include, ceil_mode=1)
    m("GlobalLpPool", x)
    m("GlobalLpPool", x, p=1)
    m("MeanVarianceNormalization", x)
    m("BatchNormalization", x, *(m.input(np.abs(floats(3))) for _ in range(4)), outputs=3, training_mode=1, momentum=0.7)


@from_onnx
def onnx_noise(m: Onnx) -> None:
    m.values = False
    x = m.input(floats(2, 3))
    m("RandomNormalLike", x, mean=1.0, scale=2.0)
    m("RandomUniformLike", x, low=-1.0, dtype=11)


@from_onnx
def onnx_Mod(m: Onnx) -> None:
    m("Mod", m.within(integers(5, -5, 7, -7)), m.within(integers(3, 3, -2, -2)), fmod=0)
    m("Mod", m.within(integers(5, -5)), m.constant(np.array(3)), fmod=0)
    m("Mod", m.input(np.array([5.3, -5.3, 7], np.float32)), m.input(np.array([3, 3, -2.5], np.float32)), fmod=1)
    m("Mod", m.within(integers(5, -5, 7, -7)), m.within(integers(3, 3, -2, -2)), fmod=1)


@from_onnx
def onnx_forms_of_pytorch(m: Onnx) -> None:
    """What PNNX writes under PyTorch's names, but as PyTorch would not."""
    m.opset = 20
    x = m.input(floats(3, 4))
    m("Gather", x, m.constant(integers(2, 0, -1, 2)), axis=1)
    m("Gather", x, m.constant(integers(-1, 0)))
    m("Conv", m.input(floats(1, 2, 5, 6)), m.constant(floats(3, 2, 3, 2)), auto_pad="SAME_UPPER", strides=[2, 2])
    m("GridSample", m.input(floats(1, 2, 4, 3)), m.input(floats(1, 2, 2, 2)), mode="linear")


@from_onnx
def onnx_equal_parts(m: Onnx) -> None:
    x = m.input(floats(4, 6))
    m("Split", x, outputs=2)
    m("Split", x, outputs=3, axis=-1)


@from_onnx
def onnx_nothing(m: Onnx) -> None:
    m.opset, m.by_evaluator = 20, True
    x = m.input(floats(2, 0, 3))
    for name in ("Max", "Min"):
        m(f"Reduce{name}", x, m.constant(integers(1)))


@from_onnx
def onnx_unique(m: Onnx) -> None:
    x = m.input(np.array([2, 1, 1, 3, 4, 3], np.float32))
    for order in (0, 1):
        m("Unique", x, outputs=4, sorted=order)
        m("Unique", m.input(np.array([[1, 0, 0], [2, 3, 4], [1, 0, 0], [0, 3, 4]], np.float32)), outputs=4, axis=0, sorted=order)
    m("Unique", m.input(integers(5, 2**53, 2**53 + 1, 5).reshape(2, 2)))
    m("Unique", m.input(np.array([[1, 0, 1], [2, 3, 2]], np.float32)), outputs=2, axis=-1)


@from_onnx
def onnx_DeformConv(m: Onnx) -> None:
    m.opset, m.by_evaluator = 19, True
    x, w, b = m.input(floats(1, 4, 4, 5)), m.constant(floats(2, 2, 2, 2)), m.constant(floats(2))
    m("DeformConv", x, w, m.input(floats(1, 16, 5, 6)), b, group=2, offset_group=2, pads=[1, 1, 1, 1])
    m("DeformConv", x, w, m.input(floats(1, 16, 2, 3)), "", m.input(floats(1, 8, 2, 3)), group=2, offset_group=2, pads=[1, 1, 0, 1],
      strides=[2, 2])
    m("DeformConv", x, m.constant(floats(3, 4, 2, 2)), m.input(floats(1, 8, 2, 4)), dilations=[2, 1])


@from_onnx
def onnx_draws(m: Onnx) -> None:
    m.values = False
    m("Relu", m.input(floats(2)))
    m("RandomNormal", shape=[2, 3], mean=1.0)
    m("RandomUniform", shape=[4], low=1.0, high=3.0, dtype=11)
    m("Multinomial", m.input(floats(2, 3)), sample_size=5, dtype=7)
    m("Multinomial", m.input(floats(1, 4)))
