"""CSV files: comma, double quotes, a header line, UTF-8. Read as text in bounded memory; types are found over the whole file.

Unquoted `NA` and its like (`NULL_TEXTS` of `text_types.py`) are null in every column; the same text in quotes is not. Arrow's reader does
not tell whether a value with spaces around it was quoted: in columns of numbers, times and truth values, `NA` between spaces is null.
A blank line is skipped, except in a file of one column: there it is a row with null, as PostgreSQL and Spark write it.

Arrow takes a quote that is never closed, or text behind a closing quote, for a part of the value, and thereby reads several rows as one.
Such files are refused.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tiering.errors import InvalidData
from tiering.ingest.text_types import CSV_TYPES, NOT_UTF8_HINT, NULL_TEXTS

BLOCK_BYTES = 4 * 1024 * 1024
_FIELD_LIMIT_BYTES = 2**31 - 1
_QUOTE = ord('"')
_BESIDE_QUOTES = np.frombuffer(b'",\r\n', np.uint8)
"""The bytes that stand outside of a quoted value, next to its quotes; a quote stands for a quote within the value that is doubled."""
_QUOTES_HINT = "A quoted value ends with a quote before a comma or the end of its line; a quote within it is written twice."


class CsvSource:
    """One CSV file as a `Source`: every column is text."""

    text_types = CSV_TYPES

    def __init__(self, file: Path) -> None:
        self._file = file
        header = next(_rows(file), None)
        if header is None:
            raise InvalidData(f"{file} is empty", hint="Its first line must name the columns.")
        self._header_line, self._names = header
        counts = Counter(self._names)
        for name in self._names:
            if not _is_unicode(name):
                raise InvalidData(f"{file}, line {self._header_line}: the text is not UTF-8", hint=NOT_UTF8_HINT)
            if counts[name] > 1:
                raise InvalidData(f"{file}, line {self._header_line}: the column {name!r} is named twice")
        self.schema = pa.schema([pa.field(name, pa.string()) for name in self._names])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows. Raises InvalidData naming file and line."""
        if not _has_plain_quotes(self._file):
            for _ in _rows(self._file):
                """Raises for a row whose quotes are wrong. Each other row has quotes that Arrow reads in the same way."""
        convert = arrow_csv.ConvertOptions(
            column_types=self.schema, null_values=list(NULL_TEXTS), strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        blank_rows = self._blank_rows
        parse = arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=not blank_rows)
        read = arrow_csv.ReadOptions(block_size=BLOCK_BYTES, skip_rows=self._header_line - 1 if blank_rows else 0)
        try:
            with arrow_csv.open_csv(self._file, read, parse, convert) as reader:
                yield from reader
        except pa.ArrowInvalid as error:
            raise self._what_is_broken(str(error)) from error

    @property
    def _blank_rows(self) -> bool:
        """Whether a blank line is a row."""
        return len(self._names) == 1

    def locate(self, row: int) -> str:
        """Returns where a row (counted from 0) stands, such as `line 17`."""
        for index, (line, _) in enumerate(_rows(self._file, self._blank_rows), start=-1):
            if index == row:
                return f"line {line}"
        return f"row {row + 1}"

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns the line with the columns' names, which is where `check` refuses them."""
        return f"line {self._header_line}"

    def _what_is_broken(self, reason: str) -> InvalidData:
        """Returns the error of a row that cannot be read, with its line. Arrow counts rows within a block, so the file is read again."""
        for line, row in _rows(self._file):
            if len(row) != len(self._names):
                return InvalidData(f"{self._file}, line {line}: {len(row)} columns where the header has {len(self._names)}")
            if any(not _is_unicode(value) for value in row):
                return InvalidData(f"{self._file}, line {line}: the text is not UTF-8", hint=NOT_UTF8_HINT)
        return InvalidData(f"{self._file}: {reason}")


def _rows(file: Path, blank_rows: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yields the line on which each row starts, and the row. Raises InvalidData for a quoted text that does not end as it must.

    The first row is the header; blank lines behind it are rows if `blank_rows`.
    """
    csv.field_size_limit(_FIELD_LIMIT_BYTES)
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        reader = csv.reader(text, strict=True)
        line, has_header = 1, False
        try:
            for row in reader:
                if row or (blank_rows and has_header):
                    has_header = True
                    yield line, row
                line = reader.line_num + 1
        except csv.Error as error:
            is_open = "unexpected end" in str(error)
            fault = "has a quote that is never closed" if is_open else "has text behind a closing quote"
            raise InvalidData(f"{file}, line {line}: the row that begins here {fault}", hint=_QUOTES_HINT) from error


def _has_plain_quotes(file: Path) -> bool:
    """Returns whether each quote begins a value, ends one, or is doubled within one. Then all readers of CSV agree on the rows."""
    data = np.memmap(file, np.uint8, mode="r")
    count = 0
    for start in range(0, len(data), BLOCK_BYTES):
        quotes = np.flatnonzero(data[start : start + BLOCK_BYTES] == _QUOTE) + start
        opening, closing = quotes[count % 2 :: 2], quotes[1 - count % 2 :: 2]
        before, after = data[opening[opening > 0] - 1], data[closing[closing + 1 < len(data)] + 1]
        if not (np.isin(before, _BESIDE_QUOTES).all() and np.isin(after, _BESIDE_QUOTES).all()):
            return False
        count += len(quotes)
    return count % 2 == 0


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
