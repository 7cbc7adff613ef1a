"""Writes the files that the fuzz target `onnx` starts from into `corpus/onnx`: `pip install onnx`, then run it."""

from pathlib import Path

import onnx
from onnx import TensorProto, parser

OPSETS = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "local": 1]>\n'

MODELS = {
    "arithmetic": """g (float[n, 3] x) => (float[n, 3] y) <float[3] w = {1, 2, 3}>
        { a = Add(x, w)  b = Mul(a, a)  y = Relu(b) }""",
    "convolution": """g (float[1, 1, 5, 5] x) => (float[1, 2, 5, 5] y) <float[2, 1, 1, 1] w = {1, 2}, float[2] b = {0, 1}>
        { y = Conv <pads = [0, 0, 0, 0], strides = [1, 1]> (x, w, b) }""",
    "shapes": """g (float[n, 4] x) => (float[m, 2] y) <int64[1] end = {-1}, int64[1] two = {2}, int64 zero = {0}>
        { s = Shape(x)  n = Gather <axis = 0> (s, zero)  k = Unsqueeze(n, zero)  t = Concat <axis = 0> (end, two)
          y = Reshape(x, t) }""",
    "branches": """g (float[2] x, bool c) => (float[2] y)
        { y = If (c) <then_branch = a () => (float[2] r) { r = Relu(x) },
                      else_branch = b () => (float[2] r) { r = Sigmoid(x) }> }""",
    "loops": """g (float[2] x) => (float[2] y, float[k, 2] z) <int64 n = {3}, bool c = {1}>
        { y, z = Loop (n, c, x) <body = b (int64 i, bool go, float[2] s) => (bool g2, float[2] t, float[2] u)
            { g2 = Identity(go)  t = Add(s, x)  u = Identity(t) }> }""",
    "scans": """g (float[2] x, float[3, 2] z) => (float[2] y, float[3, 2] a)
        { y, a = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] p) => (float[2] t, float[2] u)
            { t = Add(s, p)  u = Identity(t) }> (x, z) }""",
    "sequences": """g (float[4] x) => (float[4] y) <int64[2] sizes = {1, 3}, int64 first = {0}>
        { s = SplitToSequence(x, sizes)  e = SequenceAt(s, first)  t = SequenceInsert(s, e)
          u = SequenceErase(t, first)  y = ConcatFromSequence <axis = 0> (u) }""",
    "quantized": """g (float[1, 4] x) => (float[1, 4] y) <float s = {0.5}, uint8 z = {128}>
        { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }""",
    "functions": """g (float[2] x) => (float[2] y) { y = local.twice <k = 2.0> (x) }
        <domain: "local", opset_import: ["": 21]> twice <k> (a) => (b)
        { c = Constant <value_float: float = @k> ()  d = Mul(a, c)  b = Add(d, a) }""",
    "optional": """g (float[2] x) => (float[2] y, bool h)
        { o = Optional(x)  h = OptionalHasElement(o)  y = OptionalGetElement(o) }""",
}


def sparse() -> onnx.ModelProto:
    """A tensor with one element that is not zero, and one whose data are in another file."""
    model = parser.parse_model(OPSETS + "g (float[2] x) => (float[2] y) { a = Add(x, v)  y = Mul(a, w) }")
    values = onnx.helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    indices = onnx.helper.make_tensor("", TensorProto.INT64, [1], [1])
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2]))
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "weights", "offset": "0", "length": "8"}.items():
        weight.external_data.add(key=key, value=value)
    model.graph.initializer.append(weight)
    return model


def main() -> None:
    folder = Path(__file__).parent / "corpus" / "onnx"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in MODELS.items():
        (folder / f"{name}.onnx").write_bytes(parser.parse_model(OPSETS + text).SerializeToString())
    (folder / "stored.onnx").write_bytes(sparse().SerializeToString())


if __name__ == "__main__":
    main()
