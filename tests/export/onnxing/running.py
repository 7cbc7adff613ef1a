"""Gives tests to child processes, and starts another where one ends or takes too long."""

import fnmatch
import json
import os
import queue
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from .layout import Test

SCRIPTS = Path(__file__).resolve().parents[1]
# How long the imports of a child may take.
START_SECONDS = 60


@dataclass
class Outcome:
    """What became of one test."""

    test: Test
    status: str
    reason: str
    seconds: float


def selected(tests: list[Test], patterns: list[str]) -> list[Test]:
    def matches(test: Test) -> bool:
        names = (test.name, test.full_name, f"op:{test.operator}")
        return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)
    return [test for test in tests if matches(test)] if patterns else tests


def run_all(root: Path, tests: list[Test], arguments) -> list[Outcome]:
    """The outcomes of tests, in their order."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for at in range(len(tests)):
        waiting.put(at)
    outcomes: dict[int, Outcome] = {}

    def serve() -> None:
        child = Child([arguments.through, *shlex.split(arguments.binary)], arguments.seconds)
        while True:
            try:
                at = waiting.get_nowait()
            except queue.Empty:
                child.end()
                return
            begin = time.monotonic()
            status, reason = child.run(question(root, tests[at], arguments.through))
            outcomes[at] = Outcome(tests[at], status, reason, time.monotonic() - begin)
            progress(f"{len(outcomes)}/{len(tests)} {tests[at].full_name}")

    threads = [threading.Thread(target=serve) for _ in range(max(1, arguments.jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    progress("")
    return [outcomes[at] for at in range(len(tests))]


def question(root: Path, test: Test, engine: str) -> dict:
    return {
        "folder": str((root / test.set / test.name).resolve()),
        "rtol": test.rtol,
        "atol": test.atol,
        "random": test.random,
        "nested": engine not in ("ixion", "command"),
    }


class Child:
    """A child process, or none, until a test needs one."""

    def __init__(self, arguments: list[str], seconds: float):
        self.arguments, self.seconds = arguments, seconds
        self.process: subprocess.Popen | None = None
        self.errors = tempfile.TemporaryFile()

    def run(self, test: dict) -> tuple[str, str]:
        limit = self.seconds
        if self.process is None:
            limit += START_SECONDS
            self.start()
        try:
            self.process.stdin.write(json.dumps(test).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.ended()
        line = self.answer(limit)
        if line is None:
            self.end()
            return "crashed", f"takes longer than {self.seconds:g} s"
        return tuple(json.loads(line)) if line else self.ended()

    def start(self) -> None:
        self.errors.seek(0)
        self.errors.truncate()
        path = os.pathsep.join([str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onnxing.worker", *self.arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            start_new_session=True, env=os.environ | settings)

    def answer(self, limit: float) -> bytes | None:
        """The line that the child prints, without content if it ended; None if it takes longer."""
        line, end = b"", time.monotonic() + limit
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                return b""
            line += part
        return line

    def ended(self) -> tuple[str, str]:
        """The verdict on a test that ended its process."""
        code = self.process.wait()
        self.end()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return "crashed", " ".join(f"the process ended: {how}: {said[-1] if said else ''}".split())[:400]

    def end(self) -> None:
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # It has ended already.
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process = None


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", flush=True, file=sys.stderr)
