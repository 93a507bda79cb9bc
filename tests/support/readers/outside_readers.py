"""Runs in the environment of the other readers, which has nothing of this project: answers questions about lake tables.

`python outside_readers.py READER FOLDER`; standard input is JSON: `properties` of the catalog, and `questions` (`Question.to_json`).
The answer to question n is FOLDER/n.arrow; standard output has a JSON list of their errors, null where there is none.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather
from pyiceberg.catalog import Catalog, load_catalog
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


def by_duckdb_iceberg(properties: Properties, question: Question) -> pa.Table:
    """DuckDB's own extension plans and reads; it is handed the table's metadata file."""
    connection = _duckdb_with_iceberg()
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in question["columns"])
    version = "" if question["snapshot_id"] is None else f", snapshot_from_id => {question['snapshot_id']}"
    scan = f"SELECT {names} FROM iceberg_scan('{_iceberg_table(properties, question).metadata_location}'{version})"
    if question["condition"] is None:
        return connection.sql(scan).to_arrow_table()
    return connection.sql(f'{scan} WHERE "{question["condition"]["column"]}" = ?', params=[_value(question)]).to_arrow_table()


@cache
def _duckdb_with_iceberg() -> Any:
    """A connection with the extension, which is a package: nothing is downloaded."""
    import duckdb
    from duckdb_extensions import import_extension

    connection = duckdb.connect(config={"extension_directory": str(Path(sys.prefix) / "extensions")})
    for extension in ("avro", "iceberg"):
        import_extension(extension, con=connection)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def by_chdb(properties: Properties, question: Question) -> pa.Table:
    """ClickHouse plans and reads; it is handed the table's folder and metadata file."""
    table = _iceberg_table(properties, question)
    folder = table.metadata.location.removeprefix("file://")
    metadata = table.metadata_location.removeprefix("file://").removeprefix(folder).lstrip("/")
    source = f"icebergLocal('{folder}', SETTINGS iceberg_metadata_file_path = '{metadata}')"
    settings = "use_iceberg_metadata_files_cache = 0, output_format_arrow_string_as_string = 1"
    if question["snapshot_id"] is not None:
        settings += f", iceberg_snapshot_id = {question['snapshot_id']}"
    names = ", ".join(f"`{name}`" for name in question["columns"])
    where = ""
    if question["condition"] is not None:
        where = f" WHERE `{question['condition']['column']}` = '{question['condition']['text']}'"
    return pa.ipc.open_file(
        _chdb(properties["warehouse"]).query(f"SELECT {names} FROM {source}{where} SETTINGS {settings}", "Arrow").bytes()
    ).read_all()


@cache
def _chdb(warehouse: str) -> Any:
    """A connection that may read files in the warehouse: chDB reads no file outside of the working directory."""
    import chdb

    os.chdir(warehouse.removeprefix("file://"))
    return chdb.connect(":memory:")


def by_trino(properties: Properties, question: Question) -> pa.Table:
    """A Trino server plans and reads; it has the table in its catalog `lake`. The server's URI is the only property."""
    names = ", ".join(f'"{name}"' for name in question["columns"])
    database, table = question["table"].split(".")
    version = "" if question["snapshot_id"] is None else f" FOR VERSION AS OF {question['snapshot_id']}"
    where = ""
    if question["condition"] is not None:
        literal = {"int": "{}", "str": "'{}'", "date": "DATE '{}'"}[question["condition"]["kind"]].format(question["condition"]["text"])
        where = f' WHERE "{question["condition"]["column"]}" = {literal}'
    cursor = _trino(properties["uri"]).cursor()
    rows = cursor.execute(f'SELECT {names} FROM lake.{database}."{table}"{version}{where}').fetchall()
    kinds = [_trino_type(column["typeSignature"]) for column in cursor._query.columns]
    columns = [pa.array([_trino_value(kind, row[place]) for row in rows], kind) for place, kind in enumerate(kinds)]
    return pa.table(columns, names=[column["name"] for column in cursor._query.columns])


@cache
def _trino(uri: str) -> Any:
    from trino.dbapi import connect

    return connect(host=uri, user="reader", timezone="UTC", legacy_primitive_types=False)


def _trino_type(signature: dict[str, Any]) -> pa.DataType:
    """The Arrow type of a result's column."""
    name, arguments = signature["rawType"], [argument["value"] for argument in signature["arguments"]]
    if name == "array":
        return pa.list_(_trino_type(arguments[0]))
    if name == "map":
        return pa.map_(_trino_type(arguments[0]), _trino_type(arguments[1]))
    if name == "row":
        return pa.struct([(argument["fieldName"]["name"], _trino_type(argument["typeSignature"])) for argument in arguments])
    if name == "decimal":
        return pa.decimal128(*arguments)
    return TRINO_TYPES[name]


TRINO_TYPES = {
    "boolean": pa.bool_(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "varbinary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
}


def _trino_value(kind: Any, value: Any) -> Any:
    """A value of Trino's client in the form that Arrow accepts."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_trino_value(kind.value_type, element) for element in value]
    if pa.types.is_map(kind):
        return [(_trino_value(kind.key_type, key), _trino_value(kind.item_type, item)) for key, item in value.items()]
    if pa.types.is_struct(kind):
        return {field.name: _trino_value(field.type, part) for field, part in zip(kind, value, strict=True)}
    return value


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
    "duckdb-iceberg": by_duckdb_iceberg,
    "polars": by_polars,
    "daft": by_daft,
    "chdb": by_chdb,
    "trino": by_trino,
    "pypaimon-rust": by_pypaimon_rust,
}


def _iceberg_table(properties: Properties, question: Question) -> Table:
    return _catalog(tuple(properties.items())).load_table(question["table"])


@cache
def _catalog(properties: tuple[tuple[str, str], ...]) -> Catalog:
    return load_catalog("lake", **dict(properties))


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
