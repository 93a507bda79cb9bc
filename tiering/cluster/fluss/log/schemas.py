"""The columns of one schema id of a Fluss table, and the conversion of its log records to rows of the present table.

Fluss describes a schema in JSON (`SchemaJsonSerde` and `DataTypeJsonSerde` of 0.9.1) and writes its columns in the Arrow types of
`arrow_type`. A record batch names the schema id with which it was written; columns added since are NULL in its rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import InvalidAnswer, SourceChanged, UnsupportedType
from tiering.model.refused_records import cast_values

PLAIN_TYPES: Mapping[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "STRING": pa.string(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
}
_UNITS = ("s", "ms", "us", "ns")
"""Arrow's units of time: for precision 0, for 1 to 3, for 4 to 6 and for 7 to 9."""


def parse_schema_json(schema_json: bytes | str) -> pa.Schema:
    """Returns the columns of a schema in the answer of GetTableSchema, in the types of its log. Raises InvalidAnswer, UnsupportedType."""
    try:
        columns = json.loads(schema_json)["columns"]
        return pa.schema([_field(column["name"], column["data_type"], column["name"]) for column in columns])
    except (ValueError, KeyError, TypeError) as error:
        hint = "Check the version of the Fluss cluster."
        raise InvalidAnswer(f"a schema of the Fluss cluster cannot be read: {error!r}", hint=hint) from error


def arrow_type(kind: Mapping[str, Any], path: str) -> Any:
    """Returns the Arrow type of a type's values in Fluss's log; `kind` is its description in JSON, and `path` names it in errors.

    TIMESTAMP_LTZ gets the zone UTC; the log's Arrow messages have no schema, so either reading is right. Raises UnsupportedType for a type
    that 0.9.1 does not have, ValueError and KeyError for an incomplete description.
    """
    root = kind["type"]
    if root in PLAIN_TYPES:
        return PLAIN_TYPES[root]
    if root == "BINARY":
        return pa.binary(kind["length"])
    if root == "DECIMAL":
        return pa.decimal128(kind["precision"], kind["scale"])
    if root in ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"):
        return pa.timestamp(_unit(kind), tz="UTC" if root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else None)
    if root == "TIME_WITHOUT_TIME_ZONE":
        unit = _unit(kind)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return _nested_type(kind, path)


def _nested_type(kind: Mapping[str, Any], path: str) -> Any:
    root = kind["type"]
    if root == "ARRAY":
        return pa.list_(_field("element", kind["element_type"], f"{path}.element"))
    if root == "MAP":
        key, value = _field("key", kind["key_type"], f"{path}.key"), _field("value", kind["value_type"], f"{path}.value")
        return pa.map_(key.with_nullable(False), value)
    if root == "ROW":
        return pa.struct([_field(field["name"], field["field_type"], f"{path}.{field['name']}") for field in kind["fields"]])
    raise UnsupportedType(f"column {path!r} has the Fluss type {root}, which Lakeward does not know", column=path)


def _field(name: str, kind: Mapping[str, Any], path: str) -> pa.Field[Any]:
    return pa.field(name, arrow_type(kind, path), kind.get("nullable", True))


def _unit(kind: Mapping[str, Any]) -> Any:
    return _UNITS[-(-int(kind["precision"]) // 3)]


@dataclass(frozen=True)
class LogLayout:
    """Decodes rows that were written with one schema id, and converts them to rows of the table."""

    written: pa.Schema
    """The schema with which Arrow decodes a record batch: the columns in the log's order, already in the table's type if the bytes are the
    same.
    """
    table: pa.Schema
    _casts: tuple[bool, ...]
    """For each column of `table`, whether the decoded values have to be cast to its type."""
    _places: tuple[int, ...]
    """For each column of `table` its place in `written`; -1 = added later."""

    def projected(self, columns: Sequence[str]) -> LogLayout:
        """Returns the layout of those of the table's columns that are in `columns`."""
        kept = [place for place, name in enumerate(self.table.names) if name in columns]
        table = pa.schema([self.table.field(place) for place in kept])
        return LogLayout(self.written, table, tuple(self._casts[place] for place in kept), tuple(self._places[place] for place in kept))

    @property
    def decoded_columns(self) -> list[int]:
        """The positions of the columns of `written` that `rows` needs; at least one, because rows without columns have no count."""
        return sorted(place for place in self._places if place >= 0) or [0]

    @property
    def is_identity(self) -> bool:
        """Returns whether decoded rows are already rows of the table."""
        return self._places == tuple(range(len(self.written))) and not any(self._casts) and len(self.written) == len(self.table)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the table's rows of a decoded batch, which has at least the columns `decoded_columns`.

        Raises UnwritableRow for the first row with a value that the table's type cannot hold.
        """
        if self.is_identity:
            return batch
        columns: list[pa.Array[Any]] = []
        for field, place, is_cast in zip(self.table, self._places, self._casts, strict=True):
            if place < 0:
                columns.append(pa.nulls(batch.num_rows, field.type))
            else:
                column = batch.column(self.written.names[place])
                columns.append(column if not is_cast else cast_values(column, field))
        return pa.RecordBatch.from_arrays(columns, schema=self.table)


def log_layout(schema: pa.Schema, table: pa.Schema, where: str) -> LogLayout:
    """Returns the conversion from rows of a schema id to rows of `table`. Columns are found by name, because Fluss 0.9.1 only adds columns.

    Raises SourceChanged if the log has a column that `table` does not have, or one of another type; `where` names the table.
    """
    names = schema.names
    if unknown := [name for name in names if table.get_field_index(name) < 0]:
        raise SourceChanged(f"columns were added to {where} since it was looked up: {', '.join(unknown)}")
    places = tuple(names.index(name) if name in names else -1 for name in table.names)
    written, casts = [field.with_nullable(True) for field in schema], []
    for field, place in zip(table, places, strict=True):
        is_cast = place >= 0 and not have_same_bytes(written[place].type, field.type)
        if is_cast:
            _check_cast(written[place].type, field, where)
        elif place >= 0:
            written[place] = field
        casts.append(is_cast)
    return LogLayout(pa.schema(written), table, tuple(casts), places)


def _check_cast(kind: Any, field: pa.Field[Any], where: str) -> None:
    try:
        pc.cast(pa.nulls(0, kind), field.type)
    except pa.ArrowException as error:
        message = f"column {field.name!r} of {where} is {kind} in the log, and was {field.type} when the table was looked up"
        raise SourceChanged(message, column=field.name) from error


def have_same_bytes(left: pa.DataType, right: pa.DataType) -> bool:
    """Returns whether values of both types have the same bytes: names and nullability within nested types make no difference."""
    if left.num_fields or right.num_fields:
        is_alike = left.id == right.id and left.num_fields == right.num_fields
        return is_alike and all(have_same_bytes(left.field(place).type, right.field(place).type) for place in range(left.num_fields))
    return left.equals(right)
