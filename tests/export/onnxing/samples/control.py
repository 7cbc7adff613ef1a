"""Branches, loops, functions, sequences and optionals; sizes that are computed; weights in other files."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..building import sample


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@sample
def branches(m):
    """The condition is an input; a branch takes values from outside, and gives two results."""
    x, other = m.normal(2, 3), m.normal(2, 3)
    m.text("""branches (bool c, float[2,3] x) => (float[2,3] y, float[2,3] z) {
        y, z = If (c) <
            then_branch = yes () => (float[2,3] a, float[2,3] b) { a = Relu (x) b = Add (x, a) },
            else_branch = no () => (float[2,3] a, float[2,3] b) { a = Neg (x) b = Identity (x) }
        >
    }""", {"c": np.bool_(True), "x": x}, {"c": np.bool_(False), "x": other})


@sample
def branches_of_shapes(m):
    """The condition follows from the shape, as exporters write it for `squeeze`."""
    m.text("""branches_of_shapes (float[n,1] x) => (float[] y) {
        shape = Shape (x)
        one = Constant <value_int = 1> ()
        length = Gather <axis = 0> (shape, one)
        is_one = Equal (length, one)
        y = If (is_one) <
            then_branch = yes () => (float[] a) { axes = Constant <value_ints = [1]> () a = Squeeze (x, axes) },
            else_branch = no () => (float[] b) { b = Identity (x) }
        >
    }""", {"x": m.normal(3, 1)}, {"x": m.normal(2, 1)})


@sample
def branches_known(m):
    """The condition is a constant, and branches are nested."""
    m.text("""branches_known (float[2] x) => (float[2] y)
        <bool yes = {1}, bool no = {0}> {
        y = If (yes) <
            then_branch = outer () => (float[2] a) {
                a = If (no) <then_branch = t () => (float[2] b) { b = Neg (x) }, else_branch = e () => (float[2] b) { b = Exp (x) }>
            },
            else_branch = other () => (float[2] c) { c = Abs (x) }
        >
    }""", {"x": m.normal(2)})


@sample
def loops(m):
    """A known number of rounds, a state, a value from outside, and what each round gives."""
    m.text("""loops (float[2] x, float[2] step) => (float[2] y, float[3,2] all)
        <int64 rounds = {3}, bool yes = {1}> {
        y, all = Loop (rounds, yes, x) <
            body = round (int64 i, bool go, float[2] state) => (bool again, float[2] next, float[2] shown) {
                again = Identity (go)
                times = Cast <to = 1> (i)
                scaled = Mul (step, times)
                next = Add (state, scaled)
                shown = Neg (next)
            }
        >
    }""", {"x": m.normal(2), "step": m.normal(2)})


@sample
def loops_by_input(m):
    """The number of rounds is an input."""
    m.text("""loops_by_input (int64 rounds, float[2] x) => (float[2] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (rounds, yes, x) <
            body = round (int64 i, bool go, float[2] state) => (bool again, float[2] next) {
                again = Identity (go)
                next = Add (state, state)
            }
        >
    }""", {"rounds": np.int64(3), "x": m.normal(2)}, {"rounds": np.int64(0), "x": m.normal(2)})


@sample
def loops_until(m):
    """The end follows from values."""
    m.text("""loops_until (float x) => (float y, int64 count)
        <int64 most = {20}, bool yes = {1}, int64 zero = {0}, int64 one = {1}, float limit = {10.0}> {
        y, count = Loop (most, yes, x, zero) <
            body = round (int64 i, bool go, float state, int64 n) => (bool again, float next, int64 more) {
                next = Add (state, state)
                more = Add (n, one)
                again = Less (next, limit)
            }
        >
    }""", {"x": np.float32(1.5)}, {"x": np.float32(40)})


@sample
def scans(m):
    m.text("""scans (float[2] start, float[3,2] x) => (float[2] y, float[3,2] all) {
        y, all = Scan <
            num_scan_inputs = 1,
            body = round (float[2] state, float[2] row) => (float[2] next, float[2] shown) {
                next = Add (state, row)
                shown = Identity (next)
            }
        > (start, x)
    }""", {"start": m.normal(2), "x": m.normal(3, 2)})


@sample(by_runtime=True)
def scans_backwards(m):
    """Other axes and directions, which the evaluator lacks."""
    m.text("""scans_backwards (float[2] start, float[2,3] x) => (float[2] y, float[2,3] all) {
        y, all = Scan <
            num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [1],
            body = round (float[2] state, float[2] column) => (float[2] next, float[2] shown) {
                next = Add (state, column)
                shown = Neg (next)
            }
        > (start, x)
    }""", {"start": m.normal(2), "x": m.normal(2, 3)})


@sample(domains={"local": 1})
def functions(m):
    """Functions of the file: with an attribute, and calling each other."""
    m.text("""functions (float[2,3] x) => (float[2,3] y) {
        a = local.scaled <factor = 2.5> (x)
        y = local.twice (a)
    }
    <domain: "local", opset_import: ["": 21]>
    scaled <factor> (x) => (y) {
        f = Constant <value_float: float = @factor> ()
        y = Mul (x, f)
    }
    <domain: "local", opset_import: ["": 21, "local": 1]>
    twice (x) => (y) {
        half = local.scaled <factor = 0.5> (x)
        y = Add (half, x)
    }""", {"x": m.normal(2, 3)})


@sample
def computed_sizes(m):
    """What exporters make of `x.reshape(x.shape[0], -1)` and of `x.expand`."""
    x = m.input(m.normal(2, 3, 4), m.normal(5, 1, 4), dims=["batch", "length", 4])
    shape = m.hidden("Shape", x)
    batch = m.hidden("Gather", shape, m.constant(np.int64(0)), axis=0)
    length = m.hidden("Slice", shape, m.constant(i64(1)), m.constant(i64(2)))
    rows = m.hidden("Unsqueeze", batch, m.constant(i64(0)))
    m("Reshape", x, m.hidden("Concat", rows, m.constant(i64(-1)), axis=0))
    product = m.hidden("Mul", rows, length)
    m("Reshape", x, m.hidden("Concat", product, m.constant(i64(2, 2)), axis=0))
    m("Expand", m.constant(m.normal(1, 4)), m.hidden("Concat", rows, length, m.constant(i64(4)), axis=0))
    m("Range", m.constant(np.int64(0)), batch, m.constant(np.int64(1)))
    m("ConstantOfShape", rows)
    m("Slice", x, m.constant(i64(0)), m.hidden("Sub", length, m.constant(i64(1))), m.constant(i64(1)))


@sample
def attention_by_hand(m):
    """As exporters write it: heads by `Reshape` and `Transpose`, with any batch and length."""
    x = m.input(m.normal(1, 3, 4), m.normal(2, 5, 4), dims=["batch", "length", 4])
    split, whole = m.constant(i64(0, -1, 2, 2)), m.constant(i64(0, -1, 4))

    def heads(perm):
        y = m.hidden("Add", m.hidden("MatMul", x, m.constant(m.normal(4, 4))), m.constant(m.normal(4)))
        return m.hidden("Transpose", m.hidden("Reshape", y, split), perm=perm)
    scores = m.hidden("MatMul", heads([0, 2, 1, 3]), heads([0, 2, 3, 1]))
    weights = m.hidden("Softmax", m.hidden("Mul", scores, m.constant(np.float32(0.7))), axis=-1)
    y = m.hidden("Transpose", m.hidden("MatMul", weights, heads([0, 2, 1, 3])), perm=[0, 2, 1, 3])
    m("Reshape", y, whole)


@sample
def external_data(m):
    """Weights in a file next to the model."""
    x = m.input(m.normal(2, 4))
    m("Add", m.hidden("MatMul", x, m.constant(m.normal(4, 3), external=True)), m.constant(m.normal(3), external=True))


@sample(by_runtime=True)
def sparse_weights(m):
    x = m.input(m.normal(2, 3))
    values, indices = numpy_helper.from_array(m.normal(3), "w"), numpy_helper.from_array(i64(0, 4, 5), "w_at")
    m.sparse.append(helper.make_sparse_tensor(values, indices, [3, 2]))
    m("MatMul", x, "w")


@sample
def typed_storage(m):
    """Weights in the typed fields of a tensor instead of bytes."""
    x = m.input(m.normal(2))
    for data_type, values in ((1, [0.5, -1.5]), (11, [0.25, 2]), (7, [3, -4]), (6, [5, -6]), (3, [-7, 8]), (9, [True, False])):
        name = f"typed{data_type}"
        m.constants.append(helper.make_tensor(name, data_type, [2], values))
        m("Identity", name)
    half = helper.make_tensor("typed10", 10, [2], [1.5, -2.5])
    m.constants.append(half)
    m("Cast", "typed10", to=1)
    m("Neg", x)


@sample
def sequences(m):
    """Sequences that come and go within the graph."""
    a, b = m.input(m.normal(2, 3)), m.input(m.normal(2, 3))
    zero, one = m.constant(np.int64(0)), m.constant(np.int64(1))
    both = m.hidden("SequenceConstruct", a, b)
    m("SequenceAt", both, one)
    m("SequenceLength", both)
    m("ConcatFromSequence", both, axis=0)
    m("ConcatFromSequence", both, axis=1, new_axis=1)
    three = m.hidden("SequenceInsert", both, m.input(m.normal(1, 3)), zero)
    m("SequenceAt", three, zero)
    m("ConcatFromSequence", m.hidden("SequenceErase", three, one), axis=0)
    started = m.hidden("SequenceInsert", m.hidden("SequenceEmpty"), a)
    m("SequenceAt", started, m.constant(np.int64(-1)))
    parts = m.hidden("SplitToSequence", a, m.constant(i64(1, 2)), axis=1)
    m("SequenceAt", parts, one)
    m("SequenceAt", m.hidden("SplitToSequence", a, axis=0, keepdims=0), zero)


@sample
def sequence_map(m):
    m.text("""sequence_map (float[2] a, float[2] b) => (float[2] y) <int64 one = {1}> {
        s = SequenceConstruct (a, b)
        t = SequenceMap <body = each (float[2] x) => (float[2] z) { z = Neg (x) }> (s)
        y = SequenceAt (t, one)
    }""", {"a": m.normal(2), "b": m.normal(2)})


@sample(by_runtime=True)
def optionals(m):
    """Optionals that come and go within the graph; the evaluator gives their tensors an axis more."""
    x = m.input(m.normal(2, 3))
    held = m.hidden("Optional", x)
    m("OptionalGetElement", held)
    m("OptionalHasElement", held)
    m("OptionalHasElement", m.hidden("Optional", type=helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2])))


@sample
def odd_names(m):
    """Names that a text format has to escape, names that nodes share, and nodes without one."""
    x = m.input(m.normal(2, 3))
    first, second = m.hidden("Relu", x), m.hidden("Neg", x)
    third = m("Add", first, second)
    renamed = {x: "an input: 1/2 = #0", first: "/model/stft#a b\t@w", second: "größe=(2,3)f32", third: "out put"}
    for node in m.nodes:
        node.name = "" if node.op_type == "Add" else "same name"
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    m.sets = [{renamed[x]: values for values in each.values()} for each in m.sets]
    m.dims = {renamed[x]: None}
    m.outputs = [renamed[third]]


@sample
def passed_on(m):
    """Outputs that are an initialiser or a copy; an input that nothing reads; a node that nothing needs."""
    x, _ = m.input(m.normal(2)), m.input(m.integers(0, 9, 3))
    y = m("Neg", x)
    m.hidden("Exp", x)
    m.outputs.append(m.constant(m.normal(2)))
    m("Identity", y)


@sample(opset=8)
def initialisers_as_inputs(m):
    """As in old files, whose constants are listed as inputs; callers give only the first."""
    x, w = m.input(m.normal(2, 3)), m.constant(m.normal(3, 2))
    m("MatMul", x, w)
    m.listed = {w}
