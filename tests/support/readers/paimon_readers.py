"""The readers of Paimon tables: of this environment, of a JVM, and of the readers' own environment."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pyarrow as pa
from pypaimon import CatalogFactory

from support.readers.duckdb_reader import duckdb_reader
from support.readers.environment import READERS
from support.readers.kinds import OutsideReader, OwnReader
from support.readers.matrix import Limit, difference_of
from support.readers.paimon_java import JavaReader
from support.readers.questions import Answer, Question, Reader
from tiering.lake.paimon.lake import PaimonLake


def _has_microseconds(answer: Answer, expected: pa.Table) -> bool:
    wider = {pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC")}
    return (
        difference_of(answer, expected.cast(pa.schema([field.with_type(wider.get(field.type, field.type)) for field in expected.schema])))
        is None
    )


PAIMON_LIMITS = (
    Limit(
        "duckdb",
        "DuckDB's TIMESTAMP WITH TIME ZONE has microseconds, and Paimon's column `__timestamp` has milliseconds. The moments are equal.",
        _has_microseconds,
    ),
)


def paimon_readers(warehouse: str) -> list[Reader]:
    """Every reader of the Paimon tables in a folder, in the page's order."""
    return [
        OwnReader("pypaimon", f"pypaimon {metadata.version('pypaimon')}", lambda question: by_pypaimon(warehouse, question)),
        JavaReader(warehouse),
        duckdb_reader(PaimonLake(Path(warehouse))),
        OutsideReader("pypaimon-rust", f"pypaimon-rust {READERS.pin('pypaimon-rust')}", {"warehouse": warehouse}),
    ]


def by_pypaimon(warehouse: str, question: Question) -> pa.Table:
    table = CatalogFactory.create({"warehouse": warehouse}).get_table(question.table)
    if question.snapshot_id is not None:
        table = table.copy({"scan.snapshot-id": str(question.snapshot_id)})
    builder = table.new_read_builder()
    if question.condition is not None:
        builder = builder.with_filter(builder.new_predicate_builder().equal(question.condition.column, question.condition.value))
    builder = builder.with_projection(list(question.columns))
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())
