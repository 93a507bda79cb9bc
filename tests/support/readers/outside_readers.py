"""Runs in the environment of the other readers, which has nothing of this project: answers questions about lake tables.

`python outside_readers.py READER FOLDER`; standard input is JSON: `properties` of the catalog, and `questions` (`Question.to_json`).
The answer to question n is FOLDER/n.arrow; standard output has a JSON list of their errors, null where there is none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable, Table

Question = dict[str, Any]
Properties = dict[str, str]


def by_datafusion(properties: Properties, question: Question) -> pa.Table:
    """iceberg-rust plans and reads; it is handed the table's metadata file, and reads the newest snapshot that this knows."""
    from datafusion import SessionContext, col, lit

    table = _iceberg_table(properties, question)
    context = SessionContext()
    context.register_table("lake_table", table if question["snapshot_id"] is None else _as_it_was(table, question["snapshot_id"]))
    rows = context.table("lake_table")
    if question["condition"] is not None:
        rows = rows.filter(col(f'"{question["condition"]["column"]}"') == lit(_value(question)))
    return rows.select(*(col(f'"{name}"') for name in question["columns"])).to_arrow_table()


def by_polars(properties: Properties, question: Question) -> pa.Table:
    """pyiceberg plans, polars reads the files."""
    import polars as pl

    rows = pl.scan_iceberg(_iceberg_table(properties, question), snapshot_id=question["snapshot_id"], reader_override="native")
    if question["condition"] is not None:
        rows = rows.filter(pl.col(question["condition"]["column"]) == _value(question))
    return rows.select(question["columns"]).collect().to_arrow()


def by_daft(properties: Properties, question: Question) -> pa.Table:
    """pyiceberg plans, Daft reads the files."""
    import daft

    rows = daft.read_iceberg(_iceberg_table(properties, question), snapshot_id=question["snapshot_id"])
    if question["condition"] is not None:
        rows = rows.where(daft.col(question["condition"]["column"]) == _value(question))
    return rows.select(*question["columns"]).to_arrow()


def by_pypaimon_rust(properties: Properties, question: Question) -> pa.Table:
    """paimon-rust plans and reads."""
    from pypaimon_rust.datafusion import PaimonCatalog

    table = PaimonCatalog({"warehouse": properties["warehouse"]}).get_table(question["table"])
    version = None if question["snapshot_id"] is None else {"scan.snapshot-id": str(question["snapshot_id"])}
    builder = table.new_read_builder(version)
    if question["condition"] is not None:
        builder = builder.with_filter({"method": "equal", "field": question["condition"]["column"], "literals": [_value(question)]})
    builder = builder.with_projection(question["columns"])
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return pa.Table.from_batches(batches) if batches else pa.table({name: pa.nulls(0) for name in question["columns"]})


READERS: dict[str, Callable[[Properties, Question], pa.Table]] = {
    "datafusion": by_datafusion,
    "polars": by_polars,
    "daft": by_daft,
    "pypaimon-rust": by_pypaimon_rust,
}


def _iceberg_table(properties: Properties, question: Question) -> Table:
    return load_catalog("lake", **properties).load_table(question["table"])


def _value(question: Question) -> int | str | date:
    of_kind: dict[str, Callable[[str], Any]] = {"int": int, "str": str, "date": date.fromisoformat}
    return of_kind[question["condition"]["kind"]](question["condition"]["text"])


def _as_it_was(table: Table, snapshot_id: int) -> Table:
    """The table by the metadata file in which this snapshot was the newest."""
    files = [entry.metadata_file for entry in table.metadata.metadata_log]
    tables = [StaticTable.from_metadata(file, dict(table.io.properties)) for file in (*files, table.metadata_location)]
    return next(version for version in tables if version.metadata.current_snapshot_id == snapshot_id)


def main(reader: str, folder: Path) -> None:
    request = json.load(sys.stdin)
    errors: list[str | None] = []
    for number, question in enumerate(request["questions"]):
        try:
            rows = READERS[reader](request["properties"], question)
            feather.write_feather(rows, str(folder / f"{number}.arrow"), compression="uncompressed")
            errors.append(None)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    print(json.dumps(errors))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
