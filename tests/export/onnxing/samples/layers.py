"""Layers of networks for pictures: convolutions, pooling, norms, resampling, and products."""

import io

import numpy as np
from PIL import Image

from ..building import sample


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@sample
def conv(m):
    x, w = m.input(m.normal(1, 2, 5, 6)), m.constant(m.normal(4, 2, 3, 3))
    bias = m.constant(m.normal(4))
    m("Conv", x, w)
    m("Conv", x, w, bias, pads=[1, 1, 1, 1], strides=[2, 2])
    m("Conv", x, w, pads=[0, 1, 2, 1], dilations=[2, 1])
    m("Conv", x, w, bias, auto_pad="SAME_UPPER", strides=[2, 2])
    m("Conv", x, w, auto_pad="SAME_LOWER", strides=[2, 2])
    m("Conv", x, m.constant(m.normal(4, 1, 3, 3)), group=2, kernel_shape=[3, 3])
    # Weights that the graph computes.
    m("Conv", x, m.input(m.normal(1, 2, 1, 1)))


@sample
def conv_ranks(m):
    m("Conv", m.input(m.normal(1, 2, 7)), m.constant(m.normal(3, 2, 3)), pads=[1, 2], strides=[2])
    m("Conv", m.input(m.normal(1, 1, 3, 4, 3)), m.constant(m.normal(2, 1, 2, 2, 2)), m.constant(m.normal(2)))
    m("ConvTranspose", m.input(m.normal(1, 2, 4)), m.constant(m.normal(2, 3, 3)), strides=[2])


