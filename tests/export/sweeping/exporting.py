"""Exports samples with PNNX, many in one file, and takes the file apart into one graph for each sample.

PNNX takes half a second to start, and next to none for one operator more.
"""

import contextlib
import os
import re
import subprocess
import tempfile
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pnnx
import torch
from torch import Tensor, nn

from case import as_array, npz

from .samples import Sample, flatten

SECONDS = 60
# What PNNX says where its PyTorch lacks a library.
WITHOUT_LAPACK = re.compile(r"requires compiling PyTorch with LAPACK|LAPACK library not found")
# What a program raises that PNNX could not write, because it does not know an operator's Python.
UNKNOWN = (SyntaxError, NameError, NotImplementedError, AttributeError, ImportError)


class NotExported(Exception):
    """PNNX, or the tracing before it, has failed."""


class Calls(nn.Module):
    """All samples; each gets its tensors, and the results come in their order."""

    def __init__(self, samples: list[Sample]):
        super().__init__()
        self.samples = samples
        self.owned = nn.ModuleList(sample.module for sample in samples if sample.module is not None)

    def forward(self, *tensors: Tensor):
        results, start = [], 0
        for sample in self.samples:
            end = start + len(sample.tensors)
            results += sample.run(list(tensors[start:end]))
            start = end
        return tuple(results)


@dataclass
class Exported:
    """The graph of one sample, as a text, the archive of the file that it is from, and the numbers of the inputs that it has."""

    lines: list[str]
    archive: bytes
    inputs: list[int]
    # Whether the Python that PNNX wrote gives the results in PyTorch; `None` where it was not run, or cannot be.
    is_right: bool | None = None

    def types(self) -> set[str]:
        """The operator types that need a layer."""
        types = {line.split()[0] for line in self.lines}
        return {name for name in types if name not in ("pnnx.Input", "pnnx.Output") and not re.match(r"prim::(Constant|(Tuple|List)(Construct|Unpack))$", name)}

    def text(self) -> str:
        operands = {name for line in self.lines for name in operands_of(line)}
        return f"7767517\n{len(self.lines)} {len(operands)}\n" + "".join(f"{line}\n" for line in self.lines)

    def write(self, folder: Path, sample: Sample) -> None:
        """Writes a case for `ixion verify`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.param").write_text(self.text())
        if self.archive.startswith(b"PK\x03\x04") and any("@" in line for line in self.lines):
            (folder / "model.bin").write_bytes(self.archive)
        for suffix, tensors, results in sample.sets():
            arrays = {f"in_{place}": as_array(tensors[index]) for place, index in enumerate(self.inputs)}
            arrays |= {f"out_{index}": as_array(tensor) for index, tensor in enumerate(results)}
            (folder / f"arrays{suffix}.npz").write_bytes(npz(arrays))
        if not sample.fixed:
            (folder / "case.toml").write_text("values = false\n")


def fields(line: str) -> tuple[list[str], int, int]:
    """Type, name, counts and operands of a line, and the numbers of inputs and outputs."""
    parts = line.split()
    inputs, outputs = int(parts[2]), int(parts[3])
    return parts[:4 + inputs + outputs], inputs, outputs


def operands_of(line: str) -> list[str]:
    return fields(line)[0][4:]


def run_pnnx(samples: list[Sample], with_inputs: bool) -> list[Exported | None]:
    """The graphs of the samples in the file that PNNX writes; `None` for those that share an operator with others."""
    torch.backends.mha.set_fastpath_enabled(False)
    tensors = [tensor.clone() for sample in samples for tensor in sample.tensors]
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        path = Path(scratch) / "model.pt"
        try:
            traced = torch.jit.trace(Calls(samples).eval(), tuple(tensors), check_trace=False)
            traced.save(str(path))
        except Exception as error:
            raise NotExported(f"PyTorch does not trace it: {first_line(error)}") from error
        if not keeps_sizes(traced, samples):
            raise NotExported("the trace makes a constant of a size")
        if not with_inputs:
            without_inputs(path)
        arguments = write_inputs(samples, Path(scratch)) if with_inputs else []
        try:
            done = subprocess.run([pnnx.EXEC_PATH, "model.pt", *arguments], cwd=scratch, capture_output=True, timeout=SECONDS,
                                  env=os.environ | {"OMP_NUM_THREADS": "1"})
        except subprocess.TimeoutExpired as error:
            raise NotExported(f"takes longer than {SECONDS} s") from error
        written = Path(scratch) / "model.pnnx.param"
        if not written.is_file() or written.stat().st_size == 0:
            raise NotExported(complaint((done.stderr + done.stdout).decode(errors="replace"), done.returncode))
        lines, archive = written.read_text().splitlines()[2:], (Path(scratch) / "model.pnnx.bin").read_bytes()
        if len(samples) > 1:
            return taken_apart(lines, archive, samples)
        return [Exported(lines, archive, input_numbers(lines), is_right(scratch, samples[0]))]


def keeps_sizes(traced, samples: list[Sample]) -> bool:
    """Whether the traced function computes the results for the second set of a sample, too."""
    _, tensors, results = [*samples[0].sets()][-1]
    if len(samples) > 1 or tensors is samples[0].tensors:
        return True
    found = flatten(traced(*(tensor.clone() for tensor in tensors)))
    return all(alike(a, b, samples[0].fixed) for a, b in zip(found, results, strict=True))


def is_right(scratch: str, sample: Sample) -> bool | None:
    """Whether PNNX's Python gives the results of a sample."""
    with contextlib.chdir(scratch):
        space: dict = {"__name__": "model_pnnx"}
        try:
            exec(Path("model_pnnx.py").read_text(), space)
            torch.manual_seed(1)
            found = flatten(space["Model"]().eval()(*(tensor.clone() for tensor in sample.tensors)))
        except Exception as error:  # Whatever a generated program may do.
            return None if isinstance(error, UNKNOWN) else False
    if len(found) != len(sample.results):
        return False
    return all(alike(a, b, sample.fixed) for a, b in zip(found, sample.results, strict=True))


