"""The driver of a streaming query, as a program that may kill itself with all that it started.

Its argument is the JSON of DriverPlan. Each run of a batch writes the ids of its rows to a file `BATCH-ATTEMPT.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from support.running.processes import wait_for
from support.running.spark_sessions import spark_session

if TYPE_CHECKING:
    from support.running.cluster_of_processes import Deployment
    from support.running.processes import Process


@dataclass(frozen=True)
class DriverPlan:
    """A query, and when its driver is killed."""

    folder: str
    """Has the checkpoint, the results and the warehouse."""
    table: str | None = None
    """The table to read by its name in a catalog; None = by the data source `lakeward`."""
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    kill_before: int | None = None
    """The batch whose rows are not written any more."""
    kill_within: int | None = None
    """The batch whose rows are written, but not its end in the checkpoint."""
    kill_after: int | None = None
    """The batch whose end is in the checkpoint."""
    available_now: bool = False

    @property
    def checkpoint(self) -> Path:
        return Path(self.folder) / "checkpoint"

    @property
    def results(self) -> Path:
        return Path(self.folder) / "results"

    def encode(self) -> str:
        return json.dumps(asdict(self))


def batches(plan: DriverPlan) -> dict[int, list[dict[str, Any]]]:
    """Returns the rows of each batch. Fails if two runs of a batch had different rows."""
    runs: dict[int, list[dict[str, Any]]] = {}
    for file in sorted(plan.results.glob("*.json")):
        rows = json.loads(file.read_text())
        batch = int(file.name.split("-")[0])
        assert _counted(runs.setdefault(batch, rows)) == _counted(rows), f"batch {batch} had other rows when it ran again"
    return runs


def ids(plan: DriverPlan) -> list[int]:
    """Returns the ids of all rows, sorted."""
    return sorted(row["id"] for rows in batches(plan).values() for row in rows)


def run(service: Deployment, plan: DriverPlan, **changes: Any) -> Process:
    """Runs the driver as a process of its own to its end. `changes`: those of the plan."""
    arguments = ("-m", "support.spark.stream_driver", replace(plan, **changes).encode())
    driver = service.start_program(*arguments, log_name="driver", env={"PYTHONPATH": os.pathsep.join(sys.path)})
    driver.wait_ended()
    return driver


def _counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def kill() -> None:
    """Kills this process, its JVM and its Python workers. The process must be the leader of its group."""
    os.killpg(0, signal.SIGKILL)


def start(spark: SparkSession, plan: DriverPlan) -> StreamingQuery:
    """Starts the query."""

    def write(frame: DataFrame, batch: int) -> None:
        if batch == plan.kill_before:
            kill()
        rows = [json.loads(text) for text in frame.toJSON().collect()]
        attempt = len(list(plan.results.glob(f"{batch}-*.json")))
        unfinished = plan.results / f"{batch}-{attempt}.part"
        unfinished.write_text(json.dumps(rows))
        unfinished.rename(unfinished.with_suffix(".json"))
        if batch == plan.kill_within:
            kill()

    reader = spark.readStream.options(**plan.options)
    frame = reader.format("lakeward").load() if plan.table is None else reader.table(plan.table)
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(plan.checkpoint))
    return (writer.trigger(availableNow=True) if plan.available_now else writer).start()


def run_here(plan: DriverPlan) -> None:
    """Runs the query until nothing is left to read, or until its driver is killed."""
    plan.results.mkdir(exist_ok=True, parents=True)
    with spark_session(Path(plan.folder) / "warehouse", plan.properties) as spark:
        query = start(spark, plan)
        if plan.kill_after is not None:
            committed = plan.checkpoint / "commits" / str(plan.kill_after)
            wait_for(f"batch {plan.kill_after} is committed", lambda: committed.exists() or not query.isActive)
            assert committed.exists(), query.exception()
            kill()
        if not plan.available_now:
            query.processAllAvailable()
            query.stop()
        query.awaitTermination()


if __name__ == "__main__":
    run_here(DriverPlan(**json.loads(sys.argv[1])))
