"""Finds the type that all texts of a column fit, and casts text without loss; a cast that fails names the row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tiering.cluster.embedded.kv.map_keys import check_map_keys
from tiering.cluster.embedded.metadata.partitions import is_partition_type, partition_values
from tiering.errors import InvalidData

NULL_TEXTS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Unquoted texts that mean null in a CSV file: R and pandas write these."""

NOT_UTF8_HINT = "Convert the file to UTF-8 first, as with iconv."

NUMBER_TYPES: tuple[pa.DataType, ...] = (pa.int64(), pa.float64())
TIME_TYPES: tuple[pa.DataType, ...] = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
CSV_TYPES: tuple[pa.DataType, ...] = (*NUMBER_TYPES, *TIME_TYPES, pa.bool_())
"""What a column of a CSV file may be, the narrowest first."""

_SAMPLE_ROWS = 64

Column: TypeAlias = "pa.Array[Any]"


class Misfit(Exception):
    """A value that does not fit its column; `row` counts from 0 within what was cast."""

    def __init__(self, column: str, row: int, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.column = column
        self.row = row
        self.reason = reason
        self.hint = hint


class ColumnInference:
    """Looks at all texts of a column and returns the first of `candidates` that each of them fits, string if none does."""

    def __init__(self, candidates: Sequence[pa.DataType]) -> None:
        self._left = list(candidates)
        self._has_values = False

    def see(self, texts: Column) -> None:
        """Takes in the next texts of the column."""
        tried = [(kind, _try_cast(texts, kind)) for kind in self._left]
        fitting = [(kind, values) for kind, values in tried if values is not None]
        self._left = [kind for kind, _ in fitting]
        self._has_values = self._has_values or any(values.null_count < len(values) for _, values in fitting)

    @property
    def kind(self) -> pa.DataType:
        """The type that was found; string for a column without a value."""
        return self._left[0] if self._left and self._has_values else pa.string()


def _try_cast(texts: Column, kind: pa.DataType) -> Column | None:
    try:
        # A cast that fails costs a message per value: most types are ruled out by a few values.
        cast_text(texts.slice(0, _SAMPLE_ROWS), kind)
        values = cast_text(texts, kind)
    except pa.ArrowInvalid:
        return None
    # Arrow reads 0x1F as a number; in a column nobody described it is an identifier.
    return None if pa.types.is_integer(kind) and _any_hexadecimal(texts) else values


def _any_hexadecimal(texts: Column) -> bool:
    return bool(pc.any(pc.starts_with(texts, "0x", ignore_case=True)).as_py())


def cast_text(texts: Column, kind: pa.DataType) -> Column:
    """Returns texts as values of `kind`. Spaces around a value, and around a text that stands for null, are ignored. Raises
    ArrowInvalid.
    """
    if pa.types.is_string(kind):
        return texts
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        trimmed = pc.utf8_trim_whitespace(texts)
        known = pc.if_else(pc.is_in(trimmed, pa.array(NULL_TEXTS)), pa.scalar(None, pa.string()), trimmed)
        values: Column = known.cast(kind)
        return values


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns `batch` with exactly the columns of `schema`, which it has in any order. Nothing is rounded or cut. Raises Misfit."""
    return pa.RecordBatch.from_arrays([_cast_column(batch.column(field.name), field) for field in schema], schema=schema)


def check_values(batch: pa.RecordBatch) -> None:
    """Raises Misfit for the first value that its type does not allow, above all text that is not UTF-8: Arrow's readers take any bytes."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            # Taken out: of a slice of structs, Arrow looks at all that lies behind it.
            row = _first_failing(column, lambda part: part.take(list(range(len(part)))).validate(full=True))
            if "UTF8" in str(error):
                raise Misfit(name, row, "the text is not UTF-8", NOT_UTF8_HINT) from error
            raise Misfit(name, row, str(error)) from error


def check_partition_values(batch: pa.RecordBatch, partition_keys: Collection[str]) -> None:
    """Raises Misfit for the first value that cannot stand in a partition's name."""
    for name in partition_keys:
        if name not in batch.schema.names:
            continue  # the cluster says so when the table is made
        column = batch.column(name)
        if not is_partition_type(column.type):
            continue  # likewise
        for value in column.unique():
            try:
                partition_values(name, pa.array([value.as_py()], column.type))
            except InvalidData as error:
                raise Misfit(name, pc.index(column, value).as_py(), error.message) from error


def check_maps(batch: pa.RecordBatch) -> None:
    """Raises Misfit for the first map that has a key twice."""
    try:
        check_map_keys(batch)
    except InvalidData as error:
        raise Misfit(error.ids["column"], int(error.ids["row"]), f"a map has the key {error.ids['key']} twice", error.hint) from error


def _cast_column(column: Column, field: pa.Field[Any]) -> Column:
    cast = _caster(column.type, field)
    try:
        values = cast(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        row = _first_failing(column, cast)
        text = str(column[row])
        raise Misfit(field.name, row, f"{text[:60]!r} is not a valid {field.type}") from error
    if not field.nullable and values.null_count:
        raise Misfit(field.name, pc.index(values.is_null(), True).as_py(), "a value is missing, and the column is NOT NULL")
    return values


def _caster(kind: pa.DataType, field: pa.Field[Any]) -> Callable[[Column], Column]:
    target: pa.DataType = field.type
    if pa.types.is_string(kind):
        return lambda column: cast_text(column, target) if column.null_count < len(column) else _nulls(len(column), target)
    _check_castable(field.name, kind, target)
    return lambda column: column.cast(target)


def _nulls(count: int, kind: pa.DataType) -> Column:
    """Returns nulls of a type, which also works for lists, maps and structs, to which no text can be cast."""
    values: Column = pa.array([None] * count, kind)
    return values


def _check_castable(path: str, kind: pa.DataType, target: pa.DataType) -> None:
    """Raises InvalidData where Arrow's cast would change a meaning, drop a field of a struct, or mix up the order of its fields."""
    if isinstance(kind, pa.TimestampType) and isinstance(target, pa.TimestampType) and (kind.tz is None) != (target.tz is None):
        raise InvalidData(
            f"column {path!r} is {kind}; the table has {target}",
            hint="A timestamp with a zone is an instant, one without is not: convert it in the file.",
            column=path,
        )
    if pa.types.is_nested(kind) != pa.types.is_nested(target) or (pa.types.is_nested(kind) and _nesting(kind) != _nesting(target)):
        raise InvalidData(f"column {path!r} is {kind}; the table has {target}", column=path)
    inner = {name: field.type for name, field in _inner(target)}
    names = [name for name, _ in _inner(kind)]
    for name, field in _inner(kind):
        if name not in inner:
            raise InvalidData(f"column {path!r} has the field {name!r}, which the table lacks", column=path)
        _check_castable(f"{path}.{name}", field.type, inner[name])
    if [name for name in inner if name in names] != names:
        raise InvalidData(
            f"column {path!r} has its fields in the order {', '.join(names)}; the table has them as {', '.join(inner)}", column=path
        )


def _nesting(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return "map"
    return "struct" if pa.types.is_struct(kind) else "list"


def _inner(kind: pa.DataType) -> list[tuple[str, pa.Field[Any]]]:
    """Returns the fields within a type, under the names that paths use."""
    if isinstance(kind, pa.MapType):
        return [("key", kind.key_field), ("value", kind.item_field)]
    fields: list[pa.Field[Any]] = [kind.field(index) for index in range(kind.num_fields)]
    return [(field.name if pa.types.is_struct(kind) else "element", field) for field in fields]


def _first_failing(column: Column, cast: Callable[[Column], object]) -> int:
    """Finds, by halving, the first row whose value the cast refuses."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            cast(column.slice(start, middle - start))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            stop = middle
        else:
            start = middle
    return start
