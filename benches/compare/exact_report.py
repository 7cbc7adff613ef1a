"""Errors and times as a table in Markdown."""

from .exact import RULED, SETTINGS
from .report import BUSY, geometric_mean, milliseconds, table

TITLES = {"default": "default", "fast": "`--fast`", "interpret": "`--interpret`"}


def pair(of: dict, text: str) -> str:
    return f"{of['largest']:{text}} / {of['mean']:{text}}"


def ratios(result: dict, setting: str, rule: float) -> str:
    """The ratios to PyTorch's errors, those of the number of threads with the larger ones; bold if they break the rule."""
    found = [of["ratio"] for of in result["settings"][setting].values()]
    worst = {key: max(of[key] for of in found) for key in ("largest", "mean")}
    text = pair(worst, ".2f")
    return f"**{text}**" if setting in RULED and max(worst.values()) > rule else text


def in_f64(result: dict) -> list[str]:
    """The error of the interpreter in f64, and that of PNNX's weights."""
    found = result["f64"]
    return ["–", "–"] if "reason" in found else [f"{found[key]['largest']:.0e}" for key in ("interpreter", "weights")]


def errors(networks: dict[str, dict], rule: float) -> str:
    lines = [[name, pair(result["pytorch"], ".1e"), *(ratios(result, setting, rule) for setting in SETTINGS),
              *in_f64(result)] for name, result in networks.items()]
    means = []
    for setting in SETTINGS:
        found = [result["settings"][setting] for result in networks.values()]
        worst = [[max(of["ratio"][key] for of in threads.values()) for threads in found] for key in ("largest", "mean")]
        is_known = all(0 < ratio < float("inf") for column in worst for ratio in column)
        means.append(" / ".join(f"{geometric_mean(column):.2f}" for column in worst) if is_known else "")
    head = ["largest / mean error", "PyTorch", *(TITLES[setting] for setting in SETTINGS), "in f64", "PNNX's weights"]
    return table(head, [*lines, ["geometric mean", "", *means, "", ""]])


def times(networks: dict[str, dict], threads: list[int]) -> str:
    """The times of the default plan and of `--fast`, and their ratio."""
    lines = []
    for name, result in networks.items():
        cells = []
        for count in threads:
            found = result["ms"][str(count)]
            ratio = found["default"] / found["fast"]
            cells += [milliseconds(found["default"]), milliseconds(found["fast"]), f"{ratio:.2f}"]
        lines.append([name, *cells])
    head = ["ms"]
    for count in threads:
        of = f"{count} thread{'s' if count > 1 else ''}"
        head += [f"default, {of}", f"`--fast`, {of}", "ratio"]
    return table(head, lines)


def reasons(networks: dict[str, dict]) -> list[str]:
    """What failed, and which rules were broken."""
    found = [f"- {name}: {result['reason'][:300]}" for name, result in networks.items() if "reason" in result]
    found += [f"- {name}: {text}" for name, result in networks.items() for text in result.get("broken", [])]
    return found + [f"- {name}, in f64: {result['f64']['reason'][:300]}" for name, result in networks.items()
                    if "reason" in result.get("f64", {})]


def markdown(document: dict) -> str:
    """The whole report."""
    machine, versions = document["machine"], document["versions"]
    measured = {name: result for name, result in document["networks"].items() if "reason" not in result}
    packages = ", ".join(f"{name} {of}" for name, of in versions.items() if of)
    threads = " and ".join(map(str, document["threads"])) + (" thread" if document["threads"] == [1] else " threads")
    parts = [f"{machine['processor']}, {machine['cores']} cores; {threads}; f32; {document['inputs']} inputs; "
             f"{machine['date']}",
             f"ixion {document['ixion']['version']}, {packages}"]
    if measured:
        parts.append(
            "PyTorch: the largest / mean error of PyTorch in f32, relative to the output's largest value. "
            f"Ixion: its errors in multiples of PyTorch's; the rule is at most {document['rule']:g}. In f64: how far "
            "the interpreter in f64 is from PyTorch in f64, with the weights of PNNX's file. PNNX's weights: what these "
            "change.")
        parts.append(errors(measured, document["rule"]))
    if measured and document["rounds"]:
        if (document["busy"] or 0) > BUSY:
            parts.append(f"**The machine was not idle: others took up to {100 * document['busy']:.0f} % of it. "
                         "Do not use these times.**")
        parts.append(times(measured, document["threads"]))
    if said := reasons(document["networks"]):
        parts += ["### Without a number, or against the rule", "\n".join(said)]
    return "\n\n".join(parts) + "\n"
