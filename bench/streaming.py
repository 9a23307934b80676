"""The job that a user of Spark would write: Structured Streaming from Kafka, parsed, into ORC files by day.

    python bench/streaming.py JOB

lands a topic several times in one session, each time into a new folder, and writes the seconds and the CPU
seconds of each to a file. It runs on a Spark of its own, without this project's packages, and takes what it
needs to know from JOB, a file of JSON.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

HERE = Path(__file__).resolve().parents[1]


def parsed(job: dict[str, Any]) -> Column:
    """Return a record's fields, of its value."""
    if job["format"] == "json":
        return f.from_json(f.col("value").cast("string"), job["types"])
    from pyspark.sql.avro.functions import from_avro

    return from_avro(f.col("value"), job["schema"])


def land(session: SparkSession, job: dict[str, Any], folder: str) -> None:
    source = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job["servers"])
        .option("subscribe", job["topic"])
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = source.select(
        *(f.col(name).alias(f"k_{name}") for name in ("topic", "partition", "offset", "timestamp")),
        parsed(job).alias("record"),
    ).select("k_topic", "k_partition", "k_offset", "k_timestamp", "record.*")
    if job["format"] == "json":  # where a time is a number
        rows = rows.withColumn("departed", f.timestamp_millis("departed"))
    query = (
        rows.withColumn("day", f.to_date("departed"))
        .writeStream.format("orc")
        .option("compression", "zstd")
        .option("path", f"{folder}/table")
        .option("checkpointLocation", f"{folder}/checkpoints")
        .partitionBy("day")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def used() -> float:
    """Return the CPU seconds of this process and of its JVM."""
    sys.path.insert(0, str(HERE))
    from bench.measured import cpu_seconds, descendants

    return cpu_seconds(os.getpid()) + sum(cpu for _, cpu in descendants([os.getpid()]))


def main(file: str) -> None:
    job = json.loads(Path(file).read_text())
    builder = SparkSession.builder.master(f"local[{os.cpu_count()}]")
    for name, value in {
        "spark.jars": job["jars"],
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    found = []
    for folder in job["folders"]:
        began, before = time.monotonic(), used()
        land(session, job, folder)
        found.append({"seconds": time.monotonic() - began, "cpu_seconds": used() - before})
    session.stop()
    Path(job["told"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
