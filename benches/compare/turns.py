"""Measuring calls of this process in turns: times, runs of several threads, and memory."""

import contextlib
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

Way = Callable[[float], float]
"""Measures one way of doing something for this number of seconds."""


def fastest(run: Callable[[], object], seconds: float) -> float:
    """The shortest of the runs that fit into this time, in seconds."""
    best, begin = float("inf"), time.perf_counter()
    while True:
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        best = min(best, end - start)
        if end - begin > seconds:
            return best


def timed(run: Callable[[], object]) -> Way:
    return lambda seconds: fastest(run, seconds)


def in_turns(ways: dict[object, Way], rounds: int, seconds: float) -> dict[object, float]:
    """The median over rounds of what each way returns for a turn of this length. Before them, each warms up."""
    found = {name: [] for name in ways}
    for way in ways.values():
        way(seconds / 3)
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way(seconds))
    return {name: statistics.median(values) for name, values in found.items()}


def runs_per_second(work: Callable[[], Callable[[], object]], threads: int, seconds: float) -> float:
    """Runs of all threads together in one second. `work` makes what a thread calls, once for each."""
    runs, counts, stop = [work() for _ in range(threads)], [0] * threads, threading.Event()
    # The first run plans memory.
    for run in runs:
        run()

    def loop(which: int) -> None:
        count, run = 0, runs[which]
        while not stop.is_set():
            run()
            count += 1
        counts[which] = count
    workers = [threading.Thread(target=loop, args=(which,)) for which in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - begin)


def peak_growth(run: Callable[[], object]) -> int:
    """The number of bytes by which the memory of this process grows while this runs, at most. Linux alone tells.

    Raises OSError elsewhere.
    """
    # This makes the present size the peak.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    run()
    return max(0, status("VmHWM") - before)


def status(name: str) -> int:
    """A size of this process, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}")


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Keeps the standard output for the report: what libraries and the programs that they start print there is lost."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        with open(os.devnull, "w", encoding="utf-8") as text, contextlib.redirect_stdout(text):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
