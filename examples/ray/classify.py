"""Classifies generated digits with Ray Data: one actor per core, and one plan that the processes of a node share.

    pip install -r examples/ray/requirements.txt
    python examples/ray/classify.py                    # on this machine
    ray job submit --address http://HEAD:8265 --working-dir . -- \\
        python examples/ray/classify.py --address auto --rows 100000000 --out s3://bucket/digits

The plan is built once, by the program that starts the work. Its bytes go to the nodes through Ray's store; the first actor of
a node writes them to a file, and all actors of the node map that file: its weights are in memory once, and a new actor is ready
in the time that reading the graph takes.
"""

import argparse
import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ixion
import numpy as np
import ray
from ray.data import ActorPoolStrategy, Dataset

FOLDERS = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
sys.path[:0] = FOLDERS
from generated_digits import LEAST_ACCURACY, MODEL, pictures  # noqa: E402

BATCH = 256
BLOCK = 16_384
"""Rows of a task at most: a second or two of work, so that handing it out takes little of it."""
IN_FLIGHT = 2
"""Tasks that an actor is given before it has finished the first: one to compute, one that is on its way meanwhile."""
WEEK = 7 * 24 * 3600
WORKERS = {"env_vars": {"PYTHONPATH": os.pathsep.join([*FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])])}}
"""Where workers look for the modules of this program. By itself, Ray tells them only the program's own folder."""
Batch = dict[str, np.ndarray]


class Shared(NamedTuple):
    """A plan in Ray's store: the hash of its bytes, and where they are."""

    name: str
    bytes: ray.ObjectRef


def share(plan: ixion.Plan) -> Shared:
    """Puts a plan into Ray's store, where it stays as long as this program runs."""
    whole = plan.to_bytes()
    return Shared(hashlib.sha256(whole).hexdigest(), ray.put(whole))


def on_this_node(name: str, whole: Callable[[], bytes]) -> Path:
    """The file of the plan with this hash. The first process of the node writes it while the others wait, so that all map the
    same file. Nothing changes it afterwards."""
    folder = Path(tempfile.gettempdir()) / f"ixion-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user: set TMPDIR to a folder of your own")
    path = folder / f"{name}.plan"
    with (folder / "lock").open("w") as lock:
        # The system releases it when the file is closed, also if the process is killed.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            path.touch()
        else:
            forget(folder)
            write(path, whole())
    return path


def write(path: Path, whole: bytes) -> None:
    """Writes a file that is there as a whole or not at all, even if the process is killed or the machine stops."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(whole)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def forget(folder: Path) -> None:
    """Removes plans that no process has begun with for a week. Those that have mapped one keep its memory."""
    for plan in folder.glob("*.plan"):
        if time.time() - plan.stat().st_mtime > WEEK:
            plan.unlink()


def connect(address: str | None = None, **settings: object) -> None:
    """Joins a cluster, or starts one on this machine that ends with this program."""
    ray.init(address or "local", runtime_env=WORKERS, **settings)


def generate(batch: Batch) -> Batch:
    """Adds the picture and the digit of each row."""
    images, labels = pictures(batch["id"])
    return {"row": batch["id"], "image": images, "label": labels}


class Classifier:
    """What an actor keeps between batches: a model with one thread, since the core next to it has an actor of its own."""

    def __init__(self, plan: Shared):
        path = on_this_node(plan.name, lambda: ray.get(plan.bytes))
        self.model = ixion.load(path, threads=1, map=True)

    def __call__(self, batch: Batch) -> Batch:
        scores = self.model(batch["image"])
        return {"row": batch["row"], "label": batch["label"], "found": scores.argmax(1)}


def classified(rows: int, workers: int, *, least: int = 1, worker: type = Classifier, more: tuple = ()) -> Dataset:
    """The data set of all rows with their label and what the model found; nothing runs before it is consumed.

    There are `least` actors, and up to `workers` while there are cores for them. Ray restarts one that dies, and repeats what
    it had not returned. `worker` is created with the plan and `more`.
    """
    plan = share(ixion.build(MODEL))
    blocks = max(4 * workers, -(-rows // BLOCK))
    images = ray.data.range(rows, override_num_blocks=blocks).map_batches(generate, batch_size=BATCH)
    # Reading needs a core as well: with as many actors as cores from the beginning, nothing would ever run.
    pool = ActorPoolStrategy(min_size=least, max_size=workers, max_tasks_in_flight_per_actor=IN_FLIGHT)
    # Both steps need one core and the same rows, so Ray runs them in the same actor: pictures never enter its store.
    return images.map_batches(worker, fn_constructor_args=(plan, *more), batch_size=BATCH, num_cpus=1, compute=pool)


def accuracy(found: Dataset) -> tuple[int, float]:
    """The number of rows, and the part of them that the model reads as they are labelled."""
    totals = [(len(batch["row"]), int((batch["found"] == batch["label"]).sum()))
              for batch in found.iter_batches(batch_size=None)]
    count = sum(rows for rows, _ in totals)
    return count, sum(right for _, right in totals) / max(count, 1)


def positive(text: str) -> int:
    """A number of rows or workers, for `argparse`."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=positive, default=20_000, help="how many pictures (default: 20000)")
    parser.add_argument("--workers", type=positive, help="actors (default: one for each core of the cluster)")
    parser.add_argument("--address", help="a running cluster, such as auto (default: a new one on this machine)")
    parser.add_argument("--out", help="write Parquet files to this folder or bucket instead of counting")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    connect(arguments.address)
    workers = arguments.workers or int(ray.cluster_resources()["CPU"])
    found = classified(arguments.rows, workers)
    started = time.perf_counter()
    if arguments.out:
        found.write_parquet(arguments.out)
        print(f"{arguments.rows} rows in {time.perf_counter() - started:.1f} s, written to {arguments.out}")
        return 0
    count, right = accuracy(found)
    print(f"{count} rows in {time.perf_counter() - started:.1f} s, {right:.2%} right")
    return int(count != arguments.rows or right < LEAST_ACCURACY)


if __name__ == "__main__":
    raise SystemExit(main())
