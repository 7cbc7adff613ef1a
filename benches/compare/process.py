"""A runtime with one model in its own process, with the protocol described in `protocol.rs`."""

import os
import queue
import subprocess
import tempfile
import threading
import time
from pathlib import Path

LIMIT = 300.0
"""The timeout of a request, in seconds."""


class PeerError(Exception):
    """A runtime cannot run a network, with the reason."""


def environment(threads: int) -> dict[str, str]:
    """Environment variables that set the number of threads of libraries."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "RTEN_NUM_THREADS")
    return dict(os.environ) | dict.fromkeys(names, str(threads))


class Process:
    """A running runtime, which waits on stdin between its turns."""

    def __init__(self, command: tuple[str, ...], threads: int):
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*command, "--threads", str(threads)], env=environment(threads), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr)
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        """Queues answers, so that waiting for them can time out. Other lines are output of libraries."""
        with self.process.stdout as stdout:
            for line in stdout:
                if line.startswith(("loaded\t", "times\t", "written\n", "memory\t", "error\t")):
                    self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def ask(self, *words: str | Path | int) -> list[str]:
        """The words of the answer, without the first.

        Raises `PeerError` if the runtime reports an error, times out, or has ended.
        """
        try:
            self.process.stdin.write("\t".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=LIMIT)
        except queue.Empty:
            self.process.kill()
            raise PeerError(f"no answer to `{words[0]}` within {LIMIT:.0f} s") from None
        except (BrokenPipeError, ValueError):
            line = None
        if line is None:
            raise PeerError(f"its process ended at `{words[0]}` with {self.process.wait()}{self.last_words()}")
        kind, *rest = line.split("\t")
        if kind == "error":
            raise PeerError((rest[0] if rest else "no reason given") + self.last_words())
        return rest

    def last_words(self) -> str:
        """The end of its stderr."""
        # Read by offset: the process shares the file position and goes on writing there.
        file = self.stderr.fileno()
        text = os.pread(file, 300, max(0, os.fstat(file).st_size - 300)).decode(errors="replace").strip()
        return f": {text}" if text else ""

    def load(self, model: Path, inputs: list[Path]) -> float:
        """Milliseconds until the model is ready."""
        return int(self.ask("load", model, *inputs)[0]) / 1e6

    def run(self, count: int) -> list[float]:
        """Milliseconds of each of `count` runs."""
        return [int(word) / 1e6 for word in self.ask("run", count)]

    def peak_megabytes(self) -> float | None:
        """The peak memory, in 10⁶ bytes; None if unknown."""
        try:
            return int(self.ask("memory")[0]) / 1e6
        except PeerError:
            return None

    def idle(self, seconds: float = 0.5) -> float | None:
        """The share of a core that its threads use while it waits; None if unknown."""
        try:
            before = self.ticks()
            time.sleep(seconds)
            return (self.ticks() - before) / (seconds * os.sysconf("SC_CLK_TCK"))
        except (OSError, ValueError):
            return None

    def ticks(self) -> int:
        """The processor time that it has used, in clock ticks."""
        # The name of the program, in parentheses, may contain spaces.
        words = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(words[11]) + int(words[12])

    def close(self) -> None:
        try:
            self.process.stdin.close()
        except (BrokenPipeError, OSError):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stderr.close()
