"""NDJSON files: one JSON object a line. A column's type is found over the whole file, then every line is read with it.

Texts that are dates or timestamps in every row become such (not within lists and objects); a key that is absent is null.
Arrays become lists, objects structs.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyarrow import json as arrow_json

from tiering.errors import InvalidData
from tiering.ingest.json_types import as_read, in_order_of, merged, settled
from tiering.ingest.text_types import NOT_UTF8_HINT, TIME_TYPES

BLOCK_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class _Block:
    """Whole lines of the file, at least one of them not blank."""

    content: bytes
    first_line: int


class NdjsonSource:
    """One NDJSON file as a `Source`."""

    text_types = TIME_TYPES

    def __init__(self, file: Path, table: pa.Schema | None = None) -> None:
        """`table` has the columns of the table that the rows are for, if it exists; keys of objects may come in any order."""
        self._file = file
        self._table = table

    @cached_property
    def schema(self) -> pa.Schema:
        """All keys of the file, in the order in which they first appear. Raises InvalidData naming file and line."""
        kinds: dict[str, pa.DataType] = {}
        for block in self._blocks():
            for field in self._parse(block, None).schema:
                kinds[field.name] = self._unify(field.name, kinds.get(field.name, pa.null()), field.type, block)
        return pa.schema([pa.field(name, settled(self._ordered(name, kind))) for name, kind in kinds.items()])

    def _ordered(self, name: str, kind: pa.DataType) -> pa.DataType:
        if self._table is None or name not in self._table.names:
            return kind
        return in_order_of(kind, self._table.field(name).type)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows. Raises InvalidData naming file and line."""
        for block in self._blocks():
            yield from self._parse(block, self.schema).to_batches()

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

    def _parse(self, block: _Block, schema: pa.Schema | None) -> pa.Table:
        try:
            return _parse(block.content, schema)
        except pa.ArrowInvalid as error:
            raise InvalidData(self._what_is_broken(block, schema, str(error))) from error

    def _what_is_broken(self, block: _Block, schema: pa.Schema | None, reason: str) -> str:
        """Finds, by halving, the first line that cannot be read together with those before it."""
        lines = block.content.splitlines(keepends=True)
        good, bad = 0, len(lines)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                _parse(b"".join(lines[:middle]), schema)
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
    return arrow_json.read_json(io.BytesIO(content), options, arrow_json.ParseOptions(explicit_schema=schema))
