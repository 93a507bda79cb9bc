"""Spark counts the rows of a snapshot with the Iceberg runtime. `python -m tiering.validate.archive.spark_reader` counts.

The process reads one line of JSON from its stdin: the properties of the lake's catalog, table and snapshot. It writes the version of Spark
and the number of rows. It ends when its stdin ends, so that it does not outlive the process of the validation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tiering.child_process import keep_current_folder_out, module_command
from tiering.lake.proof.reader_counts import ReaderCount
from tiering.model.tables import TablePath
from tiering.redaction.redact import outside_text

READER = "Spark"
LONGEST_SECONDS = 3_600
"""Time after which a count is given up."""
LARGEST_BYTES = 1 << 30
"""Size of the lake files up to which Spark counts unless the caller decides: Spark reads the table once more, beside the coordinator."""
AT_START = ("spark.jars", "spark.sql.extensions")
"""Properties for the start of the JVM, on a command line that every user of the machine may read. Others may have secrets."""
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.authenticate": "true",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    # With the push-down, the answer would come from the metadata of the snapshot, and Spark would read no file.
    "spark.sql.iceberg.aggregate-push-down.enabled": "false",
}


@dataclass(frozen=True)
class SparkReader:
    """A Spark that can read the lake. `properties`: those of the lake's catalog `catalog`. `missing`: why it is not asked.

    `largest_bytes`: it is not asked about larger tables; None = about each table.
    """

    catalog: str
    properties: Mapping[str, str]
    missing: str = ""
    largest_bytes: int | None = None

    def for_table(self, size_bytes: int) -> SparkReader:
        """Returns the Spark that counts a table with this size of its lake files, or that says why it does not."""
        if self.missing or self.largest_bytes is None or size_bytes <= self.largest_bytes:
            return self
        size, largest = (f"{value / 2**20:,.0f} MiB" for value in (size_bytes, self.largest_bytes))
        return replace(self, missing=f"not asked: the lake files have {size}, and by default Spark counts tables up to {largest}")

    def count(self, path: TablePath, snapshot_id: int) -> ReaderCount:
        """Returns what Spark counts in a snapshot, or why it could not."""
        if self.missing:
            return ReaderCount(READER, None, None, self.missing)
        request = {
            "properties": dict(self.properties),
            "names": [self.catalog, path.database_name, path.table_name],
            "snapshot_id": snapshot_id,
        }
        command = module_command("tiering.validate.archive.spark_reader")
        try:
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                message = json.loads(_answer(process, json.dumps(request)))
            return ReaderCount(READER, message["version"], message["rows"], message["note"])
        except (OSError, ValueError):
            return ReaderCount(READER, None, None, "cannot read the snapshot: the process of Spark ended without an answer")


NOT_ASKED = SparkReader("", {}, "not asked")


def _answer(process: subprocess.Popen[str], request: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = threading.Timer(LONGEST_SECONDS, process.kill)
    deadline.start()
    try:
        process.stdin.write(request + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    finally:
        deadline.cancel()


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


def _count(request: Mapping[str, Any]) -> dict[str, Any]:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    keep_current_folder_out()
    properties = {**SETTINGS, **request["properties"]}
    public = [(name, value) for name, value in properties.items() if name in {*SETTINGS, *AT_START}]
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setMaster("local[2]").setAppName("lakeward prove").setAll(public))
    builder = SparkSession.builder.master("local[2]").appName("lakeward prove")
    for name, value in properties.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    table = ".".join(f"`{name.replace('`', '``')}`" for name in request["names"])
    [(rows,)] = spark.sql(f"SELECT count(*) FROM {table} VERSION AS OF {int(request['snapshot_id'])}").collect()
    return {"version": spark.version, "rows": rows, "note": ""}


def main() -> None:
    """Runs in the child process."""
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the JVM and Spark print on stdout
    try:
        answer = _count(request)
    except Exception as error:  # Py4J and Spark raise many kinds
        reason = outside_text(str(error).partition("\n")[0])
        answer = {"version": None, "rows": None, "note": f"cannot read the snapshot: {reason}"}
    print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
