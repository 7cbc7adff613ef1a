"""Runtimes with Python packages, with the protocol of `benches/compare.py` described in `protocol.rs`.

    python benches/compare/worker.py onnxruntime|openvino|ncnn|mnn|pytorch|inductor --threads N [--precision bf16|int8]
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np


class OnnxRuntime:
    """All graph optimisations; input and output bound once, so that a run copies neither."""

    def __init__(self, threads: int, precision: str):
        import onnxruntime

        if precision == "bf16":
            raise RuntimeError(f"its f32 models are not rounded to {precision}")
        self.package = onnxruntime
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.options.log_severity_level = 3

    def load(self, model: Path, inputs: list[np.ndarray]) -> None:
        self.session = self.package.InferenceSession(str(model), self.options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.inputs = [self.package.OrtValue.ortvalue_from_numpy(array) for array in inputs]
        for port, value in zip(self.session.get_inputs(), self.inputs, strict=True):
            self.binding.bind_ortvalue_input(port.name, value)
        for port in self.session.get_outputs():
            self.binding.bind_output(port.name)

    def run(self) -> None:
        self.session.run_with_iobinding(self.binding)

    def output(self) -> np.ndarray:
        return self.binding.copy_outputs_to_cpu()[0]


class OpenVino:
    """For the latency of one request at a time. Output tensors stay those of the request."""

    def __init__(self, threads: int, precision: str):
        import openvino

        self.core = openvino.Core()
        self.tensor = openvino.Tensor
        # What a model does not quantise stays in f32.
        hint = "f32" if precision == "int8" else precision
        self.settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                         "PERFORMANCE_HINT": "LATENCY"}

    def load(self, model: Path, inputs: list[np.ndarray]) -> None:
        network = self.core.compile_model(self.core.read_model(model), "CPU", self.settings)
        self.request = network.create_infer_request()
        self.inputs = [self.tensor(array) for array in inputs]
        for at, value in enumerate(self.inputs):
            self.request.set_input_tensor(at, value)

    def run(self) -> None:
        self.request.infer()

    def output(self) -> np.ndarray:
        return self.request.get_output_tensor(0).data.copy()


class Ncnn:
    """With memory pools as in its own benchmark. There is no batch axis."""

    def __init__(self, threads: int, precision: str):
        import ncnn

        self.package, self.threads, self.precision = ncnn, threads, precision
        self.pools = ncnn.UnlockedPoolAllocator(), ncnn.PoolAllocator()

    def load(self, model: Path, inputs: list[np.ndarray]) -> None:
        self.net = self.package.Net()
        option = self.net.opt
        option.num_threads = self.threads
        option.blob_allocator, option.workspace_allocator = self.pools
        option.use_vulkan_compute = False
        option.use_bf16_storage = self.precision == "bf16"
        option.use_fp16_packed = option.use_fp16_storage = option.use_fp16_arithmetic = False
        if self.net.load_param(str(model)) or self.net.load_model(str(model.with_suffix(".bin"))):
            raise RuntimeError("ncnn cannot load it")
        if any(array.shape[0] != 1 for array in inputs):
            raise RuntimeError("ncnn has no batch axis")
        # ncnn does not support i64.
        arrays = [array.astype(np.int32) if array.dtype == np.int64 else array for array in inputs]
        # A Mat created from an array only points to the array's data.
        self.inputs = [self.package.Mat(np.ascontiguousarray(array[0])).clone() for array in arrays]

    def run(self) -> None:
        extractor = self.net.create_extractor()
        for index, value in enumerate(self.inputs):
            if extractor.input(f"in{index}", value):
                raise RuntimeError(f"ncnn has no input in{index}")
        status, self.result = extractor.extract("out0")
        if status:
            raise RuntimeError(f"ncnn failed with {status}")

    def output(self) -> np.ndarray:
        return np.array(self.result)


class Mnn:
    """As a module whose shapes are fixed, so that it resizes nothing in a run."""

    def __init__(self, threads: int, precision: str):
        import MNN.expr
        import MNN.nn

        self.expr, self.nn = MNN.expr, MNN.nn
        self.settings = {"backend": "CPU", "numThread": threads,
                         "precision": {"f32": "high", "bf16": "lowBF"}[precision]}

    def load(self, model: Path, inputs: list[np.ndarray]) -> None:
        expr = self.expr
        self.manager = self.nn.create_runtime_manager((self.settings,))
        names = [f"in{index}" for index in range(len(inputs))]
        self.net = self.nn.load_module_from_file(str(model), names, ["out0"], runtime_manager=self.manager,
                                                 shape_mutable=False, rearrange=True)
        # MNN does not support i64.
        arrays = [array.astype(np.int32) if array.dtype == np.int64 else array for array in inputs]
        kinds = {"float32": expr.float, "int32": expr.int}
        self.inputs = [expr.placeholder(list(array.shape), expr.NCHW, kinds[array.dtype.name]) for array in arrays]
        for place, array in zip(self.inputs, arrays, strict=True):
            place.write(array)

    def run(self) -> None:
        # Outputs are computed when they are read.
        self.result = self.expr.convert(self.net.onForward(self.inputs)[0], self.expr.NCHW).read()

    def output(self) -> np.ndarray:
        return np.array(self.result)


class PyTorch:
    """TorchScript, frozen and with oneDNN's layouts where `optimize_for_inference` supports them."""

    def __init__(self, threads: int, precision: str):
        import torch

        if precision != "f32":
            raise RuntimeError(f"a frozen f32 module is not rounded to {precision}")
        self.torch = torch
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        if not torch.backends.mkldnn.is_available():
            raise RuntimeError("this build of PyTorch lacks oneDNN")

    def load(self, model: Path, inputs: list[np.ndarray]) -> None:
        torch = self.torch
        frozen = torch.jit.freeze(torch.jit.load(model).eval())
        self.module = torch.jit.optimize_for_inference(frozen)
        self.inputs = [torch.from_numpy(array) for array in inputs]

    def run(self) -> None:
        with self.torch.inference_mode():
            self.result = self.module(*self.inputs)

    def output(self) -> np.ndarray:
        return self.result.contiguous().numpy()


