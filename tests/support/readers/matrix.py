"""The matrix of readers: every reader's answer to every case, compared with the right rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from support.readers.cases import Case
from support.readers.questions import Answer, Reader
from support.values.plain_rows import plain_rows


@dataclass(frozen=True)
class Limit:
    """A known way in which a reader's answer differs; `explains` tells whether an answer (to a case with these right rows) does just so."""

    reader: str
    text: str
    explains: Callable[[Answer, pa.Table], bool]


@dataclass(frozen=True)
class Cell:
    """How a reader's answer is: right, or as a limit of the reader has it, or different."""

    case: Case
    reader: Reader
    difference: str | None
    limit: Limit | None

    @property
    def is_explained(self) -> bool:
        return self.difference is None or self.limit is not None


def matrix(cases: Sequence[Case], readers: Iterable[Reader], limits: Sequence[Limit]) -> list[Cell]:
    questions = [case.question for case in cases]
    return [
        _cell(case, reader, answer, limits) for reader in readers for case, answer in zip(cases, reader.answers(questions), strict=True)
    ]


AskedOnce = Callable[[str, str], Sequence[Cell]]
"""Returns a reader's answers to each case of a layout: by the names of layout and reader."""


def asked_once(cases: Sequence[Case], readers: Iterable[Reader], limits: Sequence[Limit]) -> AskedOnce:
    """The matrix in parts, each of which is made when it is first wanted."""
    by_name = {reader.name: reader for reader in readers}

    @cache
    def cells_of(layout: str, reader: str) -> Sequence[Cell]:
        return matrix([case for case in cases if case.layout == layout], [by_name[reader]], limits)

    return cells_of


def _cell(case: Case, reader: Reader, answer: Answer, limits: Sequence[Limit]) -> Cell:
    difference = difference_of(answer, case.expected)
    of_reader = [limit for limit in limits if limit.reader == reader.name] if difference else []
    return Cell(case, reader, difference, next((limit for limit in of_reader if limit.explains(answer, case.expected)), None))


def difference_of(answer: Answer, expected: pa.Table) -> str | None:
    """The first difference from the right rows: error, columns, types, number of rows, a row. None = equal."""
    if isinstance(answer, str):
        return answer
    if answer.column_names != expected.column_names:
        return f"columns {answer.column_names}"
    if answer.num_rows == expected.num_rows == 0 and all(pa.types.is_null(field.type) for field in answer.schema):
        return None  # pypaimon-rust hands out batches, and of no rows none
    types, right_types = ([plain_type(field.type) for field in rows.schema] for rows in (answer, expected))
    if types != right_types:
        return f"types {types} for {right_types}"
    if _are_same(answer, expected):
        return None
    rows, right_rows = sorted_rows(answer), sorted_rows(expected)
    if len(rows) != len(right_rows):
        return f"{len(rows)} rows for {len(right_rows)}"
    return next((f"{row} for {right}" for row, right in zip(rows, right_rows, strict=True) if row != right), None)


def _are_same(answer: pa.Table, expected: pa.Table) -> bool:
    """Whether Arrow finds the rows equal: much faster than a look at each value, which has the last word."""
    first = expected.column_names[0]
    try:
        return answer.cast(expected.schema).sort_by(first).equals(expected.sort_by(first))
    except pa.ArrowException:
        return False


def plain_type(kind: Any) -> Any:
    """A type without what Arrow adds to a value's own: the width of offsets, names of elements, the spelling of UTC."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_timestamp(kind) and kind.tz in ("+00:00", "Etc/UTC"):
        return pa.timestamp(kind.unit, "UTC")
    return kind


def sorted_rows(rows: pa.Table, *, empty_for_null: bool = False) -> list[dict[str, Any]]:
    """By the first column, and by all others where rows have the same value there. `empty_for_null`: see `plain_rows`."""
    return sorted(plain_rows(rows, empty_for_null=empty_for_null), key=lambda row: (row[rows.column_names[0]], repr(row)))
