"""Draws what `benches/python.py` measured, for the README of the Python package.

    pip install matplotlib
    python benches/python.py --rows call,scaling,latency … --json python.json
    python benches/python_plots.py python.json

Writes `plots/latency.svg` and `plots/threads.svg` in `crates/ixion-python`, and the same figures as a table into its README,
between the marks `<!-- measured: begin -->` and `<!-- measured: end -->`: package indexes show no pictures of relative addresses.
"""

import argparse
import json
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "crates/ixion-python"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
VERSION = 2
"""The version of the JSON file that this reads."""
COLOURS = {"ixion": "#c2410c", "onnxruntime": "#475569"}
MARKS = {"ixion": "o", "onnxruntime": "s"}
STYLE = {
    "svg.hashsalt": "ixion", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e2e8f0", "legend.frameon": False,
    # Readable on a dark page as well.
    "figure.facecolor": "white", "savefig.facecolor": "white",
}
NAMES = {"digits": "digits, 8×8", "resnet18": "ResNet-18, 224×224"}


def curves_of(measured: dict, row: str) -> dict[str, dict[str, list[float]]]:
    """The curves of a row by network. Ends the program if they were not measured."""
    found = measured["rows"].get(row, {})
    if "curves" not in found:
        raise SystemExit(f"the row {row} was not measured: {found.get('reason', f'python benches/python.py --rows {row}')}")
    return found["curves"]


def draw(curves: dict[str, dict[str, list[float]]], along: str, label: str, unit: str, path: Path, *, logarithmic: bool) -> None:
    """One panel for each network, with a line for each runtime."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.2), layout="constrained", squeeze=False)
        for panel, (network, curve) in zip(panels[0], curves.items()):
            for runtime, colour in COLOURS.items():
                panel.plot(curve[along], curve[runtime], marker=MARKS[runtime], color=colour, label=runtime)
            if logarithmic:
                panel.set_xscale("log", base=2)
                panel.set_yscale("log")
            else:
                panel.set_ylim(bottom=0)
            panel.set_xticks(curve[along], [str(value) for value in curve[along]], minor=False)
            panel.set(title=NAMES.get(network, network), xlabel=label, ylabel=unit)
            panel.legend()
        path.parent.mkdir(exist_ok=True)
        # Without a date, the same figures give the same file.
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def table(curves: dict[str, dict[str, list[float]]], along: str, label: str, unit: str) -> list[str]:
    """The same figures: a row for each network and number, a column for each runtime."""
    lines = [f"| model | {label} | ixion, {unit} | onnxruntime, {unit} |", "|---|--:|--:|--:|"]
    for network, curve in curves.items():
        for at, count in enumerate(curve[along]):
            values = " | ".join(rounded(curve[runtime][at]) for runtime in COLOURS)
            lines.append(f"| {NAMES.get(network, network)} | {count} | {values} |")
    return lines


def rounded(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def report(measured: dict) -> str:
    """The part of the README."""
    machine, versions = measured["machine"], measured["versions"]
    call = measured["rows"].get("call", {})
    lines = [f"{machine['processor']}, {machine['cores']} cores, {machine['date'][:10]}; ixion {versions['ixion']}, onnxruntime "
             f"{versions['onnxruntime']}, Python {versions['python']}.", ""]
    if "overhead_us" in call:
        lines += [f"A call of `digits` with one picture takes {call['context_out_us']:.1f} µs, {call['overhead_us']:.1f} µs more "
                  f"than in Rust; onnxruntime's takes {call['onnxruntime_us']:.1f} µs.", ""]
    lines += table(curves_of(measured, "latency"), "batches", "pictures in a run", "ms")
    lines += ["", *table(curves_of(measured, "scaling"), "threads", "threads", "runs of 64 pictures per second")]
    return "\n".join(lines) + "\n"


def insert(readme: Path, text: str) -> None:
    """Replaces what is between the marks."""
    whole = readme.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{readme} has no marks {BEGIN.strip()} and {END.strip()}")
    readme.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8", newline="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, help="what benches/python.py wrote for --json")
    parser.add_argument("--package", type=Path, default=PACKAGE, metavar="FOLDER", help="the folder with plots/ and README.md")
    arguments = parser.parse_args()
    measured = json.loads(arguments.measured.read_text(encoding="utf-8"))
    if measured.get("version") != VERSION:
        raise SystemExit(f"{arguments.measured} has version {measured.get('version')}, expected {VERSION}: measure again")
    plots = arguments.package / "plots"
    latency, scaling = curves_of(measured, "latency"), curves_of(measured, "scaling")
    draw(latency, "batches", "pictures in a run", "ms", plots / "latency.svg", logarithmic=True)
    draw(scaling, "threads", "threads", "runs of 64 pictures per second", plots / "threads.svg", logarithmic=False)
    insert(arguments.package / "README.md", report(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
