"""Finds a type that all texts of a column fit, and casts text without a loss. The error of a failed cast names the row."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tiering.cluster.partition_names import is_partition_type, partition_values
from tiering.cluster.rows import check_map_keys
from tiering.errors import InvalidData
from tiering.ingest.exact_casts import Column, cast_exactly, changes_meaning
from tiering.ingest.formats import NULL_TEXTS
from tiering.ingest.number_texts import PrintedNumbers

_NOT_UTF8_HINT = "Write the file again with text in UTF-8."
TIME_TYPES: tuple[pa.DataType, ...] = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
CSV_TYPES: tuple[pa.DataType, ...] = (pa.float64(), *TIME_TYPES, pa.bool_())
"""The types that a column of a CSV file may have. DOUBLE stands for the type of numbers that `PrintedNumbers` finds."""
_TRUTH_SPELLINGS = ({"true", "false"}, {"True", "False"}, {"TRUE", "FALSE"})
"""The spellings in which programs write truth values. A BOOLEAN column has only one of them."""

_SAMPLE_ROWS = 64


class CastFailure(Exception):
    """A value that does not fit its column. `row` counts from 0 within the values that were cast."""

    def __init__(self, column: str, row: int, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.column = column
        self.row = row
        self.reason = reason
        self.hint = hint


class ColumnInference:
    """Finds the first of `candidates` that all texts of a column fit; string if there is none. DOUBLE stands for all types of numbers.

    Text that the type would not print in the same way stays text: numbers by the rules of `PrintedNumbers`, and times and truth values with
    several spellings.
    """

    def __init__(self, candidates: Sequence[pa.DataType], null_texts: Sequence[str] = NULL_TEXTS) -> None:
        self._candidates = list(candidates)
        self._null_texts = null_texts
        self._numbers = PrintedNumbers()
        self._times = TimeFormat()
        self._spellings: set[str] = set()
        self._has_values = False

    def see(self, texts: Column) -> None:
        """Records the next texts of the column."""
        if not self._candidates:
            return
        trimmed = _without_nulls(texts, self._null_texts)
        casts = [(kind, _try_cast(trimmed, kind)) for kind in self._candidates]
        fitting = [(kind, values) for kind, values in casts if values is not None]
        self._candidates = [kind for kind, _ in fitting]
        self._has_values = self._has_values or any(values.null_count < len(values) for _, values in fitting)
        for kind, values in fitting:
            if pa.types.is_floating(kind):
                self._numbers.see_texts(trimmed, values)
            elif pa.types.is_timestamp(kind) and values.null_count < len(values):
                self._times.see_texts(trimmed)
            elif pa.types.is_boolean(kind):
                self._spellings.update(text for text in pc.unique(trimmed).to_pylist() if text is not None)

    @property
    def kind(self) -> pa.DataType:
        """The type that was found; string for a column without a value."""
        if not self._candidates or not self._has_values:
            return pa.string()
        kind = self._numbers.kind if pa.types.is_floating(self._candidates[0]) else self._candidates[0]
        return pa.string() if self._differing(kind) else kind

    def _differing(self, kind: pa.DataType) -> Sequence[str]:
        """Returns two texts of a column of times or truth values that are written in different ways; none if all are written alike."""
        if pa.types.is_timestamp(kind):
            return self._times.differing
        is_mixed = pa.types.is_boolean(kind) and not any(self._spellings <= spelling for spelling in _TRUTH_SPELLINGS)
        return sorted(self._spellings)[:2] if is_mixed else ()

    @property
    def text_reason(self) -> str:
        """The reason why a column became STRING although all of its values fit another type; empty for other columns."""
        if not self._candidates or not self._has_values or not pa.types.is_string(self.kind):
            return ""
        if misprint := self._numbers.misprint:
            return f"no number type prints all values as they are in the file, for example {misprint[:40]!r}"
        if differing := self._differing(self._candidates[0]):
            return f"its values are written in several ways, such as {' and '.join(repr(text[:40]) for text in differing)}"
        return "no number type holds all of its digits"


def _try_cast(trimmed: Column, kind: pa.DataType) -> Column | None:
    """Returns texts without spaces as values of a type, numbers as the nearest DOUBLE; None if a text does not fit."""
    try:
        # A failed cast costs one message per value. A few values rule most types out.
        trimmed.slice(0, _SAMPLE_ROWS).cast(kind)
        values: Column = trimmed.cast(kind)
    except pa.ArrowInvalid:
        return None
    return values


def _without_nulls(texts: Column, null_texts: Sequence[str]) -> Column:
    """Returns texts without surrounding spaces. A text of `null_texts` between spaces is null; without spaces it was quoted, and is
    text.
    """
    trimmed = pc.utf8_trim_whitespace(texts)
    is_null = pc.and_(pc.is_in(trimmed, pa.array(null_texts, pa.string())), pc.not_equal(trimmed, texts))
    texts_and_nulls: Column = pc.if_else(is_null, pa.scalar(None, pa.string()), trimmed)
    return texts_and_nulls


def cast_text(texts: Column, kind: pa.DataType, null_texts: Sequence[str] = NULL_TEXTS) -> Column:
    """Returns texts as values of `kind`. Ignores spaces around a value and around a text for null. Raises ArrowInvalid."""
    if pa.types.is_string(kind):
        return texts
    try:
        values: Column = cast_exactly(texts, kind)
    except pa.ArrowInvalid:
        values = cast_exactly(_without_nulls(texts, null_texts), kind)
    return values


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, null_texts: Sequence[str] = NULL_TEXTS) -> pa.RecordBatch:
    """Returns `batch` with exactly the columns of `schema`, in its order. Nothing is rounded or cut. Raises CastFailure."""
    return pa.RecordBatch.from_arrays([_cast_column(batch.column(field.name), field, null_texts) for field in schema], schema=schema)


def check_values(batch: pa.RecordBatch) -> None:
    """Raises CastFailure for the first value that is invalid for its type, such as text that is not UTF-8.

    Arrow's readers accept any bytes.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            row = _first_failing(column, lambda part: part.validate(full=True))
            if "UTF8" in str(error):
                raise CastFailure(name, row, "the text is not UTF-8", _NOT_UTF8_HINT) from error
            raise CastFailure(name, row, str(error)) from error


