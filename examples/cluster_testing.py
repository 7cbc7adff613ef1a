"""What the tests of the examples for Ray and Spark share."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generated_digits import LEAST_ACCURACY

ROWS = 20_000
LIMIT = 300
"""Seconds after which a test is taken for one that hangs."""
MARK = f"IXION_TEST_OF={os.getpid()}"
"""Set in the environment of every process that the tests start."""
os.environ.update([MARK.split("=")])


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """Ends a test that hangs, so that its cluster is still removed."""
    def end(*_: object) -> None:
        raise TimeoutError(f"the test has run for {LIMIT} s")
    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def check(rows: Any, labels: Any, found: Any) -> None:
    """Every row is there once, and the model reads as many rightly as it should."""
    assert np.array_equal(np.sort(rows), np.arange(ROWS))
    assert np.mean(np.asarray(labels) == np.asarray(found)) >= LEAST_ACCURACY


def eventually(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether this is so within some time."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def left_behind() -> list[str]:
    """The commands of the processes that were started here and still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if MARK.encode() in (process / "environ").read_bytes().split(b"\0") and int(process.name) != os.getpid():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            # It has ended, or belongs to another user.
            continue
    return found
