"""The example of Ray Data on clusters of this machine: every row comes out once, and rightly, also when a worker or a node is
killed.

    python -m pytest examples/ray/test_classify.py
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="needs Ray: pip install -r examples/ray/requirements.txt")
from ray.cluster_utils import Cluster  # noqa: E402

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
import classify  # noqa: E402
from cluster_testing import ROWS, check, eventually, in_time, left_behind  # noqa: E402, F401

STORE = 100 << 20
# Nothing is reported to Ray's makers.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@pytest.fixture
def node() -> Iterator[None]:
    """One node with two cores, as far as Ray knows."""
    try:
        classify.connect(num_cpus=2, object_store_memory=STORE, include_dashboard=False, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
    assert eventually(lambda: not left_behind()), left_behind()


@pytest.fixture
def two_nodes() -> Iterator[tuple[Cluster, list]]:
    """A head that runs no work, and two nodes that do: each is a raylet of its own on this machine."""
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, object_store_memory=STORE, include_dashboard=False)
        nodes = [cluster.add_node(num_cpus=2, object_store_memory=STORE) for _ in range(2)]
        cluster.wait_for_nodes()
        classify.connect(cluster.address, log_to_driver=False)
        yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert eventually(lambda: not left_behind()), left_behind()


def check_all(found: ray.data.Dataset) -> None:
    batches = list(found.iter_batches(batch_size=None))
    check(*(np.concatenate([batch[key] for batch in batches]) for key in ("row", "label", "found")))


def test_as_many_workers_as_cores_classify_all_rows(node):
    check_all(classify.classified(ROWS, workers=2))


def test_the_program_counts_all_rows(node):
    command = [sys.executable, classify.__file__, "--rows", "5000", "--address", ray.get_runtime_context().gcs_address]
    # From a folder where Ray finds none of its modules.
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir())
    assert done.returncode == 0, done.stderr
    assert "5000 rows in" in done.stdout


class Mortal(classify.Classifier):
    """A classifier whose process is killed once, in the middle of the rows."""

    def __init__(self, plan: classify.Shared, mark: str):
        super().__init__(plan)
        self.mark = Path(mark)

    def __call__(self, batch: classify.Batch) -> classify.Batch:
        if batch["row"].max() >= ROWS // 2 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def test_a_killed_worker_loses_no_row(node, tmp_path):
    mark = tmp_path / "killed"
    check_all(classify.classified(ROWS, workers=1, worker=Mortal, more=(str(mark),)))
    assert mark.exists()


class Slow(classify.Classifier):
    """A classifier that leaves time to remove its node, and says how many batches it has classified there."""

    def __init__(self, plan: classify.Shared, folder: str):
        super().__init__(plan)
        self.done = Path(folder) / ray.get_runtime_context().get_node_id()

    def __call__(self, batch: classify.Batch) -> classify.Batch:
        time.sleep(0.1)
        found = super().__call__(batch)
        with self.done.open("ab") as file:
            file.write(b".")
        return found


def test_a_killed_node_loses_no_row(two_nodes, tmp_path):
    cluster, nodes = two_nodes
    killed, is_over = [], threading.Event()

    def kill() -> None:
        """Kills a node that has classified some rows."""
        while not is_over.is_set() and not killed:
            for node in nodes:
                done = tmp_path / node.node_id
                if not killed and done.exists() and done.stat().st_size >= 5:
                    cluster.remove_node(node, allow_graceful=False)
                    killed.append(node.node_id)
            time.sleep(0.02)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        check_all(classify.classified(ROWS, workers=2, worker=Slow, more=(str(tmp_path),)))
    finally:
        is_over.set()
        killer.join()
    assert killed
    assert {path.name for path in tmp_path.iterdir()} - set(killed), "another node did the rest"


def test_the_plan_is_written_once_per_node(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked = []

    def whole() -> bytes:
        asked.append(1)
        time.sleep(0.1)
        return b"plan"

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: classify.on_this_node("name", whole), range(8)))
    assert len(asked) == 1 and len(set(paths)) == 1 and paths[0].read_bytes() == b"plan"
    assert sorted(path.name for path in paths[0].parent.iterdir()) == ["lock", "name.plan"]


def test_plans_that_nobody_uses_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, used = (classify.on_this_node(name, lambda: b"plan") for name in ("old", "used"))
    for path in (old, used):
        os.utime(path, (0, 0))
    assert classify.on_this_node("used", lambda: b"never asked for") == used
    classify.on_this_node("new", lambda: b"plan")
    assert not old.exists() and used.read_bytes() == b"plan"


class Mapped(classify.Classifier):
    """A classifier that shows how it has mapped its plan."""

    def mapping(self) -> tuple[int, int, int]:
        """The inode of the file, the bytes of it in memory, and this process's share of them."""
        inode, resident, share, is_plan = 0, 0, 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            key, *rest = line.split()
            if not key.endswith(":"):
                is_plan = rest[-1].endswith(".plan")
                inode = int(rest[3]) if is_plan else inode
            elif is_plan and key in ("Rss:", "Pss:"):
                resident += 1024 * int(rest[0]) * (key == "Rss:")
                share += 1024 * int(rest[0]) * (key == "Pss:")
        return inode, resident, share


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc, to see which memory is shared")
def test_processes_of_a_node_share_the_memory_of_the_plan(node):
    plan = classify.share(classify.ixion.build(classify.MODEL))
    workers = [ray.remote(num_cpus=1)(Mapped).remote(plan) for _ in range(2)]
    batch = classify.generate({"id": np.arange(classify.BATCH)})
    ray.get([worker.__call__.remote(batch) for worker in workers])
    (inode, resident, share), (other, _, _) = ray.get([worker.mapping.remote() for worker in workers])
    assert inode == other != 0
    assert 0 < share < 0.75 * resident