def check_partition_values(batch: pa.RecordBatch, partition_keys: Collection[str]) -> None:
    """Raises CastFailure for the first value that cannot be part of a partition's name."""
    for name in partition_keys:
        if name not in batch.schema.names:
            continue  # the cluster refuses this when the table is created
        column = batch.column(name)
        if not is_partition_type(column.type):
            continue  # as above
        for value in column.unique():
            try:
                partition_values(name, pa.array([value.as_py()], column.type))
            except InvalidData as error:
                raise CastFailure(name, pc.index(column, value).as_py(), error.message) from error


def check_maps(batch: pa.RecordBatch) -> None:
    """Raises CastFailure for the first map with a duplicate key."""
    try:
        check_map_keys(batch)
    except InvalidData as error:
        raise CastFailure(error.ids["column"], int(error.ids["row"]), f"a map has the key {error.ids['key']} twice", error.hint) from error


def _cast_column(column: Column, field: pa.Field[Any], null_texts: Sequence[str]) -> Column:
    cast = _caster(column.type, field, null_texts)
    try:
        values = cast(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        row = _first_failing(column, cast)
        text = str(column[row])
        raise CastFailure(field.name, row, f"{text[:60]!r} is not a valid {field.type}") from error
    if not field.nullable and values.null_count:
        raise CastFailure(field.name, pc.index(values.is_null(), True).as_py(), "a value is missing, but the column is NOT NULL")
    return values


def _caster(kind: pa.DataType, field: pa.Field[Any], null_texts: Sequence[str]) -> Callable[[Column], Column]:
    target: pa.DataType = field.type
    if pa.types.is_string(kind):
        return lambda column: cast_text(column, target, null_texts) if column.null_count < len(column) else _nulls(len(column), target)
    check_castable(field.name, kind, target)
    return lambda column: cast_exactly(column, target)


def _nulls(count: int, kind: pa.DataType) -> Column:
    """Returns nulls of a type. Also works for lists, maps and structs, to which text cannot be cast."""
    values: Column = pa.array([None] * count, kind)
    return values


def check_castable(path: str, kind: pa.DataType, target: pa.DataType) -> None:
    """Raises InvalidData if Arrow's cast would change a meaning, drop a field of a struct, or confuse the order of its fields."""
    if pa.types.is_null(kind):
        return
    if isinstance(kind, pa.TimestampType) and isinstance(target, pa.TimestampType) and (kind.tz is None) != (target.tz is None):
        raise InvalidData(
            f"column {path!r} is {kind}; the table has {target}",
            hint="A timestamp with a zone is an instant; one without a zone is not. Convert it in the file.",
            column=path,
        )
    if pa.types.is_nested(kind) != pa.types.is_nested(target) or (pa.types.is_nested(kind) and _nesting(kind) != _nesting(target)):
        raise InvalidData(f"column {path!r} is {kind}; the table has {target}", column=path)
    if not pa.types.is_nested(kind) and changes_meaning(kind, target):
        raise InvalidData(
            f"column {path!r} is {kind}; the table has {target}",
            hint="Convert the values in the file: numbers, truth values, bytes, dates and timestamps are not interchangeable.",
            column=path,
        )
    inner = {name: field.type for name, field in _inner(target)}
    names = [name for name, _ in _inner(kind)]
    for name, field in _inner(kind):
        if name not in inner:
            raise InvalidData(f"column {path!r} has the field {name!r}, which the table lacks", column=path)
        check_castable(f"{path}.{name}", field.type, inner[name])
    if [name for name in inner if name in names] != names:
        raise InvalidData(
            f"column {path!r} has its fields in the order {', '.join(names)}; the table has them as {', '.join(inner)}", column=path
        )


def _nesting(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return "map"
    return "struct" if pa.types.is_struct(kind) else "list"


def _inner(kind: pa.DataType) -> list[tuple[str, pa.Field[Any]]]:
    """Returns the fields within a type, under their names in paths."""
    if isinstance(kind, pa.MapType):
        return [("key", kind.key_field), ("value", kind.item_field)]
    fields: list[pa.Field[Any]] = [kind.field(index) for index in range(kind.num_fields)]
    return [(field.name if pa.types.is_struct(kind) else "element", field) for field in fields]


def _first_failing(column: Column, cast: Callable[[Column], object]) -> int:
    """Returns the first row whose value the cast refuses, found by bisection."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            # `take` copies the rows. In a slice of lists or structs, Arrow also looks at all values behind the slice.
            cast(column.take(list(range(start, middle))))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            stop = middle
        else:
            start = middle
    return start


_PARTS = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<clock>[ T]?[0-9:]*)(?P<fraction>(?:\.[0-9]+)?)(?P<zone>.*)$")
_ZERO_AT_END, _ZEROS_ALONE = r"\.[0-9]*0(?:Z|[+-][0-9:]+)?$", r"\.0+(?:Z|[+-][0-9:]+)?$"
_ISOFORMAT_LENGTHS = {0, len(".123456")}
"""Python's `isoformat` prints six digits of a second, or none if all are zero."""


# A TIMESTAMP prints as an instant. If the spelling differs within a column, such as `10:00` and `10:00:00`, or the offsets `+01:00` and
# `+02:00`, the type would lose a part of what the texts tell.
class TimeFormat:
    """Records the texts of times, and tells whether one program can have printed all of them."""

    def __init__(self) -> None:
        self._examples: dict[tuple[str, str], str] = {}
        """The first text of each form of clock and zone."""
        self._fractions: dict[int, str] = {}
        """The first text of each length of the fraction of a second."""
        self._ends_with_zero = False
        self._has_zeros_alone = False

    def see_texts(self, texts: Column) -> None:
        """Records times in the form of ISO 8601; ignores nulls."""
        texts = texts.drop_null()
        self._ends_with_zero = self._ends_with_zero or pc.any(pc.match_substring_regex(texts, _ZERO_AT_END)).as_py()
        self._has_zeros_alone = self._has_zeros_alone or pc.any(pc.match_substring_regex(texts, _ZEROS_ALONE)).as_py()
        first = texts[0].as_py()
        if pc.all(pc.match_substring_regex(texts, _form_of(first))).as_py():
            texts = texts.slice(0, 1)
        parts = pc.extract_regex(texts, _PARTS.pattern)
        clock = pc.replace_substring_regex(pc.struct_field(parts, "clock"), "[0-9]", "0")
        fraction, zone = pc.struct_field(parts, "fraction"), pc.struct_field(parts, "zone")
        lengths = pc.utf8_length(fraction)
        for form in pc.unique(pc.binary_join_element_wise(clock, zone, "|")).to_pylist():
            name, _, ending = form.partition("|")
            if (name, ending) not in self._examples:
                first = pc.index(pc.and_(pc.equal(clock, name), pc.equal(zone, ending)), True).as_py()
                self._examples[name, ending] = texts[first].as_py()
        for length in pc.unique(lengths).to_pylist():
            self._fractions.setdefault(length, texts[pc.index(lengths, length).as_py()].as_py())

    @property
    def differing(self) -> tuple[str, ...]:
        """Two texts with different spellings; none if all have the same spelling."""
        if len(self._examples) > 1:
            return tuple(self._examples.values())[:2]
        is_trimmed = not self._ends_with_zero
        is_isoformat = set(self._fractions) == _ISOFORMAT_LENGTHS and not self._has_zeros_alone
        if len(self._fractions) < 2 or is_trimmed or is_isoformat:
            return ()
        return tuple(self._fractions.values())[:2]


def _form_of(text: str) -> str:
    """Returns a regular expression for times with the spelling and zone of `text`."""
    parts = _PARTS.fullmatch(text)
    zone = parts["zone"] if parts else ""
    digits = re.sub("[0-9]", "[0-9]", re.escape(text.removesuffix(zone)))
    return f"^{digits}{re.escape(zone)}$"
