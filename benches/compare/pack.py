"""Writes a network without its weights: its graph, and the PyTorch tensors that form each weight of the graph.

    python benches/compare/pack.py FOLDER NAME BATCH

FOLDER/NAME-BATCH gets `NAME.pnnx.param`, `weights.json` and `rest.npz`: weights that are none of the network's parameters, as
PNNX made them of constants. Batch norms are folded into convolutions ahead, as PNNX would do it, but by PyTorch, which will do it
again where the network is measured.
"""

import json
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compare import nets  # noqa: E402
from compare.make import to_pnnx  # noqa: E402
from compare.recipe import SEED  # noqa: E402


JOINED = 3
"""PNNX's attention has one weight for queries, keys and values."""


def parts(data: bytes, named: dict[bytes, str]) -> list[str] | None:
    """The names of the tensors that a weight is the concatenation of, if any."""
    if data in named:
        return [named[data]]
    size = len(data) // JOINED
    names = [named.get(data[start:start + size]) for start in range(0, size * JOINED, max(size, 1))]
    return names if len(data) == size * JOINED and None not in names else None


def pack(folder: Path, name: str, batch: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    network, x = nets.prepare(name, SEED, batch)
    network = nets.folded(network)
    named = {tensor.contiguous().numpy().tobytes(): key for key, tensor in network.state_dict().items()}
    weights: dict[str, list[str] | None] = {}
    rest: dict[str, np.ndarray] = {}
    with torch.no_grad(), tempfile.TemporaryDirectory(dir=folder) as scratch:
        traced = Path(scratch) / f"{name}.pt"
        torch.jit.trace(network, x, check_trace=False).save(traced)
        to_pnnx(traced, x)
        with zipfile.ZipFile(traced.with_suffix(".pnnx.bin")) as archive:
            for entry in archive.namelist():
                data = archive.read(entry)
                weights[entry] = parts(data, named)
                if weights[entry] is None:
                    rest[entry] = np.frombuffer(data, dtype=np.uint8)
        traced.with_suffix(".pnnx.param").replace(folder / f"{name}.pnnx.param")
    np.savez_compressed(folder / "rest.npz", **rest)
    (folder / "weights.json").write_text(json.dumps(weights, indent=1), encoding="utf-8")


if __name__ == "__main__":
    pack(Path(sys.argv[1]).resolve() / f"{sys.argv[2]}-{sys.argv[3]}", sys.argv[2], int(sys.argv[3]))
