"""Writes a network in the format of every runtime, with its input and PyTorch's output.

    python benches/compare/make.py FOLDER NETWORK [BATCH]

Each network has its own process, which keeps the memory of the driver small and isolates failures.

FOLDER/NAME, where NAME is NETWORK or NETWORK_batchBATCH, gets `NAME.pt` (TorchScript), `NAME.pt2` (`torch.export`),
`NAME.pnnx.param` and `NAME.pnnx.bin`, `NAME.onnx`, `NAME.mnn`, `NAME.ncnn.param` and `NAME.ncnn.bin` in f32, `in_0.npy`,
`out_0.npy`, and `made.json`: versions, and why a format is missing.
"""

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compare import nets  # noqa: E402
from compare.recipe import OPSET, SEED, folder_name, recipe  # noqa: E402

# PNNX's folding may round differently; a larger difference means that the network differs.
TOLERANCE = 1e-3


def check(output: Tensor) -> None:
    """Rejects outputs that are useless for a comparison."""
    if not output.isfinite().all() or float(output.double().std()) < 1e-4:
        raise ValueError(f"the output is not finite, or the same everywhere: {output}")


def to_onnx(network: nn.Module, x: Tensor, path: Path) -> None:
    """Uses the tracing exporter, which needs no further packages and whose graphs are widely supported."""
    torch.onnx.export(network, (x,), path, input_names=["in0"], output_names=["out0"], opset_version=OPSET,
                      dynamo=False)


def to_pnnx(traced: Path, x: Tensor) -> None:
    """PNNX's files and ncnn's, in the folder of the traced network, whose name has no ending of its own."""
    import pnnx

    kind = {torch.float32: "f32", torch.int64: "i64"}[x.dtype]
    shape = f"[{','.join(map(str, x.shape))}]{kind}"
    # The package's own function ignores the exit code, and so would a test of it alone: files are looked for.
    done = subprocess.run([pnnx.EXEC_PATH, traced.name, f"inputshape={shape}", "fp16=0"], cwd=traced.parent,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    for ending in ("pnnx.param", "pnnx.bin"):
        if not traced.with_suffix(f".{ending}").is_file():
            raise RuntimeError(f"PNNX wrote no .{ending}, exit code {done.returncode}: {done.stdout[-500:]}")


def to_mnn(onnx: Path) -> None:
    """MNN's file, in the folder of the ONNX file."""
    path = onnx.with_suffix(".mnn")
    command = [Path(sys.executable).with_name("mnnconvert"), "-f", "ONNX", "--modelFile", onnx, "--MNNModel", path,
               "--bizCode", "compare"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if not path.is_file():
        raise RuntimeError(f"mnnconvert wrote no file, exit code {done.returncode}: {done.stdout[-500:]}")


def wanted(name: str) -> list[str]:
    """The files that the runtimes read."""
    endings = ("pt", "pt2", "onnx", "mnn", "pnnx.param", "pnnx.bin", "ncnn.param", "ncnn.bin")
    return [f"{name}.{ending}" for ending in endings]


def make(network_name: str, batch: int, folder: Path) -> dict:
    """Writes the folder of one network; returns the reasons for missing formats, by format."""
    name = folder.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made.json").unlink(missing_ok=True)
    network, x = nets.prepare(network_name, SEED, batch)
    missing = {}
    with torch.no_grad(), tempfile.TemporaryDirectory(dir=folder) as scratch:
        scratch = Path(scratch)
        output = network(x)
        check(output)
        traced = scratch / f"{name}.pt"
        script = torch.jit.trace(network, x, check_trace=False)
        script.save(traced)
        torch.testing.assert_close(script(x), output, rtol=TOLERANCE, atol=TOLERANCE)
        onnx = scratch / f"{name}.onnx"
        steps = {"pt2": lambda: torch.export.save(torch.export.export(network, (x,)), scratch / f"{name}.pt2"),
                 "onnx": lambda: to_onnx(network, x, onnx), "mnn": lambda: to_mnn(onnx), "pnnx": lambda: to_pnnx(traced, x)}
        for step, run in steps.items():
            try:
                run()
            except Exception as error:  # An exporter may fail in any way; other formats are not affected.
                missing[step] = f"{type(error).__name__}: {error}"
        for file in wanted(name):
            if (scratch / file).is_file():
                (scratch / file).replace(folder / file)
            else:
                (folder / file).unlink(missing_ok=True)
    np.save(folder / "in_0.npy", x.numpy())
    np.save(folder / "out_0.npy", output.contiguous().numpy())
    (folder / "case.toml").write_text(f"tolerance = {TOLERANCE}\n", encoding="utf-8")
    files = [file.name for file in sorted(folder.iterdir()) if file.is_file()]
    made = recipe() | {"files": files, "missing": missing, "parameters": sum(p.numel() for p in network.parameters()),
                       "input": list(x.shape), "output": list(output.shape)}
    (folder / "made.json").write_text(json.dumps(made, indent=1), encoding="utf-8")
    return missing


def main() -> None:
    folder, network = Path(sys.argv[1]).resolve(), sys.argv[2]
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    name = folder_name(network, batch)
    warnings.filterwarnings("ignore")
    for step, reason in make(network, batch, folder / name).items():
        print(f"{name}: no {step}: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
