"""The file of `lakeward export-status`: every system table in one file, redacted. Layout version 1.

- json: one object with `format`, `version`, `exported_at`, `lakeward_version`, `uri` and `tables`. `tables` has an object per table
  with `observed_time`, `columns` (name -> Arrow type) and `rows` (objects), or with `error` (`error_class`, `message`, `hint`).
- csv, parquet: one line per row of any table, because tables have different columns. A line has `table_name`, `observed_time`,
  `row_number` (from 1), `row` (a JSON object) and `error`. A table without rows, or with an error, has one line without `row_number` and
  `row`.

Secrets are removed from every text, also in maps, lists and structs: parts of a text by their form, and the whole text if the name of the
column or of the map's key is a name of a secret.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from sys_tables.catalog_client import SystemTableRead
from tiering.cli.terminal.new_file import write_new_file
from tiering.cli.terminal.output import json_text
from tiering.errors import InvalidArgument, LakewardError
from tiering.redaction.redact import redact, redact_named

FORMAT = "lakeward-status"
VERSION = 1
_LINE: list[pa.Field[Any]] = [
    pa.field("table_name", pa.string(), nullable=False),
    pa.field("observed_time", pa.timestamp("us", tz="UTC")),
    pa.field("row_number", pa.int64()),
    pa.field("row", pa.string()),
    pa.field("error", pa.string()),
]


class BundleFormat(StrEnum):
    """Formats, by the ending of the file."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True)
class Failure:
    """The error of a table that could not be read."""

    error_class: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.error_class}: {self.message}"


@dataclass(frozen=True)
class Contents:
    """A redacted table. `columns` are Arrow types by name."""

    name: str
    observed_time: datetime | None
    columns: Mapping[str, str]
    rows: list[dict[str, Any]]
    error: Failure | None


def bundle_format(file: Path) -> BundleFormat:
    """Returns the format by the ending of the file. Raises InvalidArgument for another ending."""
    ending = file.suffix.lower().removeprefix(".")
    if ending not in list(BundleFormat):
        raise InvalidArgument(f"the name {file} does not end with .parquet, .csv or .json", hint="Choose the format by the ending.")
    return BundleFormat(ending)


def redacted(read: SystemTableRead) -> Contents:
    """Returns a table without secrets."""
    observed = None if read.observed_time is None else datetime.fromisoformat(read.observed_time)
    if read.rows is None:
        error = read.error or LakewardError(f"sys.{read.name} gave no answer")
        return Contents(read.name, observed, {}, [], Failure(error.error_class, error.message, error.hint))
    columns = {field.name: str(field.type) for field in read.rows.schema}
    kinds = {field.name: field.type for field in read.rows.schema}
    rows = [{name: _clean(value, kinds[name], name) for name, value in row.items()} for row in read.rows.to_pylist()]
    return Contents(read.name, observed, columns, rows, None)


def _clean(value: Any, kind: pa.DataType, name: str) -> Any:
    """Returns a value without secrets. Maps become dicts. `name` is the column, struct field or map key of the value."""
    match value:
        case None:
            return None
        case str():
            return redact_named(name, value)
        case list() if isinstance(kind, pa.MapType):
            return {str(key): _clean(item, kind.item_type, str(key)) for key, item in value}
        case list() if isinstance(kind, pa.ListType | pa.LargeListType):
            return [_clean(item, kind.value_type, name) for item in value]
        case dict() if isinstance(kind, pa.StructType):
            return {field.name: _clean(value[field.name], field.type, field.name) for field in kind}
        case _:
            return value


def write_bundle(file: Path, uri: str, tables: Iterable[Contents], *, force: bool) -> None:
    """Writes a file that gets its name when it is complete. Raises InvalidArgument if it exists, SetupError if it cannot be written."""
    write = _WRITERS[bundle_format(file)]
    write_new_file(file, lambda sink: write(sink, uri, tables), force=force)


def _write_json(sink: IO[bytes], uri: str, tables: Iterable[Contents]) -> None:
    head = ",\n ".join(f"{json_text(name)}: {json_text(value)}" for name, value in _origin(uri).items())
    sink.write(f'{{\n {head},\n "tables": {{'.encode())
    separator = ""
    for table in tables:
        parts: dict[str, Any] = {"observed_time": table.observed_time}
        parts |= {"columns": table.columns, "rows": table.rows} if table.error is None else {"error": vars(table.error)}
        sink.write(f"{separator}\n  {json_text(table.name)}: {json_text(parts)}".encode())
        separator = ","
    sink.write(b"\n }\n}\n")


def _write_csv(sink: IO[bytes], uri: str, tables: Iterable[Contents]) -> None:
    text = TextIOWrapper(sink, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in _LINE)
    for table in tables:
        for line in _lines(table):
            writer.writerow("" if value is None else value.isoformat() if isinstance(value, datetime) else value for value in line.values())
    text.detach()


def _write_parquet(sink: IO[bytes], uri: str, tables: Iterable[Contents]) -> None:
    origin: dict[bytes | str, bytes | str] = {f"lakeward.{name}": str(value) for name, value in _origin(uri).items()}
    schema = pa.schema(_LINE, metadata=origin)
    with pq.ParquetWriter(cast(Any, sink), schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(pa.Table.from_pylist(list(_lines(table)), schema=schema))


def _origin(uri: str) -> dict[str, str | int]:
    version = metadata.version("lakeward")
    return {
        "format": FORMAT,
        "version": VERSION,
        "exported_at": datetime.now(UTC).isoformat(),
        "lakeward_version": version,
        "uri": redact(uri),
    }


def _lines(contents: Contents) -> Iterator[dict[str, Any]]:
    common = {"table_name": contents.name, "observed_time": contents.observed_time}
    for number, row in enumerate(contents.rows, 1):
        yield {**common, "row_number": number, "row": json_text(row), "error": None}
    if not contents.rows:
        yield {**common, "row_number": None, "row": None, "error": None if contents.error is None else str(contents.error)}


_WRITERS: Mapping[BundleFormat, Callable[[IO[bytes], str, Iterable[Contents]], None]] = {
    BundleFormat.JSON: _write_json,
    BundleFormat.CSV: _write_csv,
    BundleFormat.PARQUET: _write_parquet,
}
