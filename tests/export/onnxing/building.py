"""Small models with inputs and outputs: built node by node or from text, in the layout of ONNX's own tests.

Outputs are those of ONNX's reference evaluator, and onnxruntime must agree where it has the operators; outputs of operators
that only onnxruntime has are its own.
"""

import re
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnx import helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from .kinds import operators

# The newest version whose operators onnxruntime has nearly all.
OPSET = 21
# Both compute in f32; order of sums and approximations of functions differ.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
SAMPLES: dict[str, Callable[[], "Sample"]] = {}


class Sample:
    """A model under construction. Each node's results are outputs of the model, unless they are hidden."""

    def __init__(self, name: str, opset: int = OPSET, domains: dict[str, int] | None = None, by_runtime: bool = False,
                 checked: bool = True, standard: bool = True, convert: int = 0,
                 instead: Callable[[onnx.ModelProto], onnx.ModelProto] | None = None):
        self.name, self.by_runtime, self.checked, self.standard = name, by_runtime, checked, standard
        self.convert, self.instead = convert, instead
        """The version of the operators to which the model is converted to compute its outputs, or 0."""
        self.opsets = {"": opset} | (domains or {})
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes, self.constants, self.sparse, self.outputs = [], [], [], []
        self.sets: list[dict[str, np.ndarray]] = [{}]
        self.dims: dict[str, list | None] = {}
        self.parsed: onnx.ModelProto | None = None
        self.external: set[str] = set()
        self.listed: set[str] = set()
        """Constants that the model lists as inputs, too."""

    def normal(self, *shape: int, dtype=np.float32) -> np.ndarray:
        """Normal numbers with few digits, which keeps differences easy to read."""
        return self.rng.normal(size=shape).round(3).astype(dtype)

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
        return self.rng.uniform(low, high, shape).round(3).astype(np.float32)

    def integers(self, low: int, high: int, *shape: int, dtype=np.int64) -> np.ndarray:
        """Integers from `low` up to, not including, `high`."""
        return self.rng.integers(low, high, shape).astype(dtype)

    def bools(self, *shape: int) -> np.ndarray:
        return self.rng.integers(0, 2, shape).astype(bool)

    def input(self, values, *others, dims: list | None = None) -> str:
        """An input with the values of each set; `dims` has names for dimensions of any size."""
        name = f"x{len(self.dims)}"
        self.dims[name] = dims
        while len(self.sets) < 1 + len(others):
            self.sets.append({})
        for each, array in zip(self.sets, (values, *others), strict=True):
            each[name] = np.asarray(array)
        return name

    def constant(self, values, external: bool = False) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        self.external |= {name} if external else set()
        return name

    def hidden(self, op_type: str, *inputs: str, outputs: int | list[bool] = 1, **attributes):
        """Adds a node whose results are not outputs of the model; `outputs` may say which of its results are there."""
        kept = outputs if isinstance(outputs, list) else [True] * outputs
        names = [f"y{len(self.nodes)}_{at}" if keep else "" for at, keep in enumerate(kept)]
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, names, name, **attributes))
        shown = [name for name in names if name]
        return shown[0] if len(shown) == 1 else shown

    def __call__(self, op_type: str, *inputs: str, **settings):
        """Adds a node."""
        names = self.hidden(op_type, *inputs, **settings)
        self.outputs += [names] if isinstance(names, str) else names
        return names

    def text(self, text: str, *sets: dict[str, np.ndarray]) -> None:
        """A whole model from ONNX's own text format, without its header, and its inputs."""
        versions = ", ".join(f'"{domain}": {version}' for domain, version in self.opsets.items())
        self.parsed = parser.parse_model(f"<ir_version: 10, opset_import: [{versions}]> {text}")
        self.sets = [{name: np.asarray(values) for name, values in each.items()} for each in sets]

    def model(self) -> onnx.ModelProto:
        if self.parsed is not None:
            return self.parsed
        inputs = [info(name, values, self.dims[name]) for name, values in self.sets[0].items()]
        inputs += [info(tensor.name, numpy_helper.to_array(tensor)) for tensor in self.constants if tensor.name in self.listed]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.constants, sparse_initializer=self.sparse)
        versions = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        model = helper.make_model(graph, opset_imports=versions, ir_version=10, producer_name="ixion")
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False)
        known = {value.name: value for value in inferred.graph.value_info}
        for output in model.graph.output:
            output.CopyFrom(known.get(output.name, inferred_output(inferred, output)))
        return model


