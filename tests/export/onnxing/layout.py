"""ONNX's own backend tests, as folders: `SET/TEST/model.onnx` with `test_data_set_N/input_M.pb` and `output_M.pb`."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test import loader

from .kinds import is_random, outside

LIST = "tests.json"
# Networks without weights of their own, which a model fills with constants; the package has their outputs.
LIGHT = "light"
# The operator of models that `generate` has not written, and their tolerances.
OTHER, RTOL, ATOL = "(models)", 1e-4, 1e-5
SETS = ["node", "simple", "pytorch-operator", "pytorch-converted", LIGHT]
# Where the inverse of a transform is 0, the stored outputs, which NumPy's FFT of f32 has computed, have up to 2e-7.
LOOSER = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}


@dataclass
class Test:
    """One test: a model, and sets of inputs and outputs."""

    set: str
    name: str
    operator: str
    rtol: float
    atol: float
    random: bool
    """Whether results are random, so that only their shapes and types can be compared."""
    outside: str
    """Why the test does not count among those whose types Ixion has, else empty."""

    @property
    def full_name(self) -> str:
        return f"{self.set}/{self.name}" if self.set else self.name


def read(root: Path) -> list[Test]:
    """The tests that `generate` has written to a folder, or all folders in it with a model."""
    path = root / LIST
    if path.is_file():
        return [Test(**entry) for entry in json.loads(path.read_text())]
    names = sorted(model.parent.name for model in root.glob("*/model.onnx"))
    assert names, f"{root} has no tests: run `generate {root}` first"
    return [Test("", name, OTHER, RTOL, ATOL, False, "") for name in names]


def generate(root: Path) -> list[Test]:
    """Writes all tests, and replaces those that are there."""
    tests: list[Test] = []
    for kind in SETS:
        shutil.rmtree(root / kind, ignore_errors=True)
        cases = loader.load_model_tests(kind="real" if kind == LIGHT else kind)
        by_name = {case.name: case for case in cases}
        for name in sorted(by_name):
            case, folder = by_name[name], root / kind / name
            model = write_node(folder, case) if kind == "node" else copy(folder, case)
            whole = by_name.get(name.split("_expanded")[0], case)
            operator = (whole.model or model).graph.node[0].op_type if kind == "node" else kind
            reason = outside(model, dropout_trains(model, folder))
            tests.append(Test(kind, name, operator, case.rtol, LOOSER.get(name, case.atol), is_random(model), reason))
    (root / LIST).write_text("[\n" + ",\n".join(json.dumps(asdict(test)) for test in tests) + "\n]\n")
    return tests


def write_node(folder: Path, case) -> ModelProto:
    """Writes a test that the package computes."""
    folder.mkdir(parents=True)
    onnx.save(case.model, folder / "model.onnx")
    graph = case.model.graph
    for index, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{index}"
        data.mkdir()
        for stem, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for at, (value, info) in enumerate(zip(values, infos, strict=True)):
                (data / f"{stem}_{at}.pb").write_bytes(serialized(value, info))
    return case.model


def serialized(value, info: onnx.ValueInfoProto) -> bytes:
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    make = {
        "map_type": numpy_helper.from_dict,
        "sequence_type": numpy_helper.from_list,
        "optional_type": numpy_helper.from_optional,
        "tensor_type": numpy_helper.from_array,
    }[info.type.WhichOneof("value")]
    return make(np.asarray(value) if make is numpy_helper.from_array else value, info.name).SerializeToString()


def copy(folder: Path, case) -> ModelProto:
    """Copies a test that the package has as files."""
    if case.model_dir is not None:
        shutil.copytree(case.model_dir, folder)
        return onnx.load(folder / "model.onnx")
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    source = Path(loader.DATA_DIR) / LIGHT / Path(case.url).name
    shutil.copy(source, folder / "model.onnx")
    model = onnx.load(source)
    for at, info in enumerate(inputs_of(model)):
        shape = [dim.dim_value or 1 for dim in info.type.tensor_type.shape.dim]
        size = int(np.prod(shape))
        # The outputs in the package are those of these inputs.
        values = (np.arange(size).reshape(shape) / size).astype(np.float32)
        (data / f"input_{at}.pb").write_bytes(numpy_helper.from_array(values, info.name).SerializeToString())
    for at in range(len(model.graph.output)):
        shutil.copy(source.with_name(f"{source.stem}_output_{at}.pb"), data / f"output_{at}.pb")
    return model


def inputs_of(model: ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that a caller gives: in old files, initialisers are listed as inputs, too."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    return [info for info in graph.input if info.name not in constants]


def dropout_trains(model: ModelProto, folder: Path) -> bool:
    """Whether a `Dropout` of the model is told by an input of the test that it should train."""
    names = {node.input[2] for node in model.graph.node if node.op_type == "Dropout" and len(node.input) > 2}
    known = {tensor.name: bool(numpy_helper.to_array(tensor)) for tensor in model.graph.initializer if tensor.name in names}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output[0] in names:
            known[node.output[0]] = bool(numpy_helper.to_array(node.attribute[0].t))
    for at, info in enumerate(inputs_of(model)):
        if info.name in names:
            tensor = onnx.load_tensor(folder / "test_data_set_0" / f"input_{at}.pb")
            known[info.name] = bool(numpy_helper.to_array(tensor))
    return any(known.get(name, False) for name in names)


def data_sets(folder: Path) -> list[Path]:
    """The folders with inputs and outputs, in their order."""
    return sorted(folder.glob("test_data_set_*"), key=lambda path: int(path.name.rsplit("_", 1)[1]))


def load_values(data: Path, stem: str, infos: list[onnx.ValueInfoProto]) -> list:
    """The inputs or outputs of a data set: arrays, lists of arrays, dictionaries, or None for an empty optional."""
    count = len(list(data.glob(f"{stem}_*.pb")))
    assert count <= len(infos), f"{data} has {count} {stem}s, but the model has {len(infos)}"
    return [load_value((data / f"{stem}_{at}.pb").read_bytes(), info) for at, info in enumerate(infos[:count])]


def load_value(data: bytes, info: onnx.ValueInfoProto):
    read_as, to_value = {
        "map_type": (onnx.MapProto, numpy_helper.to_dict),
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
        "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    }[info.type.WhichOneof("value")]
    proto = read_as()
    proto.ParseFromString(data)
    return to_value(proto)
