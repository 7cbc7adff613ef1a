"""Cases that PNNX converts from ONNX files: a small model is written node by node, PNNX converts it, and ONNX Runtime, or
ONNX's reference evaluator if an operator is missing there, computes the outputs."""

import contextlib
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pnnx
import torch
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from case import CASES, Folder, quiet


class Onnx:
    """A model under construction. Each node's results are outputs of the model."""

    def __init__(self, opset: int = 17):
        self.opset = opset
        self.nodes, self.inputs, self.constants, self.outputs = [], {}, [], []
        self.tolerance: float | None = None
        self.values, self.by_evaluator = True, False

    def input(self, values) -> str:
        """An input of the model, with the values of the case."""
        name = f"in{len(self.inputs)}"
        self.inputs[name] = np.asarray(values)
        return name

    def constant(self, values) -> str:
        name = f"const{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def within(self, values) -> str:
        """Integers that the graph computes: PNNX tries a model with sevens, and these stay at most what they are."""
        values = np.asarray(values)
        return self.hidden("Min", self.input(values), self.constant(values))

    def truth(self, values) -> str:
        """Bools that the graph computes, because PNNX does not support them as inputs."""
        return self.hidden("Greater", self.input(np.asarray(values, np.float32)), self.constant(np.float32(0.5)))

    def hidden(self, op_type: str, *inputs: str, outputs: int = 1, **attributes):
        """Adds a node whose results are not outputs of the model."""
        names = [f"{op_type.lower()}{len(self.nodes)}_{index}" for index in range(outputs)]
        node = helper.make_node(op_type, inputs, names, name=f"{op_type}_{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def __call__(self, op_type: str, *inputs: str, outputs: int | list[bool] = 1, **attributes):
        """Adds a node; `outputs` may say which of its results are there."""
        kept = outputs if isinstance(outputs, list) else [True] * outputs
        names = self.hidden(op_type, *inputs, outputs=len(kept), **attributes)
        names = [names] if isinstance(names, str) else names
        for index, keep in enumerate(kept):
            if not keep:
                self.nodes[-1].output[index] = ""
        shown = [name for name, keep in zip(names, kept) if keep]
        self.outputs += shown
        return shown[0] if len(shown) == 1 else shown

    def model(self) -> onnx.ModelProto:
        def info(name, values):
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)
        inputs = [info(name, values) for name, values in self.inputs.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "case", inputs, outputs, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        typed = onnx.shape_inference.infer_shapes(made)
        known = {value.name: value for value in typed.graph.value_info}
        for output in made.graph.output:
            output.CopyFrom(known.get(output.name, output))
        return typed

    def results(self, model: onnx.ModelProto) -> list[np.ndarray]:
        if self.by_evaluator:
            return ReferenceEvaluator(model).run(None, self.inputs)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return session.run(None, self.inputs)

    def write(self, folder: Folder) -> None:
        model = self.model()
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            onnx.save(model, "model.onnx")
            with quiet():
                subprocess.run([pnnx.EXEC_PATH, "model.onnx"], check=True)
            folder.write("model.param", Path("model.pnnx.param").read_bytes())
            weights = Path("model.pnnx.bin").read_bytes()
        if weights.startswith(b"PK\x03\x04"):
            folder.write("model.bin", weights)
        arrays = [[torch.from_numpy(np.array(values)) for values in group]
                  for group in (self.inputs.values(), self.results(model))]
        folder.write_set(0, *arrays)
        folder.write_settings(self.tolerance, self.values)


def from_onnx(function):
    """Registers a function that fills an `Onnx`; its name is the folder's."""
    def fill() -> Onnx:
        model = Onnx()
        function(model)
        return model
    assert function.__name__ not in CASES, f"two cases are called {function.__name__}"
    CASES[function.__name__] = fill
    return function
