"""The options `table.datalake.partition` and `table.datalake.sort`: their text, and the columns that they may name. Pure.

    table.datalake.partition = 'day(ts), bucket(8, id)'        a column, or a transform of one (Iceberg spec, "Partition Transforms")
    table.datalake.sort      = 'customer, ts DESC NULLS LAST'  columns by which the rows within a file are sorted

A column whose name has blanks, commas, parentheses or backticks is written in backticks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from tiering.errors import InvalidArgument
from tiering.lake.column_names import folded_name
from tiering.model.sql_types import split_at_commas
from tiering.model.tables import TableInfo
from tiering.name_matching import nearest_names

MAX_ENTRIES = 16
"""Upper bound of the entries of an option. Each transform multiplies the number of files."""
MAX_BUCKETS, MAX_WIDTH = 1 << 20, 1 << 20
NONE = "none"
"""The text of an option without entries. A column of that name is written in backticks."""

_NAME = r"`(?:[^`]|``)+`|[^\s,()`]+"
_ENTRY = re.compile(
    rf"\s*(?:(?P<transform>[A-Za-z]+)\s*\(\s*(?:(?P<number>[0-9]+)\s*,\s*)?(?P<source>{_NAME})\s*\)|(?P<column>{_NAME}))\s*"
)
_SORTED = re.compile(rf"\s*(?P<column>{_NAME})(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*", re.IGNORECASE)
_ICEBERG = re.compile(r"(?P<word>[a-z]+)(?:\[(?P<number>[0-9]+)\])?")
_PLAIN = re.compile(r"[^\s,()`]+")


class Transform(StrEnum):
    """The transforms of Iceberg's spec that a partition may have."""

    IDENTITY = "identity"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    BUCKET = "bucket"
    TRUNCATE = "truncate"

    @property
    def is_time(self) -> bool:
        """Whether the transform cuts a time. A spec has at most one of these for a column (Iceberg's `PartitionSpec.Builder`)."""
        return self in (Transform.YEAR, Transform.MONTH, Transform.DAY, Transform.HOUR)

    @property
    def has_number(self) -> bool:
        return self in (Transform.BUCKET, Transform.TRUNCATE)


_WORDS = {transform.value: transform for transform in Transform} | {f"{t.value}s": t for t in Transform if t.is_time}


@dataclass(frozen=True)
class PartitionEntry:
    """One entry of the partition. `number` is the number of buckets, or the width of a truncation; None for the other transforms."""

    transform: Transform
    column: str
    number: int | None = None

    def __str__(self) -> str:
        if self.transform is Transform.IDENTITY:
            return _written(self.column)
        number = "" if self.number is None else f"{self.number}, "
        return f"{self.transform}({number}{_written(self.column)})"

    @property
    def field_name(self) -> str:
        """The name of the field in Iceberg's partition spec, as Spark's `ALTER TABLE ... ADD PARTITION FIELD` gives it."""
        if self.transform is Transform.IDENTITY:
            return self.column
        word = "trunc" if self.transform is Transform.TRUNCATE else self.transform.value
        return f"{self.column}_{word}" + ("" if self.number is None else f"_{self.number}")


@dataclass(frozen=True)
class SortEntry:
    """One entry of the sort. Without the words in its text, the order is ascending, and NULL is first if ascending, else last."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        words = " DESC" if self.descending else ""
        if self.nulls_first == self.descending:
            words += f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return _written(self.column) + words


def parse_partition(text: str, name: str) -> tuple[PartitionEntry, ...]:
    """Returns the entries of the option `name`; none for `none`. Raises InvalidArgument that quotes the first wrong entry."""
    entries = tuple(_partition_entry(entry, name) for entry in _entries(text, name))
    for position, entry in enumerate(entries):
        for former in entries[:position]:
            if former.column == entry.column and (former == entry or (former.transform.is_time and entry.transform.is_time)):
                raise InvalidArgument(
                    f"the option {name} has {str(former)!r} and {str(entry)!r}, of which one tells the partition already",
                    hint="Write at most one of years, months, days and hours of a column, and each other entry once.",
                )
    return entries


def entry_of(transform: str, column: str) -> PartitionEntry | None:
    """Returns the entry with a transform in the form of Iceberg's metadata, such as `bucket[8]`; None for one that no entry can have."""
    match = _ICEBERG.fullmatch(transform)
    if match is None or match["word"] not in _WORDS:
        return None
    return PartitionEntry(_WORDS[match["word"]], column, None if match["number"] is None else int(match["number"]))


def parse_sort(text: str, name: str) -> tuple[SortEntry, ...]:
    """Returns the entries of the option `name`; none for `none`. Raises InvalidArgument that quotes the first wrong entry."""
    entries = []
    for entry in _entries(text, name):
        if (match := _SORTED.fullmatch(entry)) is None:
            raise InvalidArgument(
                f"the option {name} has the entry {entry.strip()[:60]!r}",
                hint="Write columns, separated by commas: customer, ts DESC NULLS LAST.",
            )
        descending = (match["direction"] or "").lower() == "desc"
        nulls_first = not descending if match["nulls"] is None else match["nulls"].lower() == "first"
        entries.append(SortEntry(_plain(match["column"]), descending, nulls_first))
    columns = [entry.column for entry in entries]
    for column in columns:
        if columns.count(column) > 1:
            raise InvalidArgument(f"the option {name} has the column {column!r} twice", column=column)
    return tuple(entries)


