"""The child process that runs tests, one after another: a line of JSON for each on standard input, and one with the verdict on
standard output. A test that ends the process ends only itself, since `onnx_suite.py` starts another."""

import json
import os
import resource
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx

from . import layout
from .engines import ENGINES, Crashed, Refused, Wrong

# A test that asks for more is wrong; the largest networks need about one.
MEMORY_BYTES = 12 << 30


def main() -> None:
    engine = ENGINES[sys.argv[1]](sys.argv[2:])
    # What libraries print must not come between the verdicts.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        test = json.loads(line)
        status, reason = verdict(engine, test)
        print(json.dumps([status, shortened(reason, test["folder"])]), file=answers, flush=True)


def verdict(engine, test: dict) -> tuple[str, str]:
    try:
        check(engine, test)
    except Refused as error:
        return "refused", str(error)
    except Wrong as error:
        return "wrong", str(error)
    except Crashed as error:
        return "crashed", str(error)
    except Exception as error:
        return "refused", f"the test cannot be given to the runtime: {type(error).__name__}: {error}"
    return "pass", ""


def check(engine, test: dict) -> None:
    folder = Path(test["folder"])
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    run = engine.load(folder / "model.onnx")
    for data in layout.data_sets(folder):
        inputs = layout.load_values(data, "input", layout.inputs_of(model))
        wanted = layout.load_values(data, "output", list(model.graph.output))
        if test["nested"]:
            results = run(inputs)
        else:
            inputs, wanted = flattened(inputs), flattened(wanted)
            refuse_strings(inputs)
            results = flattened(run(inputs))
        compare(results, wanted, test)


def flattened(values: list) -> list:
    """The arrays of sequences and optionals: Ixion has neither, but a model may be lowered to one without them."""
    flat = []
    for value in values:
        if value is None or isinstance(value, dict):
            raise Refused(f"{'an empty optional' if value is None else 'a map'} cannot be given to the model, or taken from it")
        flat += flattened(value) if isinstance(value, (list, tuple)) else [np.asarray(value)]
    return flat


def refuse_strings(inputs: list) -> None:
    if any(array.dtype.kind in "OUS" for array in inputs):
        raise Refused("strings cannot be given to the model")


def compare(results: list, wanted: list, test: dict) -> None:
    """As `onnx.backend.test` compares: shapes and types must be equal, and values close."""
    if len(results) != len(wanted):
        raise Wrong(f"{len(results)} outputs, expected {len(wanted)}")
    for at, (result, expected) in enumerate(zip(results, wanted, strict=True)):
        if isinstance(expected, list):
            compare(result, expected, test)
        elif expected is None or result is None:
            if result is not expected:
                raise Wrong(f"output {at}: found {result}, expected {expected}")
        else:
            compare_arrays(at, np.asarray(result), expected, test)


def compare_arrays(at: int, result: np.ndarray, expected: np.ndarray, test: dict) -> None:
    if result.shape != expected.shape:
        raise Wrong(f"output {at}: shape {result.shape}, expected {expected.shape}")
    if expected.dtype.kind in "OUS":
        if not np.array_equal(result.astype(str), expected.astype(str)):
            raise Wrong(f"output {at}: other strings")
        return
    if result.dtype != expected.dtype:
        raise Wrong(f"output {at}: type {result.dtype}, expected {expected.dtype}")
    if test["random"]:
        return
    rtol = test["rtol"]
    if expected.dtype.name == "bfloat16":
        rtol = max(rtol, 2.0**-6)
    if expected.dtype.kind not in "biufc" or expected.dtype.name == "bfloat16":
        result, expected = result.astype(np.float32), expected.astype(np.float32)
    with np.errstate(all="ignore"):
        close = np.isclose(result, expected, rtol=rtol, atol=test["atol"], equal_nan=True)
    if not close.all():
        index = tuple(int(i) for i in np.argwhere(~close)[0])
        where = f" at {list(index)}" if index else ""
        raise Wrong(f"output {at}: {int((~close).sum())} of {close.size} values differ, the first{where}: "
                    f"{result[index]}, expected {expected[index]}")


def shortened(reason: str, folder: str) -> str:
    """One line without paths."""
    reason = " ".join(reason.replace(f"{folder}/", "").replace(folder, "").split())
    for word in reason.split():
        if word.startswith("/tmp/") and "out.pnnx.param" in word:
            reason = reason.replace(word, "out.pnnx.param" + word.split("out.pnnx.param", 1)[1])
    return reason[:400]


if __name__ == "__main__":
    main()
