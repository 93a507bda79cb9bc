"""Runs in the environment of the other readers, which has nothing of this project: answers questions about Iceberg tables.

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


def by_datafusion(table: Table, question: Question) -> pa.Table:
    """iceberg-rust plans and reads; it is handed the table's metadata file, and reads the newest snapshot that this knows."""
    from datafusion import SessionContext, col, lit

    context = SessionContext()
    context.register_table("lake_table", table if question["snapshot_id"] is None else _as_it_was(table, question["snapshot_id"]))
    rows = context.table("lake_table")
    if question["condition"] is not None:
        rows = rows.filter(col(f'"{question["condition"]["column"]}"') == lit(_value(question)))
    return rows.select(*(col(f'"{name}"') for name in question["columns"])).to_arrow_table()


def by_polars(table: Table, question: Question) -> pa.Table:
    """pyiceberg plans, polars reads the files."""
    import polars as pl

    rows = pl.scan_iceberg(table, snapshot_id=question["snapshot_id"], reader_override="native")
    if question["condition"] is not None:
        rows = rows.filter(pl.col(question["condition"]["column"]) == _value(question))
    return rows.select(question["columns"]).collect().to_arrow()


def by_daft(table: Table, question: Question) -> pa.Table:
    """pyiceberg plans, Daft reads the files."""
    import daft

    rows = daft.read_iceberg(table, snapshot_id=question["snapshot_id"])
    if question["condition"] is not None:
        rows = rows.where(daft.col(question["condition"]["column"]) == _value(question))
    return rows.select(*question["columns"]).to_arrow()


READERS: dict[str, Callable[[Table, Question], pa.Table]] = {"datafusion": by_datafusion, "polars": by_polars, "daft": by_daft}


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
    catalog = load_catalog("lake", **request["properties"])
    errors: list[str | None] = []
    for number, question in enumerate(request["questions"]):
        try:
            rows = READERS[reader](catalog.load_table(question["table"]), question)
            feather.write_feather(rows, str(folder / f"{number}.arrow"), compression="uncompressed")
            errors.append(None)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    print(json.dumps(errors))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
