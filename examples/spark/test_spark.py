"""The example on a cluster of this machine: every row comes out once, and rightly, also when a worker or an executor is killed.

    python -m pytest examples/spark        # needs Java 17 or later
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

WANTED = "needs Spark: pip install -r examples/spark/requirements.txt, and Java 17 or later"
pyspark = pytest.importorskip("pyspark", reason=WANTED)
if not shutil.which("java") and "JAVA_HOME" not in os.environ:
    pytest.skip(WANTED, allow_module_level=True)
from pyspark.sql import DataFrame, SparkSession  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(EXAMPLES / "spark"), str(EXAMPLES)]
INHERITED = os.environ.get("PYTHONPATH", "")
# Workers run the same Python, and import what the tests import.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], INHERITED])
# All that listens does so here alone, also where the machine's name leads elsewhere.
os.environ["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_HOSTNAME"] = "127.0.0.1"
import classify  # noqa: E402
from cluster_testing import ROWS, check, in_time  # noqa: E402, F401

CLUSTER = "local-cluster[2,1,1024]"
"""Two executors with one core and 1024 MB each, every one a process of its own, as Spark's own tests have it."""
SETTINGS = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "1g",
    "spark.executor.memory": "1024m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = classify.session(CLUSTER, SETTINGS)
    # Such a cluster keeps its executors' files in Spark's own folder.
    work = Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent)) / "work" / found.sparkContext.applicationId
    yield found
    found.stop()
    shutil.rmtree(work, ignore_errors=True)


def check_all(found: DataFrame) -> None:
    rows = found.toPandas()
    check(rows["row"], rows["label"], rows["found"])


def kill(who: str) -> None:
    """Kills the Python worker that calls this, or the executor above it: worker, daemon, executor."""
    process = os.getpid()
    if who == "executor":
        daemon = os.getppid()
        process = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(process, signal.SIGKILL)


def dies_once(batches: Iterator[pd.DataFrame], mark: str, who: str) -> Iterator[pd.DataFrame]:
    """As `classify`, but in the middle of the rows somebody is killed, once."""
    def watched() -> Iterator[pd.DataFrame]:
        for batch in batches:
            if batch["row"].max() >= ROWS // 2:
                try:
                    Path(mark).touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    kill(who)
            yield batch
    return classify.classify(watched())


def test_all_rows_are_classified(spark):
    check_all(classify.classified(spark, ROWS))


@pytest.mark.parametrize("who", ["worker", "executor"])
def test_a_killed_process_loses_no_row(spark, who):
    if who == "executor" and not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc, to find the executor")
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "killed"
        check_all(classify.classified(spark, ROWS, partial(dies_once, mark=str(mark), who=who)))
        assert mark.exists()


def test_the_program_counts_all_rows():
    # Its workers get no more than what a user's have.
    given = os.environ | {"PYTHONPATH": INHERITED}
    command = [sys.executable, classify.__file__, "--rows", "3000", "--master", "local[1]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=given, cwd=tempfile.gettempdir())
    assert done.returncode == 0, done.stderr
    assert "3000 rows in" in done.stdout
