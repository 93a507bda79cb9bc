"""NDJSON files: one JSON object a line. A column's type is found over the whole file, then every line is read with it.

Texts that are dates or timestamps in every row become such (not within lists and objects); a key that is absent is null.
Arrays become lists, objects structs.

Arrow reads a number with a fraction as a double. So such numbers are read as the text that the file has, and cast to the column's type.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyarrow import json as arrow_json

from tiering.errors import InvalidData
from tiering.ingest.exact_casts import cast_exactly
from tiering.ingest.json_numbers import with_quoted_numbers
from tiering.ingest.json_types import NumbersByPath, as_read, has_doubles, in_order_of, merged, settled, with_text_numbers
from tiering.ingest.text_types import NOT_UTF8_HINT, TIME_TYPES

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
            table = self._parse(block, None)
            for field in table.schema:
                kinds[field.name] = self._unify(field.name, kinds.get(field.name, pa.null()), field.type, block)
            self._see_numbers(block, table, numbers)
        ordered = {name: settled(self._ordered(name, kind)) for name, kind in kinds.items()}
        as_text = {name: with_text_numbers(kind) for name, kind in ordered.items() if has_doubles(kind)}
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
        try:
            return _parse(with_quoted_numbers(block.content) if quoted else block.content, schema)
        except pa.ArrowInvalid as error:
            raise InvalidData(self._what_is_broken(block, schema, quoted, str(error))) from error

    def _what_is_broken(self, block: _Block, schema: pa.Schema | None, quoted: bool, reason: str) -> str:
        """Finds, by halving, the first line that cannot be read together with those before it."""
        lines = block.content.splitlines(keepends=True)
        good, bad = 0, len(lines)
        while bad - good > 1:
            middle = (good + bad) // 2
            content = b"".join(lines[:middle])
            try:
                _parse(with_quoted_numbers(content) if quoted else content, schema)
            except pa.ArrowInvalid as error:
                bad, reason = middle, str(error)
            else:
                good = middle
        return f"{self._file}, line {block.first_line + bad - 1}: {reason}"

    def _unify(self, name: str, before: pa.DataType, now: pa.DataType, block: _Block) -> pa.DataType:
        both = merged(before, as_read(now))
        if both is not None:
            return both
        raise InvalidData(f"{self._file}: column {name!r} is {before} up to line {block.first_line - 1}, and {now} after it", column=name)


def _parse(content: bytes, schema: pa.Schema | None) -> pa.Table:
    if not content.strip():
        return pa.table({})
    # One block, so that types are found over all of it.
    options = arrow_json.ReadOptions(use_threads=False, block_size=len(content) + 1)
    others: Literal["infer", "ignore"] = "infer" if schema is None else "ignore"
    parsing = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
    return arrow_json.read_json(io.BytesIO(content), options, parsing)
