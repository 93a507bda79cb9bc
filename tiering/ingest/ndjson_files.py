"""Reads NDJSON files: one JSON object per line. A column's type comes from the whole file; then every line is read with this type.

A column of texts that are all dates or all timestamps gets that type, except within lists and objects. A missing key is null. Arrays become
lists, objects become structs.

Arrow reads a number with a fraction as a double. So such numbers are read as the text in the file, and cast to the column's type.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from tiering.errors import InvalidData, LakewardError
from tiering.ingest.exact_casts import cast_exactly
from tiering.ingest.formats import check_rename
from tiering.ingest.json_types import NumbersByPath, as_read, has_doubles, in_order_of, merged, settled, with_text_numbers
from tiering.ingest.plain_files import NOT_UTF8_HINT, PlainFile
from tiering.ingest.text_types import TIME_TYPES, check_castable

_T = TypeVar("_T")

BLOCK_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
_ARRAY_HINT = "Write each element of the JSON array as a line, for example with jq -c '.[]'."


@dataclass(frozen=True)
class _Block:
    """Whole lines of one file. At least one of them is not blank."""

    file: PlainFile
    content: bytes
    first_line: int


@dataclass(frozen=True)
class _Schemas:
    """How the columns of a file are read, and their final types."""

    exact: pa.Schema
    """Columns that Arrow reads without a loss."""
    as_text: pa.Schema
    """Columns with a number that may not be whole: their numbers are read as text."""
    result: pa.Schema


class NdjsonSource:
    """NDJSON files as one `Source`. Its columns are the keys of all files."""

    text_types = TIME_TYPES

    def __init__(self, files: Sequence[PlainFile], table: pa.Schema | None = None, rename: Mapping[str, str] | None = None) -> None:
        """`table` has the columns whose types are known; keys of objects may have any order. `rename` gives keys new names."""
        self._files = files
        self.name = ", ".join(map(str, files))
        self._table = table
        self._new_names = rename or {}
        self._keys = {new: key for key, new in self._new_names.items()}

    @property
    def schema(self) -> pa.Schema:
        """All keys of the file, in the order of their first appearance. Raises InvalidData, which names file and line.

        Columns of the table are text if a number in them may not be whole.
        """
        return self._schemas.result

    @cached_property
    def _schemas(self) -> _Schemas:
        kinds: dict[str, pa.DataType] = {}
        numbers = NumbersByPath()
        for block in self._blocks():
            table, kinds = self._first_look(block, kinds)
            self._record_numbers(block, table, numbers)
        check_rename([self._keys.get(name, name) for name in kinds], self._new_names, str(self._files[0]))
        ordered = {name: settled(self._ordered(name, kind)) for name, kind in kinds.items()}
        as_text = {name: with_text_numbers(kind) for name, kind in ordered.items() if self._may_be_fractions(name, kind)}
        result = {name: as_text.get(name, kind) if self._is_known(name) else numbers.resolved(kind, name) for name, kind in ordered.items()}
        exact = {name: kind for name, kind in ordered.items() if name not in as_text}
        return _Schemas(pa.schema(list(exact.items())), pa.schema(list(as_text.items())), pa.schema(list(result.items())))

    def _record_numbers(self, block: _Block, table: pa.Table, numbers: NumbersByPath) -> None:
        """Records the numbers of those columns of a block whose types the table does not define."""
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
        """Returns whether a column has numbers that BIGINT would change: fractions, and -0 if the table has DOUBLE or FLOAT."""
        return has_doubles(kind) or (self._table is not None and self._is_known(name) and has_doubles(self._table.field(name).type))

    def _first_look(self, block: _Block, kinds: dict[str, pa.DataType]) -> tuple[pa.Table, dict[str, pa.DataType]]:
        """Returns the rows of a block, and the types of the columns' values up to the end of this block.

        Raises InvalidData for the first line that does not fit the lines before it or the table's types.
        """

        def read(content: bytes) -> tuple[pa.Table, dict[str, pa.DataType]]:
            rows = self._parsed(content, None)
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
        """Yields all rows. Raises InvalidData, which names file and line."""
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
        """Returns the place of a row (counted from 0), such as `places.ndjson, line 17`."""
        index = 0
        for file in self._files:
            with file.path.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        if index == row:
                            return f"{file}, line {number}"
                        index += 1
        return f"{self._files[-1]}, row {row + 1}"

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns the first line whose keys make `check` raise the same error as for all keys, such as `places.ndjson, line 17`."""
        refusal = _message_of(check, self.schema)
        kinds: dict[str, pa.DataType] = {}

        def read(content: bytes) -> dict[str, pa.DataType]:
            joined = self._joined(kinds, self._parsed(content, None).schema)
            if _message_of(check, pa.schema([(name, settled(kind)) for name, kind in joined.items()])) == refusal:
                raise InvalidData(refusal)
            return joined

        for block in self._blocks():
            try:
                kinds = read(block.content)
            except InvalidData as error:
                return f"{block.file}, line {_first_refused(block, read, error)[0]}"
        return self.name

    def _blocks(self) -> Iterator[_Block]:
        for file in self._files:
            yield from self._blocks_of(file)

    def _blocks_of(self, file: PlainFile) -> Iterator[_Block]:
        line = 1
        with file.path.open("rb") as data:
            if data.peek(3)[:3] == codecs.BOM_UTF8:
                data.read(3)
            while content := data.read(BLOCK_BYTES):
                if not content.endswith(b"\n"):
                    content += data.readline(MAX_LINE_BYTES)
                ended = content.count(b"\n")
                if not content.endswith(b"\n") and data.peek(1):
                    raise InvalidData(f"{file}, line {line + ended}: a line of more than {MAX_LINE_BYTES} bytes")
                if content.strip():
                    self._check_text(file, content, line)
                    yield _Block(file, content, line)
                line += ended

    def _check_text(self, file: PlainFile, content: bytes, first_line: int) -> None:
        """Raises InvalidData for bytes that are not UTF-8, which JSON requires (RFC 8259, 8.1). Arrow accepts any bytes, also in keys."""
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line = first_line + content.count(b"\n", 0, error.start)
            raise InvalidData(f"{file}, line {line}: the text is not UTF-8", hint=NOT_UTF8_HINT) from error

    def _parse(self, block: _Block, schema: pa.Schema | None, quoted: bool = False) -> pa.Table:
        """Returns the rows of a block, with only the columns of `schema`. `quoted` reads each number as a text."""

        def read(content: bytes) -> pa.Table:
            return self._parsed(with_quoted_numbers(content) if quoted else content, schema)

        return self._checked(block, read)

    def _checked(self, block: _Block, read: Callable[[bytes], _T]) -> _T:
        """Returns the result of `read` for a block. Raises InvalidData, which names file and line, for content that `read` refuses."""
        try:
            return read(block.content)
        except (pa.ArrowInvalid, InvalidData) as error:
            line, reason = _first_refused(block, read, error)
            hint, ids = (reason.hint, reason.ids) if isinstance(reason, InvalidData) else (None, {})
            if hint is None and block.first_line == 1 and block.content.lstrip().startswith(b"["):
                hint = _ARRAY_HINT
            raise InvalidData(f"{block.file}, line {line}: {reason}", hint=hint, **ids) from error

    def _parsed(self, content: bytes, schema: pa.Schema | None) -> pa.Table:
        """Returns the rows of JSON text under the new names of their keys, with only the columns of `schema`."""
        if not self._new_names:
            return _parse(content, schema)
        in_file = None if schema is None else pa.schema([field.with_name(self._keys.get(field.name, field.name)) for field in schema])
        rows = _parse(content, in_file)
        renamed_keys = [new for new in self._keys if new in rows.column_names and new not in self._new_names]
        if schema is None and renamed_keys:
            raise InvalidData(
                f"there is a key {renamed_keys[0]!r}, but --rename gives {self._keys[renamed_keys[0]]!r} the same name",
                column=renamed_keys[0],
            )
        return rows.rename_columns([self._new_names.get(name, name) for name in rows.column_names])


