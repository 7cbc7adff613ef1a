"""Exports whole networks with random weights, so that `ixion verify` can compare them with PyTorch.

    pip install -r tests/export/requirements.txt
    python tests/export/networks.py --list
    python tests/export/networks.py bert gpt2 --output networks     # no names: all of them
    ixion verify networks/*

Nothing is downloaded: networks are built from configurations, small where the family allows. Each gets a folder with
`model.param`, `model.bin`, `case.toml` and arrays: `in_N.npy` and `out_N.npy`, or, where dimensions are dynamic,
`arrays.npz`, `arrays_1.npz` and so on, one for each size.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "model_file"))

from export_common import export, run, save_arrays, seed_everything  # noqa: E402

from nets import audio, decoders, diffusion, language, timm_vision, vision  # noqa: E402
from nets.network import Network, prepare  # noqa: E402

NETWORKS: dict[str, Network] = {
    name: entry for table in (language, decoders, vision, timm_vision, audio, diffusion)
    for name, entry in table.NETWORKS.items()}

# PNNX folds batch norms into convolutions: PyTorch, too, gives results that far apart before and after.
CASE = "tolerance = 1e-3\n"


def largest_difference(converted, sets: list[tuple[list, list]]) -> str:
    """The largest difference between PNNX's Python code and the network, both run by PyTorch, or why it is unknown."""
    if converted is None:
        return "its Python cannot be read"
    try:
        pairs = [(a, b) for given, wanted in sets for a, b in zip(run(converted, given), wanted, strict=True)]
        worst = max(float((a.double() - b.double()).abs().max()) if a.shape == b.shape else np.inf for a, b in pairs)
        return f"largest difference {worst:.1e}"
    except Exception as error:  # Whatever a generated program may do.
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def check_outputs(outputs: list) -> None:
    """Rejects useless outputs: not finite, or constant."""
    for output in outputs:
        assert output.isfinite().all() and output.double().std() > 1e-4, f"these outputs tell nothing: {output}"


def save_sets(folder: Path, sets: list[tuple[list, list]]) -> None:
    """Writes `arrays.npz`, `arrays_1.npz` and so on."""
    for index, (given, wanted) in enumerate(sets):
        named = {f"in_{at}": tensor.numpy() for at, tensor in enumerate(given)}
        named |= {f"out_{at}": tensor.contiguous().numpy() for at, tensor in enumerate(wanted)}
        np.savez(folder / (f"arrays_{index}.npz" if index else "arrays.npz"), **named)


def make(name: str, folder: Path, seed: int, check: bool) -> None:
    """Writes the folder of one network."""
    entry = NETWORKS[name]
    seed_everything(seed)
    network = prepare(entry)
    folder.mkdir(parents=True, exist_ok=True)
    given = [entry.inputs(*size) for size in entry.sizes]
    if len(given) == 1:
        sets = [(given[0], save_arrays(network, folder, given[0]))]
    else:
        sets = [(inputs, run(network, inputs)) for inputs in given]
        save_sets(folder, sets)
    for _, wanted in sets:
        check_outputs(wanted)
    with entry.patched():
        others = given[1] if len(given) > 1 else None
        converted = export(network, folder, "model", given[0], others, tolerance=None)
    for ending in ("param", "bin"):
        (folder / f"model.pnnx.{ending}").rename(folder / f"model.{ending}")
    (folder / "case.toml").write_text(CASE, encoding="utf-8")
    if check:
        print(f"{name}: PNNX: {largest_difference(converted, sets)}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks to export (default: all)")
    parser.add_argument("--output", type=Path, default=Path("networks"), help="where folders go (default: networks)")
    parser.add_argument("--seed", type=int, default=0, help="for weights and inputs (default: 0)")
    parser.add_argument("--check", action="store_true", help="also runs PNNX's Python code in PyTorch")
    parser.add_argument("--list", action="store_true", help="prints the names of all networks")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in NETWORKS]:
        parser.error(f"unknown network {unknown[0]!r}; --list prints all names")
    return arguments


def main() -> None:
    arguments = parse()
    if arguments.list:
        print("\n".join(NETWORKS))
        return
    failed = []
    for name in arguments.names or NETWORKS:
        begin = time.monotonic()
        try:
            make(name, (arguments.output / name).resolve(), arguments.seed, arguments.check)
        except Exception:  # A failed network does not stop the others.
            traceback.print_exc()
            failed.append(name)
        print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
    if failed:
        sys.exit(f"not exported: {', '.join(failed)}")


if __name__ == "__main__":
    main()
