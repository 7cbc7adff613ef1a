"""Results as tables in Markdown."""

import math

BUSY = 0.05
"""A larger share of cores busy with other work is reported; there should be none before measuring."""


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def milliseconds(ms: float) -> str:
    """Formats with three significant digits."""
    return f"{ms:.{max(0, 2 - math.floor(math.log10(ms)))}f}"


def best_peer(row: dict[str, dict], rivals: list[str]) -> str | None:
    """The fastest rival with correct results."""
    fine = [name for name in rivals if row.get(name, {}).get("status") == "fine"]
    return min(fine, key=lambda name: row[name]["ms"], default=None)


def ratio(row: dict[str, dict], own: str, other: str | None) -> float | None:
    """The time of Ixion relative to the other's."""
    both = [row.get(name, {}) for name in (own, other)]
    if other is None or any(entry.get("status") != "fine" for entry in both):
        return None
    return both[0]["ms"] / both[1]["ms"]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def cell(entry: dict | None) -> str:
    if entry is None:
        return ""
    if entry["status"] != "fine":
        return entry["status"]
    return f"{milliseconds(entry['ms'])} ±{50 * entry['spread']:.0f} %"


def times(rows: dict[str, dict], names: list[str], own: str | None, rivals: list[str]) -> str:
    """A table with a row per model and a column per runtime."""
    lines = []
    for model, row in rows.items():
        best = best_peer(row, rivals)
        factor = ratio(row, own, best) if own else None
        lines.append([model, *(cell(row.get(name)) for name in names), best or "",
                      "" if factor is None else f"{factor:.2f}"])
    if own:
        means = []
        for name in [*names, None]:
            pairs = [ratio(row, own, name or best_peer(row, rivals)) for row in rows.values()]
            known = [pair for pair in pairs if pair is not None]
            of = "" if len(known) == len(rows) else f" of {len(known)}"
            means.append("" if name == own or not known else f"{geometric_mean(known):.2f}{of}")
        lines.append([f"{own} to it, geometric mean", *means[:-1], "", means[-1]])
    return table(["ms", *names, "best peer", "ratio"], lines)


def overview(document: dict) -> str:
    """A row per model with the times for all numbers of threads, the fastest in bold."""
    results, counts = document["results"], [str(threads) for threads in document["threads"]]
    names, lines = list(document["peers"]), []
    for model, of in results.items():
        rows = [of.get(count, {}) for count in counts]
        fine = [{name: entry["ms"] for name, entry in row.items() if entry["status"] == "fine"} for row in rows]
        least = [min(times.values(), default=None) for times in fine]

        def text(name: str, fine=fine, least=least) -> str:
            known = [(times.get(name), best) for times, best in zip(fine, least, strict=True)]
            if all(ms is None for ms, _ in known):
                return "–"
            cells = ["–" if ms is None else milliseconds(ms) for ms, _ in known]
            return " / ".join(f"**{cell}**" if ms is not None and ms == best else cell
                              for cell, (ms, best) in zip(cells, known, strict=True))

        lines.append([model, *map(text, names)])
    return table([f"ms, {' / '.join(counts)} threads", *names], lines)


def starts(rows: dict[str, dict], names: list[str]) -> str:
    """Loading, the first run, memory, and what threads use while nothing runs."""
    def text(entry: dict | None) -> str:
        if entry is None or entry["status"] != "fine":
            return ""
        memory = f"{entry['megabytes']:.0f}" if entry["megabytes"] is not None else "?"
        idle = "" if not entry.get("idle") else f" / {100 * entry['idle']:.0f} %"
        return f"{entry['load_ms']:.0f} + {milliseconds(entry['first_ms'])} / {memory}{idle}"

    lines = [[model, *(text(row.get(name)) for name in names)] for model, row in rows.items()]
    return table(["load + first run, ms / peak MB / share of a core while idle, if any", *names], lines)


def deviations(results: dict[str, dict], names: list[str]) -> str:
    """How far outputs are from PyTorch's in f32, those of wrong results included; the largest over the numbers of threads."""
    def text(entries: list[dict]) -> str:
        known = [entry for entry in entries if "difference" in entry]
        worst = (max(entry[key] for entry in known) for key in ("difference", "noise")) if known else ()
        return " / ".join(f"{value:.2g}" for value in worst)

    lines = [[model, *(text([row.get(name, {}) for row in of.values()]) for name in names)] for model, of in results.items()]
    head = "largest / root mean square deviation from PyTorch in f32, relative to the largest value / the root mean square"
    return table([head, *names], lines)


def reasons(results: dict) -> list[str]:
    """The reasons for missing results, each once."""
    found = {(model, name): entry["reason"] for model, of in results.items() for row in of.values()
             for name, entry in row.items() if "reason" in entry}
    return [f"- {model}, {name}: {reason[:200]}" for (model, name), reason in found.items()]


def markdown(document: dict) -> str:
    """The whole report."""
    machine, results, peers = document["machine"], document["results"], document["peers"]
    names = list(peers)
    own = next((name for name in names if peers[name]["ixion"]), None)
    rivals = [name for name in names if not peers[name]["ixion"]]
    versions = ", ".join(f"{name} {peer['version']}" for name, peer in peers.items())
    parts = [f"{machine['processor']}, {machine['cores']} cores; {document['precision']}, batch {document['batch']}; "
             f"{machine['date']}",
             f"{versions}", "A time is the median over rounds of the quickest run in each; ± is half of what lies "
             "between the extreme rounds. The ratio is Ixion's time over that of the best peer: below 1 Ixion is quicker."]
    if len(document["threads"]) > 1:
        parts.append(overview(document))
    shares = [share for of in document["busy"].values() for share in of.values() if share is not None]
    if (most := max(shares, default=0)) > BUSY:
        parts.append(f"**The machine was not idle: others took up to {100 * most:.0f} % of it. Do not use these numbers.**")
    for threads in document["threads"]:
        rows = {model: of[str(threads)] for model, of in results.items() if str(threads) in of}
        if rows:
            parts += [f"### {threads} thread{'s' if threads > 1 else ''}", times(rows, names, own, rivals),
                      starts(rows, names)]
    if results:
        parts += ["### Deviation", deviations(results, names)]
    if said := reasons(results):
        parts += ["### Without a number", "\n".join(said)]
    return "\n\n".join(parts) + "\n"
