"""The log, the table by operators, and the totals."""

import collections

from .layout import OTHER, SETS
from .running import Outcome

STATUSES = ["pass", "refused", "wrong", "crashed"]


def log(outcomes: list[Outcome]) -> str:
    """A line for every test: name, verdict, reason, operator, what lies outside."""
    return "".join(f"{outcome.test.full_name}\t{outcome.status}\t{outcome.reason}\t{outcome.test.operator}\t{outcome.test.outside}\n"
                   for outcome in outcomes)


def totals(outcomes: list[Outcome]) -> str:
    """The shares that pass, of all, and of those whose types Ixion has: "typed" and what follows."""
    lines = [row("set", *STATUSES, "tests", "passed", "typed", "passed", "wrong")]
    groups = [(kind, [outcome for outcome in outcomes if outcome.test.set == kind]) for kind in SETS]
    for name, group in [*groups, ("all", outcomes)]:
        if not group:
            continue
        counts = collections.Counter(outcome.status for outcome in group)
        held = [outcome for outcome in group if not outcome.test.outside]
        inside = collections.Counter(outcome.status for outcome in held)
        lines.append(row(name, *(counts[status] for status in STATUSES), len(group), share(counts["pass"], len(group)),
                         len(held), share(inside["pass"], len(held)), inside["wrong"] + inside["crashed"]))
    return "\n".join(lines) + "\n"


def share(part: int, whole: int) -> str:
    # Rounded down, so that 100 % are all.
    return f"{1000 * part // whole / 10:.1f} %" if whole else "-"


def row(name: str, *values) -> str:
    return f"{name:<20}" + "".join(f"{value:>9}" for value in values)


def table(outcomes: list[Outcome]) -> str:
    """The totals, and the counts for each operator with the reasons of those that do not pass."""
    lines = [totals(outcomes)]
    groups: dict[str, list[Outcome]] = collections.defaultdict(list)
    for outcome in outcomes:
        groups[outcome.test.operator].append(outcome)
    lines.append(f"{'operator':<28}{'tests':>7}" + "".join(f"{status:>9}" for status in STATUSES))
    for operator in sorted(groups, key=lambda name: (name in (*SETS, OTHER), name)):
        group = groups[operator]
        counts = collections.Counter(outcome.status for outcome in group)
        lines.append(f"{operator:<28}{len(group):>7}" + "".join(f"{counts[status] or '':>9}" for status in STATUSES))
        reasons = collections.Counter((outcome.status, outside(outcome), outcome.reason) for outcome in group if outcome.status != "pass")
        lines += [f"    {count} {status}{beyond}: {reason}" for (status, beyond, reason), count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def outside(outcome: Outcome) -> str:
    return f" ({outcome.test.outside})" if outcome.test.outside else ""


def book(outcomes: list[Outcome]) -> str:
    """The totals, the operators whose tests all pass, and a table of the others, as the book has them."""
    groups: dict[str, list[Outcome]] = collections.defaultdict(list)
    for outcome in outcomes:
        groups[outcome.test.operator].append(outcome)
    whole = sorted(name for name, group in groups.items()
                   if name not in (*SETS, OTHER) and all(outcome.status == "pass" for outcome in group))
    held = [outcome for outcome in outcomes if not outcome.test.outside]
    passed = [sum(outcome.status == "pass" for outcome in group) for group in (outcomes, held)]
    lines = [f"Of {len(outcomes)} tests, {passed[0]} pass ({share(passed[0], len(outcomes))}). {len(held)} need no types that Ixion lacks, "
             f"and no training; of these, {passed[1]} pass ({share(passed[1], len(held))}).", "",
             f"All tests of these {len(whole)} operators pass: " + ", ".join(f"`{name}`" for name in whole) + ".", "",
             "| operator | tests | pass | wrong | what is refused |", "|---|---|---|---|---|"]
    for name in sorted(set(groups) - set(whole), key=lambda name: (name in (*SETS, OTHER), name)):
        counts = collections.Counter(outcome.status for outcome in groups[name])
        causes = collections.Counter(outcome.test.outside or cause(outcome.reason) for outcome in groups[name] if outcome.status == "refused")
        listed = "; ".join(f"{count} {what}" for what, count in causes.most_common())
        code = name if name in (*SETS, OTHER) else f"`{name}`"
        lines.append(f"| {code} | {len(groups[name])} | {counts['pass']} | {counts['wrong'] + counts['crashed'] or ''} | {listed} |")
    return "\n".join(lines) + "\n"


def cause(reason: str) -> str:
    """The kind of a refusal, in a few words."""
    kinds = {"has no operator": "no such operator", "number of iterations": "a loop of computed length", "operators, and Ixion reads": "old operators",
             "axis that it scans": "a scan of computed length"}
    return next((kind for words, kind in kinds.items() if words in reason), "other")