def inferred_output(model: onnx.ModelProto, output: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    return next((value for value in model.graph.output if value.name == output.name), output)


def info(name: str, values: np.ndarray, dims: list | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape if dims is None else dims)


def sample(function=None, **settings):
    """Registers a function that fills a `Sample`; its name is the folder's."""
    def register(function):
        def fill() -> Sample:
            made = Sample(function.__name__, **settings)
            function(made)
            return made
        assert function.__name__ not in SAMPLES, f"two samples are called {function.__name__}"
        SAMPLES[function.__name__] = fill
        return function
    return register if function is None else register(function)


def write(made: Sample, folder: Path) -> tuple[list[str], str]:
    """Writes a sample; returns its operators, and why onnxruntime did not check it, or nothing."""
    model = made.model()
    computed, unchecked = results(made, model)
    for output, array in zip(model.graph.output, computed[0], strict=True):
        complete(output, array, len(made.sets) > 1)
    if made.standard:
        onnx.checker.check_model(model)
    folder.mkdir(parents=True)
    for tensor in model.graph.initializer:
        if tensor.name in made.external:
            onnx.external_data_helper.set_external_data(tensor, "weights.bin")
    onnx.save(model, folder / "model.onnx")
    for at, (feeds, outputs) in enumerate(zip(made.sets, computed, strict=True)):
        data = folder / f"test_data_set_{at}"
        data.mkdir()
        names = [value.name for value in model.graph.input if value.name in feeds]
        assert len(names) == len(feeds), f"{made.name}: inputs {names}, but values for {list(feeds)}"
        for number, name in enumerate(names):
            (data / f"input_{number}.pb").write_bytes(numpy_helper.from_array(feeds[name], name).SerializeToString())
        for number, (value, output) in enumerate(zip(model.graph.output, outputs, strict=True)):
            (data / f"output_{number}.pb").write_bytes(numpy_helper.from_array(output, value.name).SerializeToString())
    return operators(model), unchecked


def complete(output: onnx.ValueInfoProto, array: np.ndarray, varies: bool) -> None:
    """Gives an output the type that could not be inferred."""
    of = output.type.tensor_type
    if not of.elem_type or not of.HasField("shape"):
        output.CopyFrom(info(output.name, array, [None] * array.ndim if varies else None))


def results(made: Sample, model: onnx.ModelProto) -> tuple[list[list[np.ndarray]], str]:
    """The outputs of each set, and why onnxruntime did not check them."""
    if made.instead is not None:
        model = made.instead(model)
    if made.convert:
        model = onnx.version_converter.convert_version(model, made.convert)
    if made.by_runtime:
        return [by_runtime(model, feeds) for feeds in made.sets], ""
    evaluator = ReferenceEvaluator(model)
    computed = [[np.asarray(output) for output in evaluator.run(None, feeds)] for feeds in made.sets]
    if not made.checked:
        return computed, "the two disagree, and the evaluator is right"
    try:
        others = [by_runtime(model, feeds) for feeds in made.sets]
    except Exception as error:  # onnxruntime lacks operators, types or versions.
        return computed, shortened(str(error))
    for outputs, theirs in zip(computed, others, strict=True):
        for at, (output, other) in enumerate(zip(outputs, theirs, strict=True)):
            agree(f"{made.name}, output {at} ({model.graph.output[at].name})", output, np.asarray(other))
    return computed, ""


def shortened(reason: str) -> str:
    lacking = re.search(r"Could not find an implementation for (\w+)\((\d+)\)", reason)
    if lacking:
        return f"no {lacking[1]} of version {lacking[2]}"
    if "ValidateOpsetForDomain" in reason:
        return "the opset is newer"
    return " ".join(re.sub(r"\S*/onnxruntime\S*", "", reason).split())[:160]


def by_runtime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, feeds)


def agree(where: str, output: np.ndarray, other: np.ndarray) -> None:
    assert output.dtype == other.dtype and output.shape == other.shape, \
        f"{where}: {output.dtype} {output.shape}, onnxruntime: {other.dtype} {other.shape}"
    tolerance = {"float16": {"rtol": 2e-3, "atol": 2e-3}, "bfloat16": {"rtol": 2e-2, "atol": 2e-2}}.get(output.dtype.name, CLOSE)
    a, b = (x.astype(np.float64) if x.dtype.kind not in "c" else x for x in (output, other))
    np.testing.assert_allclose(a, b, **tolerance, err_msg=where)