def alike(a: Tensor, b: Tensor, fixed: bool) -> bool:
    """Whether shapes and types are the same, and values nearly so."""
    return a.shape == b.shape and a.dtype == b.dtype and (not fixed or torch.allclose(a, b, 1e-3, 1e-3, equal_nan=True))


def write_inputs(samples: list[Sample], folder: Path) -> list[str]:
    """Writes the tensors, with which PNNX runs the model, and returns the arguments that say so. With a second set, the axes in
    which the sets differ become dynamic."""
    arguments = []
    for key, sets in (("input", [sample.tensors for sample in samples]), ("input2", [sample.others for sample in samples])):
        tensors = [tensor for group in sets for tensor in group]
        names = [f"{key}_{index}.npy" for index in range(len(tensors))]
        for name, tensor in zip(names, tensors, strict=True):
            np.save(folder / name, as_array(tensor))
        arguments += [f"{key}={','.join(names)}"] if names else []
    return arguments


def without_inputs(path: Path) -> None:
    """Removes the traced inputs from a model's file, with which PNNX would run the model."""
    with zipfile.ZipFile(path) as file:
        kept = {name: file.read(name) for name in file.namelist() if "/traced_inputs" not in name}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, data in kept.items():
            file.writestr(name, data)


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def complaint(output: str, code: int) -> str:
    """Why PNNX failed, in one line."""
    if lacking := WITHOUT_LAPACK.search(output):
        return lacking[0]
    errors = re.findall(r"^(?:RuntimeError|[A-Z]\w+Error): (.*)$", output, re.MULTILINE) or re.findall(r"^\s*what\(\):\s*(.*)$", output, re.MULTILINE)
    return errors[-1] if errors else f"ends with code {code}"


def export(samples: list[Sample]) -> list[Exported | NotExported]:
    """Each sample's graph, or why it has none. What fails together is tried in halves."""
    try:
        graphs = run_pnnx(samples, True)
    except NotExported as error:
        if len(samples) > 1:
            middle = len(samples) // 2
            return export(samples[:middle]) + export(samples[middle:])
        return [export_blindly(samples[0], error)]
    return [graph or export([sample])[0] for graph, sample in zip(graphs, samples, strict=True)]


