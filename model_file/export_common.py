"""What every export script shares: seeding, the model card, and the way through PNNX.

A model's folder holds `NAME.pnnx.param` (text) and `NAME.pnnx.bin` (weights), which PNNX writes,
`in_N.npy` and `out_N.npy`, which PyTorch computes, and `model.toml`, which is written by hand.
"""

import random
import shutil
import tempfile
import tomllib
from contextlib import chdir
from pathlib import Path

import numpy as np
import pnnx
import torch
from torch import Tensor, nn

# Weights that PNNX has folded (BatchNorm into convolution) round differently from PyTorch's own order of arithmetic.
TOLERANCE = 1e-5


def seed_everything(seed: int) -> None:
    """Makes weights, training and inputs the same in every run on the same versions and kind of CPU."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    # A sum depends on how it is split among threads.
    torch.set_num_threads(1)


def read_card(folder: Path) -> dict:
    """Reads `folder/model.toml` and checks that it describes the model of that folder."""
    card = tomllib.loads((folder / "model.toml").read_text(encoding="utf-8"))
    assert card["name"] == folder.name, f"{folder}/model.toml names {card['name']!r}, wanted {folder.name!r}"
    return card


def run(model: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    """PyTorch's outputs in evaluation mode, without gradients, always as a list."""
    model.eval()
    with torch.no_grad():
        outputs = model(*inputs)
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def export(model: nn.Module, folder: Path, name: str, inputs: list[Tensor],
           other_inputs: list[Tensor] | None = None, keep_weights: bool = True,
           tolerance: float | None = TOLERANCE) -> nn.Module | None:
    """Writes `name.pnnx.param` and, with `keep_weights`, `name.pnnx.bin` into `folder`.

    `other_inputs` has the same ranks as `inputs`; every dimension in which the two differ becomes dynamic (`?`).
    PNNX writes some ten files; all of them stay in a temporary folder, and only the wanted ones leave it.
    What PNNX made of the model is run on `inputs` and `other_inputs` and must agree with PyTorch
    within `tolerance`; None leaves that to `ixion verify`. Returns what PNNX made, None if its Python is not valid.
    """
    model.eval()
    # With it, PyTorch would trace attention as one operator that PNNX does not know.
    torch.backends.mha.set_fastpath_enabled(False)
    wanted = [f"{name}.pnnx.param"] + ([f"{name}.pnnx.bin"] if keep_weights else [])
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        # PNNX's package ignores the exit code of its program; a failure shows as a missing file.
        try:
            converted = pnnx.export(model, f"{name}.pt", inputs=tuple(inputs), check_trace=tolerance is not None,
                                    inputs2=None if other_inputs is None else tuple(other_inputs))
        except Exception:
            # Of some models PNNX writes Python that cannot be read; the graph and the weights are none the worse.
            if tolerance is not None or not Path(wanted[0]).is_file():
                raise
            converted = None
        if tolerance is not None:
            for given in filter(None, (inputs, other_inputs)):
                for expected, got in zip(run(model, given), run(converted, given), strict=True):
                    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
        for file in wanted:
            assert Path(file).stat().st_size > 0, f"PNNX left {file} empty"
            shutil.move(file, folder / file)
    print(f"{name}: wrote {', '.join(wanted)}")
    return converted


def save_arrays(model: nn.Module, folder: Path, inputs: list[Tensor]) -> list[Tensor]:
    """Writes the inputs as `in_N.npy` and PyTorch's outputs as `out_N.npy` into `folder`; returns the outputs."""
    outputs = run(model, inputs)
    for prefix, tensors in (("in", inputs), ("out", outputs)):
        for index, tensor in enumerate(tensors):
            np.save(folder / f"{prefix}_{index}.npy", tensor.contiguous().numpy())
    return outputs
