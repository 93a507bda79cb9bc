"""The work of Fluss's Flink job on a Paimon table, without Flink: the plugin's own writer, committer and reader in a JVM."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.plugin import tiering_class_path
from support.spark.jvm_lines import ask_jvm
from tiering.cli.fluss_server.java_process import JVM_OPTIONS
from tiering.cli.spark.java import require_java
from tiering.model.tables import TableInfo
from tiering.rpc.fluss import fluss_pb2 as pb

WHEN_MS = 1_767_225_600_000
"""Commit time of the records, 2026-01-01 UTC."""
Value = object
Record = tuple[int, str, Sequence[Value]]
"""Offset, kind of change as Fluss calls it (INSERT, UPDATE_AFTER, ...) and values; None, text, numbers, bytes."""


class TieringError(Exception):
    """An error of the plugin: class and message of its cause."""


class FlinkTiering:
    """One incarnation of the job: what it has written is committed by the next `commit`. Close it, or use it as a context."""

    def __init__(self, warehouse: Path, log: Path) -> None:
        command = [str(require_java()), *JVM_OPTIONS, "-Xmx512m", "-cp", tiering_class_path(), "io.lakeward.testing.FlussPaimonTiering"]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, "metastore=filesystem", f"warehouse={warehouse}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> FlinkTiering:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._process.communicate()

    def plan(self, tables: FlussTables, table: TableInfo) -> None:
        """Looks the table up in the cluster, as it is now; what was written and not committed is forgotten."""
        answer = tables.client.coordinator(pb.GetTableInfoRequest(table_path=tables.path(table)))
        self._say("table", str(table.path), str(answer.table_id), base64.b64encode(answer.table_json).decode())

    def write(self, bucket: int, records: Sequence[Record], partition: tuple[int, str] | None = None, when_ms: Sequence[int] = ()) -> None:
        """Records of one bucket, in the order of the log. `partition`: id and name. `when_ms`: the commit time of each; WHEN_MS of all."""
        partition_id, name = partition or ("", "")
        times = when_ms or [WHEN_MS] * len(records)
        timed = zip(records, times, strict=True)
        words = [word for (offset, kind, values), when in timed for word in (str(offset), str(when), kind, *map(_word, values))]
        self._say("write", str(partition_id), name, str(bucket), *words)

    def commit(self, offsets_path: str = "/nowhere.offsets") -> int:
        """Commits what was written; the id of the lake's snapshot. Raises TieringError."""
        return int(self._say("commit", f"fluss-offsets={offsets_path}"))

    def missing(self, known: int | None) -> str:
        """The snapshot that Fluss, which knows `known`, has not heard of: id and properties; "" if there is none."""
        return self._say("missing", "" if known is None else str(known))

    def bucket(self, values: Sequence[Value]) -> int:
        """The bucket of a row by Paimon's own rule."""
        return int(self._say("bucket", *map(_word, values)))

    def read(self, snapshot_id: int) -> list[list[str]]:
        """The rows of a snapshot as Fluss reads them: offset, milliseconds, kind and values."""
        answer = self._say("read", str(snapshot_id))
        return [row.split("\t") for row in answer.split("\t;\t")] if answer else []

    def _say(self, *words: str) -> str:
        return ask_jvm(self._process, words, TieringError)


def _word(value: Value) -> str:
    if value is None:
        return "\\N"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
