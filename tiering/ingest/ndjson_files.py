"""NDJSON files: one JSON object a line. A column's type is found over the whole file, then every line is read with it.

Texts that are dates or timestamps in every row become such (not within lists and objects); a key that is absent is null.
Arrays become lists, objects structs.

Arrow reads a number with a fraction as a double. So such numbers are read as the text that the file has, and cast to the column's type.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa
from pyarrow import json as arrow_json

from tiering.errors import InvalidData, LakewardError
from tiering.ingest.exact_casts import cast_exactly
from tiering.ingest.json_numbers import with_quoted_numbers
from tiering.ingest.json_types import NumbersByPath, as_read, has_doubles, in_order_of, merged, settled, with_text_numbers
from tiering.ingest.text_types import NOT_UTF8_HINT, TIME_TYPES, check_castable

_T = TypeVar("_T")

BLOCK_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class _Block:
    """Whole lines of the file, at least one of them not blank."""

    content: bytes
    first_line: int


@dataclass(frozen=True)
class _Schemas:
    """How the columns of a file are read, and what they become."""

    exact: pa.Schema
    """Columns that Arrow reads without a loss."""
    as_text: pa.Schema
    """Columns with a number that is not always whole: their numbers are read as text."""
    result: pa.Schema


class NdjsonSource:
    """One NDJSON file as a `Source`."""

    text_types = TIME_TYPES

    def __init__(self, file: Path, table: pa.Schema | None = None) -> None:
        """`table` has the columns of the table that the rows are for, if it exists; keys of objects may come in any order."""
        self._file = file
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        """All keys of the file, in the order in which they first appear. Raises InvalidData naming file and line.

        Columns of the table have text where a number is not always whole.
        """
        return self._schemas.result

    @cached_property
    def _schemas(self) -> _Schemas:
        kinds: dict[str, pa.DataType] = {}
        numbers = NumbersByPath()
        for block in self._blocks():
            table, kinds = self._first_look(block, kinds)
            self._see_numbers(block, table, numbers)
        ordered = {name: settled(self._ordered(name, kind)) for name, kind in kinds.items()}
        as_text = {name: with_text_numbers(kind) for name, kind in ordered.items() if self._may_be_fractions(name, kind)}
        result = {name: as_text.get(name, kind) if self._is_known(name) else numbers.resolved(kind, name) for name, kind in ordered.items()}
        exact = {name: kind for name, kind in ordered.items() if name not in as_text}
        return _Schemas(pa.schema(list(exact.items())), pa.schema(list(as_text.items())), pa.schema(list(result.items())))

    def _see_numbers(self, block: _Block, table: pa.Table, numbers: NumbersByPath) -> None:
        """Takes in the numbers of a block's columns whose types the table does not tell."""
        untyped = [field for field in table.schema if not self._is_known(field.name)]
        doubles = [field.with_type(with_text_numbers(as_read(field.type))) for field in untyped if has_doubles(field.type)]
        texts = self._parse(block, pa.schema(doubles), quoted=True) if doubles else pa.table({})
        for field in untyped:
            values = (texts if field.name in texts.column_names else table)[field.name].combine_chunks()
            numbers.see(field.type, values, field.name)

    def _is_known(self, name: str) -> bool:
        return self._table is not None and name in self._table.names

    def _ordered(self, name: str, kind: pa.DataType) -> pa.DataType:
        return in_order_of(kind, self._table.field(name).type) if self._table is not None and self._is_known(name) else kind

    def _may_be_fractions(self, name: str, kind: pa.DataType) -> bool:
        """Returns whether a column holds numbers that BIGINT would change: fractions, and -0 where the table has DOUBLE or FLOAT."""
        return has_doubles(kind) or (self._table is not None and self._is_known(name) and has_doubles(self._table.field(name).type))

    def _first_look(self, block: _Block, kinds: dict[str, pa.DataType]) -> tuple[pa.Table, dict[str, pa.DataType]]:
        """Returns the rows of a block, and the kinds of values that the columns have up to its end. Raises InvalidData for the first line
        that does not fit those before it, or the table's types.
        """

        def read(content: bytes) -> tuple[pa.Table, dict[str, pa.DataType]]:
            rows = _parse(content, None)
            return rows, self._joined(kinds, rows.schema)

        return self._checked(block, read)

    def _joined(self, kinds: dict[str, pa.DataType], schema: pa.Schema) -> dict[str, pa.DataType]:
        joined = dict(kinds)
        for field in schema:
            before, now = joined.get(field.name, pa.null()), as_read(field.type)
            if self._table is not None and self._is_known(field.name):
                check_castable(field.name, self._ordered(field.name, now), self._table.field(field.name).type)
            both = merged(before, now)
            if both is None:
                raise InvalidData(f"column {field.name!r} is {before} in the lines before, and {now} here", column=field.name)
            joined[field.name] = both
        return joined

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows. Raises InvalidData naming file and line."""
        for block in self._blocks():
            yield from self._read(block).to_batches()

    def _read(self, block: _Block) -> pa.Table:
        schemas = self._schemas
        if not len(schemas.as_text):
            return self._parse(block, schemas.result)
        texts = self._parse(block, schemas.as_text, quoted=True)
        exact = self._parse(block, schemas.exact) if len(schemas.exact) else texts
        columns = [(texts if field.name in schemas.as_text.names else exact)[field.name] for field in schemas.result]
        arrays = [
            column.combine_chunks() if column.type == field.type else cast_exactly(column.combine_chunks(), field.type)
            for column, field in zip(columns, schemas.result, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schemas.result)

    def locate(self, row: int) -> str:
        """Returns where a row (counted from 0) stands, such as `line 17`."""
        with self._file.open("rb") as lines:
            numbers = (number for number, line in enumerate(lines, start=1) if line.strip())
            for index, number in enumerate(numbers):
                if index == row:
                    return f"line {number}"
        return f"row {row + 1}"

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns the first line with whose keys `check` raises the error that it raises for the whole file, such as `line 17`."""
        refusal = _message_of(check, self.schema)
        kinds: dict[str, pa.DataType] = {}

        def read(content: bytes) -> dict[str, pa.DataType]:
            joined = self._joined(kinds, _parse(content, None).schema)
            if _message_of(check, pa.schema([(name, settled(kind)) for name, kind in joined.items()])) == refusal:
                raise InvalidData(refusal)
            return joined

        for block in self._blocks():
            try:
                kinds = read(block.content)
            except InvalidData as error:
                return f"line {_first_refused(block, read, error)[0]}"
        return ""

    def _blocks(self) -> Iterator[_Block]:
        line = 1
        with self._file.open("rb") as file:
            if file.peek(3)[:3] == _BYTE_ORDER_MARK:
                file.read(3)
            while content := file.read(BLOCK_BYTES):
                if not content.endswith(b"\n"):
                    content += file.readline(MAX_LINE_BYTES)
                ended = content.count(b"\n")
                if not content.endswith(b"\n") and file.peek(1):
                    raise InvalidData(f"{self._file}, line {line + ended}: a line of more than {MAX_LINE_BYTES} bytes")
                if content.strip():
                    self._check_text(content, line)
                    yield _Block(content, line)
                line += ended

    def _check_text(self, content: bytes, first_line: int) -> None:
        """Raises InvalidData for bytes that are not UTF-8, as JSON has to be (RFC 8259, 8.1); Arrow takes any bytes, also in keys."""
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line = first_line + content.count(b"\n", 0, error.start)
            raise InvalidData(f"{self._file}, line {line}: the text is not UTF-8", hint=NOT_UTF8_HINT) from error

    def _parse(self, block: _Block, schema: pa.Schema | None, quoted: bool = False) -> pa.Table:
        """Returns the rows of a block, with the columns of `schema` only. `quoted` reads each number as a text."""

        def read(content: bytes) -> pa.Table:
            return _parse(with_quoted_numbers(content) if quoted else content, schema)

        return self._checked(block, read)

    def _checked(self, block: _Block, read: Callable[[bytes], _T]) -> _T:
        """Returns what `read` makes of a block. Raises InvalidData, naming file and line, for what it refuses."""
        try:
            return read(block.content)
        except (pa.ArrowInvalid, InvalidData) as error:
            line, reason = _first_refused(block, read, error)
            hint, ids = (reason.hint, reason.ids) if isinstance(reason, InvalidData) else (None, {})
            raise InvalidData(f"{self._file}, line {line}: {reason}", hint=hint, **ids) from error


def _first_refused(block: _Block, read: Callable[[bytes], object], error: Exception) -> tuple[int, Exception]:
    """Finds, by halving, the first line that `read` refuses together with those before it; `error` is the refusal of the whole block."""
    lines = io.BytesIO(block.content).readlines()
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            read(b"".join(lines[:middle]))
        except (pa.ArrowInvalid, InvalidData) as refusal:
            bad, error = middle, refusal
        else:
            good = middle
    return block.first_line + bad - 1, error


def _message_of(check: Callable[[pa.Schema], None], columns: pa.Schema) -> str:
    """Returns the message with which `check` refuses columns; empty if it does not."""
    try:
        check(columns)
    except LakewardError as error:
        return error.message
    return ""


def _parse(content: bytes, schema: pa.Schema | None) -> pa.Table:
    if not content.strip():
        return pa.table({})
    # One block, so that types are found over all of it.
    options = arrow_json.ReadOptions(use_threads=False, block_size=len(content) + 1)
    others: Literal["infer", "ignore"] = "infer" if schema is None else "ignore"
    parsing = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
    return arrow_json.read_json(io.BytesIO(content), options, parsing)
