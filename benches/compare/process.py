"""One runtime with one model in a process of its own, by the protocol that `protocol.rs` describes."""

import os
import queue
import subprocess
import tempfile
import threading
from pathlib import Path

LIMIT = 300.0
"""Seconds after which a request counts as failed."""


class PeerError(Exception):
    """What a runtime cannot do, with its reason."""


def environment(threads: int) -> dict[str, str]:
    """The number of threads for libraries that look there."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "RTEN_NUM_THREADS")
    return dict(os.environ) | dict.fromkeys(names, str(threads))


class Process:
    """A runtime that was started, and waits on stdin between its turns."""

    def __init__(self, command: tuple[str, ...], threads: int):
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*command, "--threads", str(threads)], env=environment(threads), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr)
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        """Puts answers where they can be waited for with a limit. A line of another kind is a library's talk."""
        with self.process.stdout as stdout:
            for line in stdout:
                if line.startswith(("loaded\t", "times\t", "written\n", "memory\t", "error\t")):
                    self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def ask(self, *words: str | Path | int) -> list[str]:
        """The words of the answer, without the first.

        Raises `PeerError` if the runtime says no, takes too long, or is gone.
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
        """The end of what it wrote to stderr."""
        # By position: the process goes on writing at that of the file, which is one for both.
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
        """The most memory that it had, in 10⁶ bytes; none where the system does not tell."""
        try:
            return int(self.ask("memory")[0]) / 1e6
        except PeerError:
            return None

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
