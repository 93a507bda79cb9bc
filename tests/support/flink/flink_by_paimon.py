"""Fluss 1.0's tiering of a clean Paimon table, by Paimon's own Java in a JVM: the source is a `LakeWorld`'s embedded cluster."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from support.flink.flink_on_iceberg import FlinkOnIceberg
from support.fluss_paimon.plugin import tiering_class_path
from support.spark.jvm_lines import ask_jvm
from support.worlds.lake_world import LakeWorld
from tiering.cli.fluss_server.java_process import JVM_OPTIONS
from tiering.cli.spark.java import require_java
from tiering.model.tables import BucketKey, ChangeType, TableInfo

KINDS = {ChangeType.INSERT: "+I", ChangeType.UPDATE_BEFORE: "-U", ChangeType.UPDATE_AFTER: "+U", ChangeType.DELETE: "-D"}


class PaimonWriters:
    """The JVM. Use it as a context."""

    def __init__(self, warehouse: Path, log: Path) -> None:
        command = [str(require_java()), *JVM_OPTIONS, "-Xmx512m", "-cp", tiering_class_path(), "io.lakeward.testing.CleanTiering"]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, str(warehouse)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.numbers = count()

    def __enter__(self) -> PaimonWriters:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()

    def say(self, *words: object) -> str:
        """The answer to a command of CleanTiering."""
        return ask_jvm(self._process, [*map(str, words)], AssertionError).strip()


class FlinkByPaimon(FlinkOnIceberg):
    """One round of the other service. Its files are as old as its plan. `compacts`: it has auto-compaction, and a reason for it."""

    def __init__(self, world: LakeWorld, table: TableInfo, writers: PaimonWriters, memory: str = "64 mb") -> None:
        super().__init__(world, table)
        self._writers, self._round, self._memory = writers, f"round-{next(writers.numbers)}", memory
        self.compacts = False

    def plan(self, stop: int | None = None) -> FlinkByPaimon:
        super().plan(stop)
        self._writers.say("begin", self._round, self._table.path, self._memory)
        for bucket in self.ends:
            if words := self._words(self._changes(bucket)):
                self._writers.say("write", self._round, bucket.bucket_id, *words)
        return self

    def _commit(self, changes: Mapping[BucketKey, pa.Table], offsets_path: str) -> None:
        self._writers.say("commit", self._round, str(self.compacts).lower(), offsets_path)

    def _words(self, changes: pa.Table) -> list[str]:
        kinds = [KINDS.get(ChangeType(row.get("__change_type", ChangeType.APPEND)), "+I") for row in changes.to_pylist()]
        rows = changes.select(self._table.schema.names).to_pylist()
        return [word for kind, row in zip(kinds, rows, strict=True) for word in (kind, *map(_word, row.values()))]


def _word(value: object) -> str:
    """Returns the value in the form that CleanTiering accepts."""
    if value is None:
        return "\\N"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        micros = (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        return f"{micros // 1_000} {micros % 1_000 * 1_000}"
    if isinstance(value, date):
        return str((value - date(1970, 1, 1)).days)
    if isinstance(value, dict):
        return ";".join(map(_word, value.values()))
    if isinstance(value, list):
        pairs = [isinstance(element, tuple) for element in value]
        return ";".join("=".join(map(_word, element)) for element in value) if any(pairs) else ";".join(map(_word, value))
    return str(value)
