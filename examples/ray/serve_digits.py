"""Serves digits over HTTP with Ray Serve: requests that arrive together run as one batch.

    python examples/ray/serve_digits.py                          # until it is interrupted
    curl -d "[[0, 0.1, …], …]" http://127.0.0.1:8000/            # 8×8 numbers from 0 to 1; answers {"digit": 7}

A replica is one process with one core. The model runs in a thread beside the one that reads requests, so that the next batch
arrives while one runs.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import ixion
import numpy as np
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
from classify import WORKERS, connect, on_this_node, positive  # noqa: E402
from generated_digits import MODEL, SIDE  # noqa: E402

MOST = 64
"""Requests in a batch."""
WAIT = 0.002
"""Seconds that the first request of a batch waits for others."""
RUNNING = 4 * MOST
"""Requests that a replica is given at once."""
WAITING = 16 * MOST
"""Requests that wait for a replica. Those beyond are refused at once, with status 503."""


class Digits:
    """Answers a picture with its digit."""

    def __init__(self, plan: bytes):
        path = on_this_node(hashlib.sha256(plan).hexdigest(), lambda: plan)
        self.model = ixion.load(path, threads=1, map=True)

    @serve.batch(max_batch_size=MOST, batch_wait_timeout_s=WAIT)
    async def read(self, pictures: list[np.ndarray]) -> list[int]:
        """Called with one picture, f32 1×8×8, returns its digit; Serve collects those that come at the same time."""
        return await self.read_all(np.stack(pictures))

    async def read_all(self, images: np.ndarray) -> list[int]:
        """The digits of a batch, f32 N×1×8×8."""
        scores = await self.model.run_async(images)
        return scores.argmax(1).tolist()

    async def __call__(self, request: Request) -> JSONResponse:
        try:
            picture = np.asarray(await request.json(), np.float32)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            return refusal(f"expected a JSON array of numbers: {error}")
        if picture.shape != (SIDE, SIDE):
            return refusal(f"expected {SIDE} rows of {SIDE} numbers, got an array of shape {list(picture.shape)}")
        return JSONResponse({"digit": await self.read(picture[None])})


def refusal(reason: str) -> JSONResponse:
    return JSONResponse({"error": reason}, status_code=400)


def application(replicas: int = 1, *, running: int = RUNNING, waiting: int = WAITING, replica: type = Digits,
                more: tuple = ()) -> serve.Application:
    """The deployment with its plan, for `serve.run`. `replica` is created with the plan and `more`.

    Serve keeps the plan among the arguments of its replicas, so that it can start one again when this program has ended. A plan
    of hundreds of megabytes belongs on a disk that all nodes see, and its path among the arguments.
    """
    deployment = serve.deployment(replica, num_replicas=replicas, max_ongoing_requests=running, max_queued_requests=waiting,
                                  ray_actor_options={"num_cpus": 1, "runtime_env": WORKERS})
    return deployment.bind(ixion.build(MODEL).to_bytes(), *more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=positive, help="processes (default: one for each core of the cluster)")
    parser.add_argument("--address", help="a running cluster, such as auto (default: a new one on this machine)")
    parser.add_argument("--port", type=positive, default=8000, help="where it listens (default: 8000)")
    arguments = parser.parse_args()
    connect(arguments.address)
    serve.start(http_options={"port": arguments.port})
    serve.run(application(arguments.replicas or int(ray.cluster_resources()["CPU"])), blocking=True)


if __name__ == "__main__":
    main()
