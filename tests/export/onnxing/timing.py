"""Times functions in turns, so that whatever else the machine does meets all of them."""

import math
import statistics
import time
from collections.abc import Callable, Sequence

ROUNDS, TURN_SECONDS, WARM_RUNS = 5, 0.3, 3


def in_turns(functions: Sequence[Callable[[], object]], rounds: int = ROUNDS, seconds: float = TURN_SECONDS) -> list[float]:
    """The milliseconds of each: the median over rounds of the fastest run of each round."""
    counts = []
    for function in functions:
        fastest = min(timed(function) for _ in range(WARM_RUNS))
        counts.append(max(2, min(2000, int(seconds / fastest))))
    minima: list[list[float]] = [[] for _ in functions]
    for turn in range(rounds):
        # Whoever runs first finds the caches cold.
        order = range(len(functions)) if turn % 2 == 0 else reversed(range(len(functions)))
        for at in order:
            minima[at].append(min(timed(functions[at]) for _ in range(counts[at])))
    return [1e3 * statistics.median(each) for each in minima]


def timed(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))
