"""Sweeps over the functions of PyTorch: exports each with small inputs, runs it with Ixion, and compares the results.

    pip install -r tests/export/requirements.txt
    python tests/export/sweep.py target/debug/ixion                    writes tests/export/sweep.tsv
    python tests/export/sweep.py target/debug/ixion 'torch.fft.*'      prints those whose names match, and writes nothing
    IXION_WRITE=1 cargo test --test it sweep::                         makes the book's page from the list

The functions are those of `torch`, `torch.nn.functional`, `torch.special`, `torch.fft`, `torch.linalg` and `torchvision.ops`, the
methods and properties of `torch.Tensor`, and the modules of `torch.nn`. The folder `sweeping` has the parts: `functions.py` the
rules by which some are not for inference, `samples.py` and `recipes.py` the inputs, `exporting.py` PNNX. The command should be
one with the feature `linalg`. A line of the list is a function, a verdict, its reason, and the operator types in the exported
files that have layers, or that lack one:

    runs      all results are PyTorch's; with a reason, PNNX could not export some samples
    feature   needs a cargo feature, without which this command was built
    refused   an operator type has no layer
    fails     Ixion refuses the operator with these arguments, or fails while running
    differs   a result is not PyTorch's
    pnnx      PNNX cannot export it, or writes something else
    excluded  not for inference

With `--keep`, the files and inputs remain, as cases for `ixion verify`. A sweep takes about five minutes of one core.
"""

import argparse
import fnmatch
import json
import re
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch

from sweeping.exporting import Exported, NotExported, export
from sweeping.functions import Function, functions
from sweeping.known import KNOWN
from sweeping.samples import NoTensors, Sample, samples_of

LIST = Path(__file__).resolve().parent / "sweep.tsv"
NO_TENSORS = "gives no tensor: what it gives is a constant of the traced model"
LAPACK = "built without the feature `linalg`"
WRONG = "what it writes gives other results, in PyTorch as well"
# The samples that PNNX gets together, and the folders of one call of Ixion.
TOGETHER, AT_ONCE = 24, 400
ORDER = ["differs", "refused", "fails", "feature", "runs", "pnnx"]


@dataclass
class Outcome:
    """What became of one sample."""

    verdict: str
    reason: str = ""
    types: set[str] = field(default_factory=set)


def main() -> int:
    parser = argparse.ArgumentParser(description="Sweeps over the functions of PyTorch.")
    parser.add_argument("ixion", type=Path, help="the command, such as target/debug/ixion")
    parser.add_argument("patterns", nargs="*", help="names, or patterns such as 'torch.fft.*': prints the results of these alone")
    parser.add_argument("--keep", type=Path, help="a folder for the exported samples, which `ixion verify` reads")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows: dict[str, Outcome] = {}
    samples: list[Sample] = []
    for function in functions():
        if arguments.patterns and not any(fnmatch.fnmatch(function.full_name, pattern) for pattern in arguments.patterns):
            continue
        rows[function.full_name], found = prepare(function)
        samples += found
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = sweep(samples, arguments.ixion.resolve(), (arguments.keep or Path(scratch)).resolve())
    layers = known_types(arguments.ixion.resolve())
    for name, found in outcomes.items():
        row = rows[name] = joined(name, found)
        if row.verdict == "runs":
            # What is resolved while a model is built needs no layer.
            row.types &= layers
    lines = [f"{name}\t{row.verdict}\t{row.reason}\t{' '.join(sorted(row.types))}" for name, row in rows.items()]
    if arguments.patterns:
        print("\n".join(lines))
    else:
        LIST.write_text("\n".join(lines) + "\n")
    counts = {verdict: sum(row.verdict == verdict for row in rows.values()) for verdict in [*ORDER, "excluded"]}
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), file=sys.stderr)
    return 0


def prepare(function: Function) -> tuple[Outcome, list[Sample]]:
    """The verdict for a function that is not for inference, or its samples."""
    reason = function.excluded()
    if reason is not None:
        return Outcome("excluded", reason), []
    try:
        samples = samples_of(function)
    except NoTensors:
        return Outcome("excluded", NO_TENSORS), []
    assert samples, f"{function.full_name} accepts no sample: add a recipe, or a rule that excludes it"
    return Outcome(""), samples


