"""Runs ONNX's own backend tests on Ixion, and writes a table of what became of them.

    pip install -r tests/export/requirements.txt
    python tests/export/onnx_suite.py generate target/onnx_suite        writes all tests as folders
    python tests/export/onnx_suite.py run target/onnx_suite             runs them by `ixion.load("model.onnx")`
    python tests/export/onnx_suite.py run target/onnx_suite --filter 'test_conv*' --filter 'simple/*'
    python tests/export/onnx_suite.py run target/onnx_suite --binary 'ixion convert {} --param {}'
    python tests/export/onnx_suite.py run target/onnx_suite --through command --binary target/debug/ixion
    python tests/export/onnx_suite.py run target/onnx_suite --through onnxruntime

`--binary` gives a command that converts an ONNX file to a PNNX file, which is run instead: the paths take the place of each `{}`, or
follow the command. With `--through command`, it is Ixion's command, by which tests run, instead of the Python package; it takes no
bf16. The sets are those of the package `onnx`: `node` has one operator each, and the functions that define operators, expanded;
`simple`, `pytorch-operator` and `pytorch-converted` are small models; `light` are nine networks with constant weights. Every test is

    pass     all outputs have the stored shapes, types and values, within the tolerances of `onnx.backend.test` (two
             inverse transforms have a wider one: `LOOSER` in `onnxing/layout.py`),
    refused  loading or running gives an error, which is the reason,
    wrong    outputs differ, or
    crashed  the process ended, panicked, or took longer than 20 seconds.

Of tests with random results, only shapes and types are compared. The log has a line for every test: its name, verdict, reason,
operator, and what it has that Ixion has no type for (or `training`). The table counts them by operators. The columns from `typed` on
are about the tests whose last column is empty. `run tests/onnx` runs the samples that `onnx_sample.py` has written.
"""

import argparse
import sys
from pathlib import Path

from onnxing import layout, report
from onnxing.engines import ENGINES
from onnxing.running import run_all, selected


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    generate = commands.add_parser("generate", help="write all tests as folders")
    generate.add_argument("folder", type=Path)
    run = commands.add_parser("run", help="run them, and write a table")
    run.add_argument("folder", type=Path)
    run.add_argument("--filter", action="append", default=[], metavar="GLOB",
                     help="names of tests, also with their set as in 'simple/*', or operators as in 'op:Conv'; may be repeated")
    run.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    run.add_argument("--binary", metavar="CMD", default="", help="a command that converts a file to PNNX, or Ixion's own")
    run.add_argument("--through", choices=ENGINES, default="ixion", help="the runtime (default: ixion)")
    run.add_argument("--seconds", type=float, default=20, help="the limit of a test (default: 20)")
    run.add_argument("--log", type=Path, help="where the log goes (default: log.tsv in the folder; with --filter, nowhere)")
    run.add_argument("--table", type=Path, help="where the table goes (default: table.txt in the folder; with --filter, nowhere)")
    run.add_argument("--book", type=Path, help="a page with the lines <!-- onnx_suite --> and <!-- onnx_suite end -->: what is between them is replaced")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if arguments.command == "generate":
        tests = layout.generate(arguments.folder)
        print(f"{len(tests)} tests in {arguments.folder}")
        return 0
    tests = selected(layout.read(arguments.folder), arguments.filter)
    if not tests:
        sys.exit("no test has such a name")
    outcomes = run_all(arguments.folder, tests, arguments)
    log, table = report.log(outcomes), report.table(outcomes)
    whole = not arguments.filter
    if arguments.book:
        before, rest = arguments.book.read_text().split("<!-- onnx_suite -->\n")
        after = rest.split("<!-- onnx_suite end -->\n")[1]
        arguments.book.write_text(f"{before}<!-- onnx_suite -->\n{report.book(outcomes)}<!-- onnx_suite end -->\n{after}")
    for path, name, text in ((arguments.log, "log.tsv", log), (arguments.table, "table.txt", table)):
        if path or whole:
            (path or arguments.folder / name).write_text(text)
    if not whole:
        print(report.log([outcome for outcome in outcomes if outcome.status != "pass"]), end="")
    print(report.totals(outcomes), end="")
    return 1 if any(outcome.status in ("wrong", "crashed") for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
