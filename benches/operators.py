"""Times the operators of operators.tsv in PyTorch on one thread, and compares them with the measurements of operators.rs.

    cargo bench --bench operators -- --json ixion.json
    python benches/operators.py ixion.json

`growth` is the ratio of times for 16 × 3,600 and 3,600 elements, which fit the second-level cache. `beyond` is the ratio for
a million elements, scaled to 16 times as many: it exceeds 16 if only the smaller tensors fit the cache.
"""

import json
import math
import re
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

SIZES = [3_600, 16 * 3_600, 1_000_000]
DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "c64": torch.complex64,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}


def value(formula, n):
    return eval(formula.replace("/", "//"), {"n": n, "r": math.isqrt(n)})


def tensor(kind, bound, dims, axes, n):
    dims, dtype = [value(dim, n) for dim in dims.split(",")], DTYPES[kind]
    if dtype == torch.bool or bound.startswith("<"):
        x = torch.randint(0, value(bound[1:], n) if bound else 2, dims).to(dtype)
    elif bound == "+":
        x = (torch.rand(dims) * 0.99 + 0.01).to(dtype)
    else:
        x = torch.randn(dims).to(dtype)
    return x.permute([int(axis) for axis in axes.split(",")]) if axes else x


def names(inputs, params, n):
    """The names available to a line's expression."""
    found = {"torch": torch, "F": F, "n": n, "r": math.isqrt(n)}
    for name, kind, bound, dims, axes in re.findall(r"(\w+):(\w+?)(<[^[]+|\+)?\[(.*?)\](?:@([\d,]+))?", inputs):
        found[name] = tensor(kind, bound, dims, axes, n)
    computed = re.sub(r"{(.*?)}", lambda braces: str(value(braces[1], n)), params)
    for key, dims, kind in re.findall(r"@([\w.]+)=\((.*?)\)(\w+)", computed):
        found[key.replace(".", "_")] = tensor(kind, "", dims, "", n)
    return found


def measure(expression, scope):
    """The shortest of several runs, in milliseconds."""
    code, best, begin = compile(expression, expression, "eval"), math.inf, time.perf_counter()
    for run in range(60):
        start = time.perf_counter()
        result = eval(code, scope)
        best = min(best, time.perf_counter() - start)
        del result
        if run >= 5 and time.perf_counter() - begin > 0.06:
            break
    return best * 1e3


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ours = json.loads(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    rows = []
    for line in Path(__file__).with_suffix(".tsv").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        op_type, _, inputs, params, expression = line.split("\t")[:5]
        shown = [param for param in params.split(" ") if not param.startswith(("@", "$"))]
        name = " ".join([op_type, inputs, " ".join(shown)]).strip()
        if ours and name not in ours:
            continue
        with torch.inference_mode():
            try:
                theirs = [measure(expression, names(inputs, params, n)) for n in SIZES]
            except Exception as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
        times = ours.get(name, [math.nan] * 3)
        rows.append((times[2] / theirs[2], name, times, theirs))
    print("| operator | ms at 10⁶ | PyTorch's | ratio | growth | PyTorch's | beyond | PyTorch's |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for ratio, name, times, theirs in sorted(rows, key=lambda row: row[0], reverse=True):
        growth = " | ".join(f"{of[1] / of[0]:.1f}" for of in (times, theirs))
        beyond = " | ".join(f"{of[2] / of[1] * 16 * SIZES[1] / SIZES[2]:.1f}" for of in (times, theirs))
        print(f"| {name} | {times[2]:.3f} | {theirs[2]:.3f} | {ratio:.2f} | {growth} | {beyond} |")


main()