class Inductor:
    """A program of `torch.export`, compiled for its shapes with its weights as constants, which is what it does best."""

    def __init__(self, threads: int, precision: str):
        import torch
        import torch._inductor.config

        self.torch, self.precision = torch, precision
        torch.set_num_threads(threads)
        torch._inductor.config.freezing = True

    def load(self, model: Path, inputs: list[np.ndarray]) -> None:
        torch = self.torch
        self.module = torch.compile(torch.export.load(model).module(), dynamic=False)
        self.inputs = [torch.from_numpy(array) for array in inputs]
        self.run()

    def run(self) -> None:
        with self.torch.no_grad(), self.torch.autocast("cpu", self.torch.bfloat16, enabled=self.precision == "bf16"):
            self.result = self.module(*self.inputs)

    def output(self) -> np.ndarray:
        return self.result.float().contiguous().numpy()


PEERS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "ncnn": Ncnn, "mnn": Mnn, "pytorch": PyTorch,
         "inductor": Inductor}


def nanoseconds(run) -> int:
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


def peak_bytes() -> int:
    """The peak memory from /proc. `getrusage` would include the parent before `exec`."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("/proc/self/status has no VmHWM")


def answer(peer, request: str, words: list[str]) -> list:
    match request, words:
        case "load", [model, *inputs]:
            arrays = [np.load(path) for path in inputs]
            return ["loaded", nanoseconds(lambda: peer.load(Path(model), arrays))]
        case "run", [count]:
            return ["times", *(nanoseconds(peer.run) for _ in range(int(count)))]
        case "output", [path]:
            np.save(path, peer.output())
            return ["written"]
        case "memory", []:
            return ["memory", peak_bytes()]
    raise RuntimeError(f"no such request: {request} {words}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("f32", "bf16", "int8"), default="f32")
    arguments = parser.parse_args()
    peer = PEERS[arguments.peer](arguments.threads, arguments.precision)
    for line in sys.stdin:
        request, *words = line.rstrip("\n").split("\t")
        try:
            answered = answer(peer, request, words)
        except Exception as error:  # Any error of a runtime becomes the reason in the report.
            answered = ["error", " ".join(f"{type(error).__name__}: {error}".split())]
        print(*answered, sep="\t", flush=True)


if __name__ == "__main__":
    main()
