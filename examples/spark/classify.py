"""Classifies generated digits with Spark: a plan in every executor, mapped by the Python workers of its cores.

    pip install -r examples/spark/requirements.txt
    python examples/spark/classify.py                                          # on this machine
    spark-submit --master spark://HEAD:7077 examples/spark/classify.py --rows 100000000 --out s3a://bucket/digits

`mapInPandas` hands a worker the batches of a partition one after the other, so that any number of rows fit. Spark sends the
plan to each executor once (`addFile`), and the workers of its cores map it.
"""

import argparse
import atexit
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import ixion
import numpy as np
import pandas as pd
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(EXAMPLES))
from generated_digits import DIGITS, LEAST_ACCURACY, MODEL, SIDE, pictures  # noqa: E402

BATCH = 256
PARTITION = 2_500
"""Rows of a partition at least: what is done again when a worker dies."""
PARTITIONS = 10_000
"""Partitions at most: the driver keeps a record of each."""
PLAN = "digits.plan"
IMAGES = "row long, label long, image array<float>"
FOUND = "row long, label long, found long"


def generate(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Row numbers → rows of `IMAGES`."""
    for batch in batches:
        images, labels = pictures(batch["id"].to_numpy(), SparkFiles.get("test.npz"))
        yield pd.DataFrame({"row": batch["id"], "label": labels, "image": list(images.reshape(len(images), -1))})


def classify(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Rows of `IMAGES` → rows of `FOUND`."""
    # Once per partition, which takes milliseconds. The file is Spark's own copy: nothing changes it while it is mapped.
    model = ixion.load(SparkFiles.get(PLAN), threads=1, map=True)
    for batch in batches:
        if not batch.empty:
            images = np.stack(batch["image"].to_numpy()).astype(np.float32).reshape(-1, 1, SIDE, SIDE)
            yield pd.DataFrame({"row": batch["row"], "label": batch["label"], "found": model(images).argmax(1)})


def session(master: str | None = None, settings: Mapping[str, object] | None = None) -> SparkSession:
    """A session that hands over batches of `BATCH` rows, with the files that workers need."""
    builder = SparkSession.builder.appName("digits").config("spark.sql.execution.arrow.maxRecordsPerBatch", BATCH)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = (builder.master(master) if master else builder).getOrCreate()
    folder = tempfile.mkdtemp(prefix="ixion-")
    # Executors take the files from there, also those that replace others later.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ixion.build(MODEL).save(f"{folder}/{PLAN}")
    spark.sparkContext.addFile(f"{folder}/{PLAN}")
    spark.sparkContext.addFile(str(DIGITS / "test.npz"))
    spark.sparkContext.addPyFile(str(EXAMPLES / "generated_digits.py"))
    return spark


def classified(spark: SparkSession, rows: int, worker: Callable = classify) -> DataFrame:
    """The rows with their label and what the model found; nothing runs before they are asked for.

    A partition whose worker dies is classified again, on another node if its own is gone.
    """
    partitions = min(-(-rows // PARTITION), PARTITIONS)
    numbers = spark.range(0, rows, numPartitions=partitions)
    return numbers.mapInPandas(generate, IMAGES).mapInPandas(worker, FOUND)


def positive(text: str) -> int:
    """A number of rows, for `argparse`."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=positive, default=20_000, help="how many pictures (default: 20000)")
    parser.add_argument("--master", help="a cluster (default: that of spark-submit, else the cores of this machine)")
    parser.add_argument("--out", help="write Parquet files to this folder or bucket instead of counting")
    arguments = parser.parse_args()
    spark = session(arguments.master)
    found, started = classified(spark, arguments.rows), time.perf_counter()
    if arguments.out:
        found.write.parquet(arguments.out)
        print(f"{arguments.rows} rows in {time.perf_counter() - started:.1f} s, written to {arguments.out}")
        return 0
    count, right = found.selectExpr("count(*)", "avg(cast(found = label as double))").first()
    print(f"{count} rows in {time.perf_counter() - started:.1f} s, {right:.2%} right")
    return int(count != arguments.rows or right < LEAST_ACCURACY)


if __name__ == "__main__":
    raise SystemExit(main())