def export_blindly(sample: Sample, error: NotExported) -> Exported | NotExported:
    """PNNX's PyTorch has no LAPACK, but does not need it unless it runs the model."""
    if not WITHOUT_LAPACK.fullmatch(str(error)):
        return error
    try:
        return run_pnnx([sample], False)[0]
    except NotExported as error:
        return error


def taken_apart(lines: list[str], archive: bytes, samples: list[Sample]) -> list[Exported | None]:
    """The graph of each sample."""
    *body, output = lines
    results = operands_of(output)
    for line in body:
        parts, inputs, outputs = fields(line)
        if parts[0] == "prim::TupleConstruct" and outputs == 1 and parts[4 + inputs:] == results:
            results = parts[4:4 + inputs]
            body.remove(line)
            break
    if len(results) != sum(len(sample.results) for sample in samples):
        return [None] * len(samples)
    groups = connected(body, constants(body))
    graphs, start, first, taken = [], 0, 0, set()
    for sample in samples:
        wanted = results[start:start + len(sample.results)]
        start += len(sample.results)
        roots = {groups.get(name) for name in wanted}
        # What two samples use, or a constant as a result, cannot be told apart.
        shared = bool(roots & taken) or None in roots
        taken |= roots
        own = range(first, first + len(sample.tensors))
        first = own.stop
        graphs.append(None if shared else part(body, groups, roots, wanted, archive, own))
    return graphs


def part(body: list[str], groups: dict[str, str], roots: set, wanted: list[str], archive: bytes, own: range) -> Exported | None:
    """The operators of these groups, with the inputs of these numbers; `None` if they have other inputs."""
    lines = [line for line in body if any(groups.get(name) in roots for name in operands_of(line))]
    lines = with_constants(body, lines)
    numbers = input_numbers(lines)
    if not all(number in own for number in numbers):
        return None
    unused = [line for line in body if line.startswith("pnnx.Input") and line not in lines and input_numbers([line])[0] in own]
    numbers = sorted([*numbers, *input_numbers(unused)])
    inputs = sorted([line for line in lines if line.startswith("pnnx.Input")] + unused, key=lambda line: input_numbers([line]))
    lines = inputs + [line for line in lines if not line.startswith("pnnx.Input")]
    lines.append(f"prim::TupleConstruct tuple {len(wanted)} 1 {' '.join(wanted)} results")
    lines.append("pnnx.Output pnnx_output_0 1 0 results")
    return Exported(lines, archive, [number - own.start for number in numbers])


def constants(body: list[str]) -> set[str]:
    """Operands that are constants, which samples share."""
    found: set[str] = set()
    for line in body:
        parts, inputs, _ = fields(line)
        follows = parts[0] in ("pnnx.Expression", "prim::ListConstruct") and found.issuperset(parts[4:4 + inputs])
        if follows or parts[0] in ("prim::Constant", "pnnx.Attribute"):
            found.update(parts[4 + inputs:])
    return found


def with_constants(body: list[str], lines: list[str]) -> list[str]:
    """The lines of a graph, and before them those of the constants that they need."""
    needed: set[str] = set()
    chosen = set(lines)
    for line in reversed(body):
        parts, inputs, _ = fields(line)
        if line in chosen or needed.intersection(parts[4 + inputs:]):
            chosen.add(line)
            needed.update(parts[4:4 + inputs])
    return [line for line in body if line in chosen]


def input_numbers(lines: list[str]) -> list[int]:
    return [int(line.split()[1].rsplit("_", 1)[1]) for line in lines if line.startswith("pnnx.Input")]


def connected(body: list[str], shared: set[str]) -> dict[str, str]:
    """A representative for each operand that is not shared, which is the same for operands that operators connect."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents.setdefault(name, name) != name:
            name = parents[name]
        return name
    for line in body:
        names = [name for name in operands_of(line) if name not in shared]
        for name in names:
            parents[root(name)] = root(names[0])
    return {name: root(name) for name in list(parents)}
