"""Networks written by `pack.py`, with weights drawn here, and PyTorch's execution modes on a GPU."""

import copy
import json
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from . import nets
from .recipe import SEED


def unpack(folder: Path, name: str, batch: int, scratch: Path) -> tuple[nn.Module, Tensor]:
    """Returns the network and its input, and writes both into `scratch` in Ixion's format."""
    network, x = nets.prepare(name, SEED, batch)
    network = nets.folded(network)
    state = network.state_dict()
    with np.load(folder / "rest.npz") as rest, zipfile.ZipFile(scratch / f"{name}.pnnx.bin", "w") as archive:
        for entry, keys in json.loads((folder / "weights.json").read_text(encoding="utf-8")).items():
            if keys is None:
                data = rest[entry].tobytes()
            else:
                data = b"".join(state[key].contiguous().numpy().tobytes() for key in keys)
            archive.writestr(zipfile.ZipInfo(entry), data)
    (scratch / f"{name}.pnnx.param").write_bytes((folder / f"{name}.pnnx.param").read_bytes())
    np.save(scratch / "in_0.npy", x.numpy())
    return network, x


def allow_tf32(is_allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_allowed


def output(network: nn.Module, x: Tensor) -> np.ndarray:
    """PyTorch's output in f32, on the GPU if there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    allow_tf32(False)
    with torch.inference_mode():
        result = network.to(device)(x.to(device)).float().cpu().numpy()
    network.cpu()
    return result


class Torch:
    """A network on a GPU, from the input in the CPU's page-locked memory to the output there."""

    def __init__(self, network: nn.Module, x: Tensor, precision: str, is_compiled: bool, device: str):
        allow_tf32(True)
        torch.backends.cudnn.benchmark = True
        self.device = device
        dtype = {"f32": torch.float32, "f16": torch.float16}[precision]
        module = copy.deepcopy(network).to(device=device, dtype=dtype)
        layout = torch.contiguous_format
        if any(isinstance(part, nn.Conv2d) and part.kernel_size != part.stride for part in module.modules()):
            layout = torch.channels_last
            module = module.to(memory_format=layout)
        self.module = torch.compile(module, mode="reduce-overhead") if is_compiled else module
        self.dtype = dtype if x.is_floating_point() else x.dtype
        self.layout = layout if x.dim() == 4 else torch.contiguous_format
        self.is_on_gpu = device.startswith("cuda")
        self.x = x.pin_memory() if self.is_on_gpu else x
        self.y: Tensor | None = None
        self.once()

    def once(self) -> Tensor:
        with torch.inference_mode():
            x = self.x.to(self.device, non_blocking=True).to(dtype=self.dtype, memory_format=self.layout)
            y = self.module(x).float()
            if not self.is_on_gpu:
                return y
            if self.y is None:
                self.y = torch.empty(y.shape, pin_memory=True)
            self.y.copy_(y, non_blocking=True)
            torch.cuda.synchronize()
            return self.y

    def output(self) -> np.ndarray:
        return self.once().numpy()

    def run(self, count: int) -> list[float]:
        """Milliseconds of each of `count` runs."""
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            self.once()
            times.append((time.perf_counter_ns() - start) / 1e6)
        return times

    def close(self) -> None:
        del self.module
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
