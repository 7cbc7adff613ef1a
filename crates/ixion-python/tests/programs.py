"""Programs that tests run in an interpreter of their own: a crash or a deadlock there does not end the tests."""

import subprocess
import sys
import textwrap

RUNNING: list[subprocess.Popen] = []
"""What `started` started in this test."""


def child(code: str, *arguments: object, **options: object) -> subprocess.CompletedProcess:
    """Runs a program to its end."""
    return subprocess.run(command(code, *arguments), capture_output=True, text=True, timeout=120, check=False, **options)


def started(code: str, *arguments: object) -> subprocess.Popen:
    """Starts a program, and waits until it says that it runs."""
    process = subprocess.Popen(command(code, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    RUNNING.append(process)
    assert process.stdout.readline() == "runs\n", process.communicate()
    return process


def end_all() -> None:
    """Ends what a test that failed has left."""
    for process in RUNNING:
        process.kill()
        process.communicate()
    RUNNING.clear()


def command(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