def sweep(samples: list[Sample], ixion: Path, root: Path) -> dict[str, list[Outcome]]:
    """The outcomes of the samples, by function. Those that Ixion does not run right are exported again, each alone."""
    # PNNX has one second set of inputs, so samples with one are exported alone.
    static = [sample for sample in samples if not sample.others]
    first = examine([static[start:start + TOGETHER] for start in range(0, len(static), TOGETHER)], ixion, root / "together")
    again = [sample for sample in samples if sample.others or first[id(sample)].verdict in ("differs", "fails")]
    outcomes = first | examine([[sample] for sample in again], ixion, root / "alone")
    by_function: dict[str, list[Outcome]] = {}
    for sample in samples:
        by_function.setdefault(sample.function.full_name, []).append(outcomes[id(sample)])
    return by_function


def examine(batches: list[list[Sample]], ixion: Path, root: Path) -> dict[int, Outcome]:
    """Exports batches of samples, and runs them."""
    outcomes: dict[int, Outcome] = {}
    folders: dict[str, tuple[Sample, Exported]] = {}
    for index, batch in enumerate(batches):
        progress(f"{root.name}: {index + 1}/{len(batches)} {batch[0].function.full_name}")
        for sample, graph in zip(batch, export(batch), strict=True):
            if isinstance(graph, NotExported):
                outcomes[id(sample)] = Outcome("pnnx", str(graph))
                continue
            folder = f"{sample.function.full_name}-{len(folders)}"
            graph.write(root / folder, sample)
            folders[folder] = sample, graph
    progress("")
    names = list(folders)
    for start in range(0, len(names), AT_ONCE):
        for case in verify(ixion, [root / name for name in names[start:start + AT_ONCE]]):
            sample, graph = folders[case["name"]]
            outcomes[id(sample)] = outcome(case, graph)
    return outcomes


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", flush=True, file=sys.stderr)


def known_types(ixion: Path) -> set[str]:
    """The operator types that have a layer."""
    listed = json.loads(subprocess.run([ixion, "operators", "--json"], capture_output=True, check=True).stdout)
    return {operator["type"] for operator in listed["operators"]}


def verify(ixion: Path, folders: list[Path]) -> list[dict]:
    command = [ixion, "--timeout", "30", "verify", "--jobs", "1", "--json", *folders]
    return json.loads(subprocess.run(command, capture_output=True, check=False).stdout)["cases"]


def outcome(case: dict, graph: Exported) -> Outcome:
    """The verdict of `ixion verify` in the words of the list."""
    types = graph.types()
    if case["verdict"] == "pass":
        return Outcome("runs", "", types)
    if case.get("unsupported"):
        return Outcome("refused", "no layer for " + ", ".join(f"`{name}`" for name in sorted(set(case["unsupported"]))), types)
    if graph.is_right is False:
        return Outcome("pnnx", WRONG, types)
    if LAPACK in case["reason"]:
        return Outcome("feature", "needs the feature `linalg`", types)
    return Outcome("differs" if case["verdict"] == "fail" else "fails", shortened(case["reason"]), types)


def shortened(reason: str) -> str:
    """The reason without paths, and without what depends on the sample."""
    reason = re.sub(r"(arrays\w*\.npz: )?\S*model\.param:\d+: ", "", " ".join(reason.split()))
    reason = re.sub(r"^arrays\w*\.npz: |^(\S+) `\S+`", r"\1", reason)
    return re.split(r" note: |; worst |: expected finite", reason)[0].replace("|", "/")


def joined(name: str, outcomes: list[Outcome]) -> Outcome:
    """The verdict on a function: the worst of those on its samples."""
    verdict = next(verdict for verdict in ORDER if any(outcome.verdict == verdict for outcome in outcomes))
    reasons = [outcome.reason for outcome in outcomes if outcome.verdict == verdict and outcome.reason]
    reason = reasons[0] if reasons else ""
    known = KNOWN.get(name)
    if known is not None and verdict in ("differs", "fails"):
        verdict, reason = known
    count = sum(outcome.verdict == verdict for outcome in outcomes)
    if verdict in ("differs", "refused", "fails") and count < len(outcomes):
        reason = f"{count} of {len(outcomes)} samples: {reason}"
    left_out = [outcome.reason for outcome in outcomes if outcome.verdict == "pnnx"]
    if verdict == "runs" and left_out:
        reason = f"PNNX cannot export {len(left_out)} of {len(outcomes)} samples: {left_out[0]}"
    return Outcome(verdict, reason, set().union(*(outcome.types for outcome in outcomes)))


if __name__ == "__main__":
    sys.exit(main())