@sample
def conv_transpose(m):
    x, w = m.input(m.normal(1, 2, 3, 3)), m.constant(m.normal(2, 2, 3, 3))
    m("ConvTranspose", x, w)
    m("ConvTranspose", x, w, m.constant(m.normal(2)), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
    m("ConvTranspose", x, w, strides=[3, 2], output_shape=[10, 8])
    m("ConvTranspose", x, w, strides=[2, 2], auto_pad="SAME_UPPER")
    m("ConvTranspose", x, w, pads=[0, 1, 1, 0], dilations=[2, 1])
    m("ConvTranspose", x, m.constant(m.normal(2, 1, 2, 2)), group=2)


@sample
def deform_conv(m):
    x, w = m.input(m.normal(1, 1, 3, 3)), m.constant(m.normal(1, 1, 2, 2))
    offsets = m.input(m.normal(1, 8, 2, 2))
    m("DeformConv", x, w, offsets)
    m("DeformConv", x, w, offsets, m.constant(m.normal(1)), m.input(m.uniform(0, 1, 1, 4, 2, 2)))


@sample
def pool(m):
    x = m.input(m.normal(1, 2, 5, 6))
    m("MaxPool", x, kernel_shape=[2, 2])
    m("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    m("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    m("MaxPool", x, kernel_shape=[2, 2], dilations=[2, 2])
    m("MaxPool", x, kernel_shape=[3, 2], auto_pad="SAME_UPPER", strides=[2, 2])
    m("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    m("AveragePool", x, kernel_shape=[2, 2])
    m("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    m("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    m("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    m("AveragePool", x, kernel_shape=[2, 2], auto_pad="SAME_LOWER")
    m("LpPool", x, kernel_shape=[2, 2], p=2)
    m("GlobalAveragePool", x)
    m("GlobalMaxPool", x)


@sample
def pool_ranks(m):
    x, y = m.input(m.normal(1, 2, 7)), m.input(m.normal(1, 1, 3, 4, 4))
    m("MaxPool", x, kernel_shape=[3], strides=[2], pads=[1, 0])
    m("AveragePool", x, kernel_shape=[3], strides=[2], pads=[0, 1])
    m("MaxPool", y, kernel_shape=[2, 2, 2])
    m("AveragePool", y, kernel_shape=[2, 2, 2])
    m("GlobalAveragePool", x)
    m("GlobalAveragePool", y)


@sample(by_runtime=True)
def pool_rare(m):
    m("GlobalMaxPool", m.input(m.normal(1, 1, 3, 4, 4)))
    x = m.input(m.normal(1, 2, 4, 4))
    m("GlobalLpPool", x)
    m("GlobalLpPool", x, p=3)
    m("MaxRoiPool", x, m.input(np.array([[0, 0, 0, 3, 3], [0, 1, 1, 2, 3]], np.float32)), pooled_shape=[2, 2])


@sample
def unpool(m):
    x, indices = m.input(m.normal(1, 1, 2, 2)), m.constant(i64(5, 7, 13, 15).reshape(1, 1, 2, 2))
    m("MaxUnpool", x, indices, kernel_shape=[2, 2], strides=[2, 2])


@sample
def batch_norm(m):
    x = m.input(m.normal(2, 3, 2, 2))
    of = [m.constant(m.uniform(0.5, 2, 3)), m.constant(m.normal(3)), m.constant(m.normal(3)), m.constant(m.uniform(0.5, 2, 3))]
    m("BatchNormalization", x, *of)
    m("BatchNormalization", m.input(m.normal(4, 3)), *of, epsilon=1e-2)
    m("BatchNormalization", m.hidden("Conv", x, m.constant(m.normal(3, 3, 1, 1))), *of)


@sample
def norms(m):
    x = m.input(m.normal(2, 4, 3))
    m("InstanceNormalization", x, m.constant(m.normal(4)), m.constant(m.normal(4)))
    m("LayerNormalization", x, m.constant(m.normal(3)))
    m("LayerNormalization", x, m.constant(m.normal(4, 3)), m.constant(m.normal(4, 3)), axis=1, epsilon=1e-2, outputs=3)
    m("GroupNormalization", x, m.constant(m.normal(4)), m.constant(m.normal(4)), num_groups=2)
    m("MeanVarianceNormalization", m.input(m.normal(2, 2, 2, 2)))
    m("MeanVarianceNormalization", m.input(m.normal(2, 3, 2)), axes=[1])


@sample(by_runtime=True)
def response_norm(m):
    """The evaluator leaves out channels where there are more of them than rows."""
    m("LRN", m.input(m.normal(1, 5, 2, 2)), size=3)
    m("LRN", m.input(m.normal(1, 4, 2, 2)), size=5, alpha=0.02, beta=0.5, bias=2.0)


@sample(opset=23)
def rms_norm(m):
    x = m.input(m.normal(2, 4, 3))
    m("RMSNormalization", x, m.constant(m.normal(3)))
    m("RMSNormalization", x, m.constant(m.normal(4, 3)), axis=1, epsilon=1e-2)


@sample
def dropout(m):
    """Without training, which is all that a runtime has to know."""
    x = m.input(m.normal(2, 3))
    m("Dropout", x)
    m("Dropout", x, m.constant(np.float32(0.7)), m.constant(np.bool_(False)), outputs=2)


@sample
def products(m):
    a, b = m.input(m.normal(2, 3, 4)), m.input(m.normal(4, 5))
    m("MatMul", a, b)
    m("MatMul", a, m.constant(m.normal(4, 2)))
    m("MatMul", a, m.input(m.normal(4)))
    m("MatMul", m.input(m.normal(3)), m.input(m.normal(2, 3, 2)))
    m("MatMul", m.input(m.normal(4, 1, 2, 3)), m.input(m.normal(2, 3, 2)))
    m("MatMul", m.input(m.normal(2, 0)), m.input(m.normal(0, 3)))
    m("MatMul", m.input(m.integers(-3, 3, 2, 3)), m.input(m.integers(-3, 3, 3, 2)))
    m("Det", m.input(m.normal(2, 3, 3)))


@sample
def gemm(m):
    a, w = m.input(m.normal(3, 4)), m.constant(m.normal(5, 4))
    m("Gemm", a, w, m.constant(m.normal(5)), transB=1)
    m("Gemm", a, m.constant(m.normal(4, 2)))
    m("Gemm", a, w, m.constant(m.normal(3, 1)), transB=1, alpha=0.5, beta=2.0)
    m("Gemm", m.input(m.normal(4, 3)), m.input(m.normal(4, 2)), m.input(m.normal(3, 2)), transA=1)
    m("Gemm", a, w, m.constant(np.float32(2)), transB=1)


@sample
def einsum(m):
    a, b = m.input(m.normal(2, 3, 4)), m.input(m.normal(2, 4, 3))
    m("Einsum", a, b, equation="bij,bjk->bik")
    m("Einsum", a, equation="bij->bji")
    m("Einsum", a, b, equation="bij, bjk")
    m("Einsum", a, m.input(m.normal(5, 4)), equation="...j,kj->...k")
    m("Einsum", m.input(m.normal(3, 3)), equation="ii->i")


@sample
def resize(m):
    x = m.input(m.normal(1, 1, 3, 4))
    scales, sizes = m.constant(np.array([1, 1, 2, 1.5], np.float32)), m.constant(i64(1, 1, 5, 7))
    m("Resize", x, "", scales, mode="nearest")
    m("Resize", x, "", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    m("Resize", x, "", "", sizes, mode="linear")
    m("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode="align_corners")
    m("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    m("Resize", x, "", scales, mode="cubic", cubic_coeff_a=-0.5)
    m("Resize", x, "", "", m.constant(i64(6, 8)), mode="nearest", axes=[2, 3], coordinate_transformation_mode="asymmetric")


@sample
def resize_smaller(m):
    x = m.input(m.normal(1, 1, 6, 8))
    half = m.constant(np.array([1, 1, 0.5, 0.5], np.float32))
    m("Resize", x, "", half, mode="linear", antialias=1)
    m("Resize", x, "", half, mode="cubic", antialias=1)
    m("Resize", x, "", "", m.constant(i64(3, 3)), mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger")
    m("Resize", x, m.constant(np.array([0, 0, 0.2, 0.2, 1, 1, 0.8, 1.2], np.float32)), "", m.constant(i64(1, 1, 4, 4)), mode="linear",
      coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0)


@sample
def grids(m):
    x, grid = m.input(m.normal(1, 2, 3, 4)), m.input(m.uniform(-1.3, 1.3, 1, 3, 3, 2))
    for mode in ("linear", "nearest", "cubic"):
        m("GridSample", x, grid, mode=mode)
    for padding in ("border", "reflection"):
        m("GridSample", x, grid, padding_mode=padding, align_corners=1)
    theta = m.input(m.normal(1, 2, 3))
    m("AffineGrid", theta, m.constant(i64(1, 1, 2, 3)))
    m("AffineGrid", theta, m.constant(i64(1, 1, 2, 3)), align_corners=1)
    m("AffineGrid", m.input(m.normal(1, 3, 4)), m.constant(i64(1, 1, 2, 2, 2)))


@sample
def regions(m):
    x = m.input(m.normal(1, 1, 6, 6))
    rois, batch = m.input(np.array([[0, 0, 4, 4], [1, 2, 5, 5]], np.float32)), m.constant(i64(0, 0))
    m("RoiAlign", x, rois, batch, output_height=2, output_width=2, sampling_ratio=2)
    m("RoiAlign", x, rois, batch, output_height=2, output_width=3, spatial_scale=0.5, coordinate_transformation_mode="output_half_pixel",
      sampling_ratio=2)
    m("RoiAlign", x, rois, batch, output_height=1, output_width=2, mode="max", sampling_ratio=1)


@sample
def decoded_pictures(m):
    """Files without losses, whose pixels are certain."""
    pixels = m.integers(0, 256, 4, 5, 3, dtype=np.uint8)
    for ending in ("PNG", "BMP"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, ending)
        x = m.input(np.frombuffer(file.getvalue(), np.uint8))
        for layout in ("RGB", "BGR"):
            m("ImageDecoder", x, pixel_format=layout)


@sample
def suppression(m):
    corners = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1]]], np.float32)
    boxes, scores = m.input(corners), m.input(np.array([[[0.9, 0.75, 0.6, 0.95, 0.5], [0.1, 0.8, 0.3, 0.2, 0.7]]], np.float32))
    count, overlap, least = m.constant(i64(3)), m.constant(np.array([0.5], np.float32)), m.constant(np.array([0.4], np.float32))
    m("NonMaxSuppression", boxes, scores, count, overlap)
    m("NonMaxSuppression", boxes, scores, count, overlap, least)
    m("NonMaxSuppression", boxes, scores, count, overlap, center_point_box=1)
