"""The readers of Paimon tables: of this environment, of a JVM, and of the readers' own environment."""

from __future__ import annotations

from importlib import metadata

import pyarrow as pa
from pypaimon import CatalogFactory

from support.readers import environment
from support.readers.kinds import OutsideReader, OwnReader
from support.readers.paimon_java import JavaReader
from support.readers.questions import Question, Reader


def paimon_readers(warehouse: str) -> list[Reader]:
    """Every reader of the Paimon tables in a folder, in the page's order."""
    return [
        OwnReader("pypaimon", f"pypaimon {metadata.version('pypaimon')}", lambda question: by_pypaimon(warehouse, question)),
        JavaReader(warehouse),
        OutsideReader("pypaimon-rust", f"pypaimon-rust {environment.pin('pypaimon-rust')}", {"warehouse": warehouse}),
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