def entries_text(entries: Sequence[PartitionEntry | SortEntry]) -> str:
    """Returns the text of a partition or a sort."""
    return ", ".join(map(str, entries)) or NONE


def _written(column: str) -> str:
    return column if _PLAIN.fullmatch(column) and column.lower() != NONE else "`" + column.replace("`", "``") + "`"


def _plain(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _entries(text: str, name: str) -> list[str]:
    """Returns the parts between the commas that are in neither parentheses nor backticks."""
    if text.strip().lower() == NONE:
        return []
    parts = split_at_commas(text)
    if len(parts) > MAX_ENTRIES:
        raise InvalidArgument(f"the option {name} has {len(parts)} entries; it may have at most {MAX_ENTRIES}")
    return parts


def _partition_entry(text: str, name: str) -> PartitionEntry:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise _wrong_entry(text, name)
    if match["transform"] is None:
        return PartitionEntry(Transform.IDENTITY, _plain(match["column"]))
    transform = _WORDS.get(match["transform"].lower())
    if transform is None or transform.has_number is (match["number"] is None):
        raise _wrong_entry(text, name)
    number = None if match["number"] is None else int(match["number"][:20])
    upper = MAX_BUCKETS if transform is Transform.BUCKET else MAX_WIDTH
    if number is not None and not 1 <= number <= upper:
        raise InvalidArgument(f"the option {name} has the entry {text.strip()[:60]!r}; the number must be from 1 to {upper:,}")
    return PartitionEntry(transform, _plain(match["source"]), number)


def _wrong_entry(text: str, name: str) -> InvalidArgument:
    words = "a column, years(c), months(c), days(c), hours(c), bucket(n, c) and truncate(width, c)"
    return InvalidArgument(f"the option {name} has the entry {text.strip()[:60]!r}", hint=f"An entry may be: {words}.")


def transforms_of(kind: pa.DataType) -> tuple[Transform, ...]:
    """Returns the transforms that a type has (Iceberg spec, "Partition Transforms").

    Floats have none, because NaN and -0.0 make the partition of a value depend on its writer. Nested types have none.
    """
    types = pa.types
    if types.is_boolean(kind):
        return (Transform.IDENTITY,)
    if types.is_date(kind):
        return (Transform.IDENTITY, Transform.YEAR, Transform.MONTH, Transform.DAY, Transform.BUCKET)
    if types.is_timestamp(kind):
        return (Transform.IDENTITY, Transform.YEAR, Transform.MONTH, Transform.DAY, Transform.HOUR, Transform.BUCKET)
    if types.is_integer(kind) or types.is_decimal(kind) or types.is_string(kind) or types.is_large_string(kind) or _is_binary(kind):
        return (Transform.IDENTITY, Transform.BUCKET, Transform.TRUNCATE)
    return ()


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_sortable(kind: pa.DataType) -> bool:
    """Whether a column of this type may be in a sort: every type but the nested ones."""
    return not pa.types.is_nested(kind)


def check_partition(table: TableInfo, entries: Sequence[PartitionEntry], name: str) -> None:
    """Raises InvalidArgument for a column that the table lacks, a transform that its type does not have, a partition column of the source
    table, and a name of a partition field that a column has."""
    fields = {field.name: field for field in table.schema}
    folded = {folded_name(column): column for column in fields}
    for entry in entries:
        kind = _field(entry.column, fields, table, name).type
        if entry.transform not in (allowed := transforms_of(kind)):
            raise InvalidArgument(
                f"the option {name} has {str(entry)!r}, but the column {entry.column!r} of type {kind} does not have that transform",
                hint=f"It has: {', '.join(allowed)}." if allowed else "A column of this type has no transform.",
                column=entry.column,
            )
        is_own_bucket = (entry.transform, entry.number, (entry.column,)) == (Transform.BUCKET, table.bucket_count, table.bucket_keys)
        if entry.column in table.partition_keys or is_own_bucket:
            role = "bucket key with that number of buckets" if is_own_bucket else "partition column"
            raise InvalidArgument(
                f"the option {name} has {str(entry)!r}, but {entry.column!r} is a {role} of {table.path}",
                hint=f"The lake table is partitioned by the {role} already.",
                column=entry.column,
            )
        other = folded.get(folded_name(entry.field_name), entry.column)
        if other != entry.column:
            raise InvalidArgument(
                f"the option {name} has {str(entry)!r}, whose partition field {entry.field_name!r} has the name of a column",
                hint=f"Rename the column {other!r}.",
                column=other,
            )


def check_sort(table: TableInfo, entries: Sequence[SortEntry], name: str) -> None:
    """Raises InvalidArgument for a column that the table lacks, or that has a nested type."""
    fields = {field.name: field for field in table.schema}
    for entry in entries:
        kind = _field(entry.column, fields, table, name).type
        if not is_sortable(kind):
            raise InvalidArgument(
                f"the option {name} has the column {entry.column!r} of type {kind}, which has no order",
                hint="Files can be sorted by columns without nested fields.",
                column=entry.column,
            )


def _field(column: str, fields: Mapping[str, pa.Field[pa.DataType]], table: TableInfo, name: str) -> pa.Field[pa.DataType]:
    if column not in fields:
        near = nearest_names(column, list(fields), 3)
        hint = f"The nearest names are {', '.join(near)}." if near else f"Its columns are {', '.join(list(fields)[:20])}."
        raise InvalidArgument(f"the option {name} names the column {column!r}, which {table.path} does not have", hint=hint, column=column)
    return fields[column]
