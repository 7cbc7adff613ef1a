"""The example of Ray Serve: right answers in batches, status 400 for nonsense, and 503 for more than can wait.

    python -m pytest examples/ray/test_serve.py
"""

import asyncio
import json
import os
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

# On a busy machine, Serve's proxy takes longer to begin than the 5 s that it is given.
os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray", reason="needs Ray: pip install -r examples/ray/requirements.txt")
serve = pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install -r examples/ray/requirements.txt")
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
from cluster_testing import eventually, in_time, left_behind  # noqa: E402, F401
from generated_digits import LEAST_ACCURACY, pictures  # noqa: E402
from serve_digits import MOST, Digits, JSONResponse, Request, application, connect  # noqa: E402


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """One node on which Serve listens, with cores enough for the replicas of two tests."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        connect(num_cpus=2, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
        serve.start(http_options={"port": port})
        yield f"http://127.0.0.1:{port}/"
    finally:
        serve.shutdown()
        ray.shutdown()
    assert eventually(lambda: not left_behind()), left_behind()


def answer(url: str, body: bytes) -> tuple[int, dict | str]:
    """The status of the answer and what it says."""
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


class Gated(Digits):
    """A replica that notes who arrives, and the sizes of its batches, which wait until there is a file "open"."""

    def __init__(self, plan: bytes, folder: str):
        super().__init__(plan)
        self.folder = Path(folder)
        # On a busy machine, requests come further apart than those of a test should.
        self.read.set_batch_wait_timeout_s(2.0)

    async def read_all(self, images: np.ndarray) -> list[int]:
        while not (self.folder / "open").exists():
            await asyncio.sleep(0.02)
        self.note("sizes", len(images))
        return await super().read_all(images)

    async def __call__(self, request: Request) -> JSONResponse:
        self.note("arrived", 1)
        return await super().__call__(request)

    def note(self, name: str, number: int) -> None:
        with (self.folder / name).open("a") as file:
            print(number, file=file)


def noted(folder: Path, name: str) -> list[int]:
    path = folder / name
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def bodies(count: int) -> tuple[list[bytes], list[int]]:
    """Requests for this number of pictures, and their digits."""
    images, labels = pictures(np.arange(count))
    return [json.dumps(image[0].tolist()).encode() for image in images], labels.tolist()


def test_requests_that_arrive_together_run_as_one_batch(url, tmp_path):
    serve.run(application(replica=Gated, more=(str(tmp_path),)))
    asked, labels = bodies(MOST + 16)
    with ThreadPoolExecutor(len(asked)) as clients:
        answers = clients.map(lambda body: answer(url, body), asked)
        assert eventually(lambda: len(noted(tmp_path, "arrived")) == len(asked))
        (tmp_path / "open").touch()
        found = list(answers)
    assert {status for status, _ in found} == {200}
    assert np.mean([digit["digit"] == label for (_, digit), label in zip(found, labels)]) >= LEAST_ACCURACY
    sizes = noted(tmp_path, "sizes")
    assert sum(sizes) == len(asked) and max(sizes) <= MOST and len(sizes) <= len(asked) // 8, sizes
    for body in (b"no JSON", b"[1, 2]", b'{"a": 1}', b"[" * 100_000, json.dumps([["x"] * 8] * 8).encode(),
                 json.dumps([[10**400] * 8] * 8).encode()):
        status, reason = answer(url, body)
        assert status == 400 and "expected" in reason, body[:20]


def test_more_requests_than_may_wait_are_refused(url, tmp_path):
    # Beside the other one: replacing it takes longer than both tests.
    serve.run(application(running=2, waiting=4, replica=Gated, more=(str(tmp_path),)), name="few", route_prefix="/few")
    asked, labels = bodies(32)
    with ThreadPoolExecutor(len(asked)) as clients:
        waiting = [clients.submit(answer, f"{url}few", body) for body in asked]
        # Refusals come at once: nobody has been answered yet.
        assert eventually(lambda: sum(request.done() for request in waiting) >= 16)
        assert not noted(tmp_path, "sizes")
        (tmp_path / "open").touch()
        found = [request.result() for request in waiting]
    answered = [(digit, label) for (status, digit), label in zip(found, labels) if status == 200]
    assert len(answered) >= 2 and all(digit["digit"] == label for digit, label in answered)
    assert [status for status, _ in found].count(503) == len(asked) - len(answered)