def _first_refused(block: _Block, read: Callable[[bytes], object], error: Exception) -> tuple[int, Exception]:
    """Returns the first line that `read` refuses together with the lines before it, found by bisection.

    `error` is the refusal of the whole block.
    """
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
    """Returns the message with which `check` refuses columns; an empty text if it accepts them."""
    try:
        check(columns)
    except LakewardError as error:
        return error.message
    return ""


def _parse(content: bytes, schema: pa.Schema | None) -> pa.Table:
    if not content.strip():
        return pa.table({})
    # All content is one block, so that Arrow finds the types over all of it.
    options = arrow_json.ReadOptions(use_threads=False, block_size=len(content) + 1)
    others: Literal["infer", "ignore"] = "infer" if schema is None else "ignore"
    parsing = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
    return arrow_json.read_json(io.BytesIO(content), options, parsing)


_QUOTE = ord('"')
_ESCAPED = re.compile(rb"\\.", re.DOTALL)


def _bytes_in(characters: bytes) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


_NUMBER_BYTES = _bytes_in(b"0123456789+-.eE")
_FIRST_NUMBER_BYTES = _bytes_in(b"0123456789-")


def with_quoted_numbers(content: bytes) -> bytes:
    """Returns JSON text in which each number is a text of the same characters. Texts stay unchanged."""
    data = np.frombuffer(content, np.uint8)
    unescaped = np.frombuffer(_ESCAPED.sub(b"__", content), np.uint8) if b"\\" in content else data
    is_quote = unescaped == _QUOTE
    # The sum of bytes wraps at 256, which does not change its parity.
    in_text = (np.cumsum(is_quote, dtype=np.uint8) & 1).astype(np.bool_)
    of_number = np.zeros(len(data) + 2, np.bool_)
    of_number[1:-1] = _NUMBER_BYTES[data] & ~in_text
    starts = np.flatnonzero(of_number[1:-1] & ~of_number[:-2])
    stops = np.flatnonzero(of_number[1:-1] & ~of_number[2:]) + 1
    numbers = _FIRST_NUMBER_BYTES[data[starts]]  # excludes the "e" of true and false
    places = np.concatenate([starts[numbers], stops[numbers]])
    return np.insert(data, places, _QUOTE).tobytes()
