"""How long `CALL sys.tier_table` takes for new rows on a warm tierer, in Spark SQL; `sys_query.py` runs it.

A real `lakeward up` with the limits it comes with: such rounds need no Spark job. Before each CALL a client appends the rows; only the
CALL is timed, from its text to its row. The row has to say that these rows, and no others, are in the lake now.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import idle
import pyarrow as pa
from pyspark.sql import SparkSession

from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

PATH = TablePath("bench", "calls")
ROWS = 1_000
WARM_UP = 5


@dataclass(frozen=True)
class CallFigures:
    """Milliseconds. `round_p50_ms` is the round in it, from the assignment to the end, as the coordinator saw it."""

    calls: int
    rows: int
    p50_ms: float
    p95_ms: float
    round_p50_ms: float


def measure(connect: Callable[[str], SparkSession], work: Path, calls: int) -> CallFigures:
    """Measures this many CALLs after some warm-up CALLs. `connect` gives a session whose catalog `fluss` is the service at an address."""
    log = work / "up.out"
    options = ("--data", str(work / "data"), "--port", "0", "--master", "local[1]", "--log-level", "warning")
    with idle.process("up", *options, log=log):
        uri = idle.wait_for_line(log, "lakeward is ready: ").split(": ")[1].strip()
        with RemoteEmbeddedCluster(uri) as cluster:
            cluster.create_database(PATH.database_name)
            properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "12 h"}
            cluster.create_table(PATH, TableSpec(idle.SCHEMA, idle.BUCKETS, properties=properties))
            session, writer = connect(uri), LogWriter(cluster, PATH, "bench")
            taken = [_call(session, writer, number) for number in range(WARM_UP + calls)][WARM_UP:]
    whole, rounds = [sample[0] for sample in taken], [sample[1] for sample in taken]
    p95 = sorted(whole)[-(-len(whole) * 95 // 100) - 1]
    return CallFigures(calls, ROWS, statistics.median(whole), p95, statistics.median(rounds))


def _call(session: SparkSession, writer: LogWriter, number: int) -> tuple[float, float]:
    """Milliseconds of one CALL, and of the round in it."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    writer.append(pa.table({"id": list(ids), "text": [f"row {row_id}" for row_id in ids]}, schema=idle.SCHEMA))
    start = time.perf_counter()
    [row] = session.sql(f"CALL fluss.sys.tier_table('{PATH}')").collect()
    spent = (time.perf_counter() - start) * 1_000
    if (row.state, row.records) != ("SUCCEEDED", ROWS):
        raise SystemExit(f"CALL {number} of {ROWS} rows answered {row}")
    return spent, float(row.duration_ms)
