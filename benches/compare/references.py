"""Computes a network's outputs in PyTorch, in f32 and in f64, for `benches/exactness.py`.

    python benches/compare/references.py network FOLDER NAME COUNT
    python benches/compare/references.py converted SOURCE WEIGHTS FOLDER

`network` writes COUNT sets of random inputs to FOLDER/NAME/exact, each with the outputs of the network in f32 and, with the
same weights, in f64: `0/in_0.npy`, `0/f32_0.npy`, `0/f64_0.npy` and so on. A network of `compare/nets.py` has its weights
from FOLDER/NAME/NAME.pt; one of `tests/export/networks.py` is built from its seed, and exported. `exact.json` has the
versions of the packages.

`converted` runs a model that `ixion convert --python` has written, on FOLDER/0/in64_0.npy and so on, and writes
FOLDER/0/pnnx64_0.npy and so on.

Each network has its own process, which keeps the memory of the driver small and isolates failures.
"""

import importlib.util
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benches"), str(ROOT / "tests/export"), str(ROOT / "model_file")]

from compare.exact import SEED, numbered, recipe  # noqa: E402
from compare.recipe import NETWORKS as COMPARED  # noqa: E402


def compared(name: str, folder: Path) -> tuple[nn.Module, Callable[[], list[Tensor]]]:
    """A network of `compare/nets.py` with the weights of its TorchScript file, and a function that makes its inputs."""
    from compare import nets

    entry = nets.NETWORKS[name]
    network = entry.build()
    # A script also has the buffers that a module does not store.
    kept = network.load_state_dict(torch.jit.load(folder / f"{name}.pt").state_dict(), strict=False)
    if kept.missing_keys:
        raise ValueError(f"{name}.pt lacks {', '.join(kept.missing_keys)}; make it again")
    return network, lambda: [entry.inputs(1)]


def exported(name: str, folder: Path) -> tuple[nn.Module, Callable[[], list[Tensor]]]:
    """A network of `tests/export/networks.py`, which is exported as well, and a function that makes its inputs."""
    import networks

    entry = networks.NETWORKS[name]
    networks.seed_everything(SEED)
    network = networks.prepare(entry)
    with entry.patched():
        networks.export(network, folder, name, entry.inputs(*entry.sizes[0]), tolerance=None)
    return network, lambda: entry.inputs(*entry.sizes[0])


def run(network: nn.Module, inputs: list[Tensor]) -> list[np.ndarray]:
    """The outputs that are floats: others are equal or wrong, but not inexact."""
    with torch.no_grad():
        found = network(*inputs)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return [value.contiguous().numpy() if value.is_floating_point() else None for value in found]


def save(folder: Path, kind: str, arrays: list[np.ndarray | None]) -> None:
    for at, array in enumerate(arrays):
        if array is not None:
            np.save(folder / f"{kind}_{at}.npy", array)


def widened(inputs: list[Tensor]) -> list[Tensor]:
    return [value.double() if value.is_floating_point() else value for value in inputs]


def of_network(folder: Path, name: str, count: int) -> None:
    """Writes the inputs and outputs of a network."""
    folder /= name
    target = folder / "exact"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    network, inputs = (compared if name in COMPARED else exported)(name, folder)
    network.eval()
    sets = []
    for at in range(count):
        torch.manual_seed(SEED + 1 + at)
        sets.append(inputs())
        (target / str(at)).mkdir()
        save(target / str(at), "in", [value.contiguous().numpy() for value in sets[at]])
        save(target / str(at), "f32", run(network, sets[at]))
    # What the network creates while it runs must not be f32, either.
    torch.set_default_dtype(torch.float64)
    network.double()
    for at, given in enumerate(sets):
        save(target / str(at), "f64", run(network, widened(given)))
    (target / "exact.json").write_text(json.dumps(recipe(count), indent=1) + "\n", encoding="utf-8")


def of_converted(source: Path, weights: Path, folder: Path) -> None:
    """Writes the outputs of a model as Python source."""
    spec = importlib.util.spec_from_file_location("converted", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.set_default_dtype(torch.float64)
    given = [torch.from_numpy(np.load(path)) for path in numbered(folder / "0", "in64").values()]
    save(folder / "0", "pnnx64", run(module.Model(weights), given))


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["network", folder, name, count]:
            of_network(Path(folder).resolve(), name, int(count))
        case ["converted", source, weights, folder]:
            of_converted(Path(source), Path(weights), Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
