"""Reads CSV files: a delimiter, double quotes, a header line. All values are read as text in bounded memory; types come from the whole
file.

In every column, unquoted texts such as `NA` are null (`NULL_TEXTS` of `formats.py`, or the texts that the user names). The same text in
quotes is not null. Arrow's reader does not tell whether a value with spaces around it was quoted. So in columns of numbers, times and truth
values, `NA` between spaces is null too.
A blank line is skipped, except in a file of one column: there it is a row with null, as PostgreSQL and Spark write it.

Arrow accepts a quote that is never closed, and text behind a closing quote, as a part of the value, and so reads several rows as one.
Lakeward refuses such files. It does not use DuckDB's reader, which drops all rows behind a quote that is never closed, without an error.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
from pyarrow import csv as arrow_csv

from tiering.errors import InvalidArgument, InvalidData
from tiering.ingest.formats import Reading, renamed
from tiering.ingest.plain_files import NOT_UTF8_HINT, PlainFile
from tiering.ingest.text_types import CSV_TYPES

BLOCK_BYTES = 4 * 1024 * 1024
_FIELD_LIMIT_BYTES = 2**31 - 1
_QUOTES_HINT = "A quoted value ends with a quote before a delimiter or the end of its line; a quote within it is written twice."
_DELIMITERS = ",;\t|"
"""The delimiters that are detected without an option, the most likely first."""
_VALUE = re.compile(r"\s*([+-]?[0-9.,]*[0-9]([eE][+-]?[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}.*)?\s*")
"""Matches texts that are values rather than column names: the empty text, numbers, dates and times."""
_LONGEST_VALUE = 40
_SNIFFED_ROWS = 20
"""Number of rows that are read to detect the delimiter."""


@dataclass(frozen=True)
class _Header:
    """The first line of a file."""

    delimiter: str
    names: Sequence[str]
    line: int
    lines: int
    """Number of lines of the file before its first row."""


class CsvSource:
    """One CSV file as a `Source`. Every column is text."""

    text_types = CSV_TYPES

    def __init__(self, file: PlainFile, reading: Reading, names: Sequence[str] = ()) -> None:
        """`names` are the columns of the table, if they are known. A file without a header line has its columns in this order."""
        self.file, self.name, self._null_texts = file, str(file), reading.null_texts
        self._has_header = reading.has_header is not False
        self._header = _read_header(file, reading.delimiter, len(names))
        self._rows_begin = self._header.lines if self._has_header else 0
        self._names = renamed(self._header.names, reading.rename, str(file)) if self._has_header else self._given_names(names)
        if self._has_header:
            self._check_names(self._names if reading.has_header else names)
        self.schema = pa.schema([pa.field(name, pa.string()) for name in self._names])

    @property
    def delimiters(self) -> set[str]:
        """The delimiter of the file."""
        return {self._header.delimiter}

    def _given_names(self, names: Sequence[str]) -> Sequence[str]:
        if not names:
            hint = "Name them with --schema 'id BIGINT, city STRING', in the order of the file."
            raise InvalidArgument("with --no-header, the names of the columns are not known", hint=hint)
        return names

    def _check_names(self, trusted_names: Sequence[str]) -> None:
        """Raises InvalidData for a name that no column can have, or that looks like a value. `trusted_names` are accepted even then."""
        place = f"{self.file}, line {self._header.line}"
        counts = Counter(self._names)
        for number, name in enumerate(self._names, start=1):
            if not _is_unicode(name):
                raise InvalidData(f"{place}: the text is not UTF-8", hint=NOT_UTF8_HINT)
            if "\0" in name:
                raise InvalidData(f"{place}: the text has NUL characters", hint=NOT_UTF8_HINT)
            if counts[name] > 1 and name:
                raise InvalidData(f"{place}: the column {name!r} is named twice", hint="Give each column of the file a different name.")
            if name in trusted_names or len(name) > _LONGEST_VALUE or not _VALUE.fullmatch(name):
                continue
            if not name:
                raise InvalidData(f"{place}: column {number} has no name", hint="--rename '=NAME' names it, if no other name is missing.")
            no_header = "If the file has no header line, use --no-header and --schema 'id BIGINT, city STRING'."
            hint = f"{no_header} If this line is the header, use --header."
            raise InvalidData(f"{place}: {name!r} looks like a value, not like a column name", hint=hint)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows. Raises InvalidData, which names file and line."""
        if self._has_quotes():
            for _ in self._rows():
                """Reading the row is the check: it raises for wrong quotes. All other rows have quotes that Arrow reads in the same way."""
        convert = arrow_csv.ConvertOptions(
            column_types=self.schema, null_values=list(self._null_texts), strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        parse = arrow_csv.ParseOptions(delimiter=self._header.delimiter, newlines_in_values=True, ignore_empty_lines=not self._blank_rows)
        read = arrow_csv.ReadOptions(block_size=BLOCK_BYTES, skip_rows=self._rows_begin, column_names=list(self._names))
        try:
            with arrow_csv.open_csv(self.file.path, read, parse, convert) as reader:
                yield from reader
        except pa.ArrowInvalid as error:
            if next(self._rows(), None) is None:
                return
            raise self._error_of_broken_row(str(error)) from error

    def _has_quotes(self) -> bool:
        with self.file.path.open("rb") as data:
            return any(b'"' in block for block in iter(lambda: data.read(BLOCK_BYTES), b""))

    @property
    def _blank_rows(self) -> bool:
        """Whether a blank line is a row."""
        return len(self._names) == 1

    def locate(self, row: int) -> str:
        """Returns the place of a row (counted from 0), such as `places.csv, line 17`."""
        for index, (line, _) in enumerate(self._rows()):
            if index == row:
                return f"{self.file}, line {line}"
        return f"{self.file}, row {row + 1}"

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns the line with the column names, because `check` refuses the columns there."""
        return f"{self.file}, line {self._header.line}"

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields the rows after the header, each with its line number. Raises the InvalidData of `_records`."""
        for line, _, row in _records(self.file, self._header.delimiter, self._blank_rows):
            if line > self._rows_begin:
                yield line, row

    def _error_of_broken_row(self, reason: str) -> InvalidData:
        """Returns the error for the first row that cannot be read, with its line.

        Arrow's error counts rows within a block, so this method reads the file again.
        """
        expected = "the header has" if self._has_header else "there should be"
        for line, row in self._rows():
            if row and len(row) != len(self._names):
                wrong = f"{self.file}, line {line}: {len(row)} columns where {expected} {len(self._names)}"
                return InvalidData(wrong, hint=f"The delimiter is {self._header.delimiter!r}; --delimiter names another one.")
            if any(not _is_unicode(value) for value in row):
                return InvalidData(f"{self.file}, line {line}: the text is not UTF-8", hint=NOT_UTF8_HINT)
        return InvalidData(f"{self.file}: {reason}")


def _read_header(file: PlainFile, delimiter: str | None, expected: int) -> _Header:
    """Returns the first line that is not blank.

    If no delimiter is given, the delimiter that splits the first lines into equally many columns is chosen. Among several, the one that
    makes the expected number of columns is chosen, then the one that makes the most columns.
    """
    headers: list[tuple[bool, _Header]] = []
    refusal: InvalidData | None = None
    for candidate in delimiter or _DELIMITERS:
        records = (record for record in _records(file, candidate) if record[2])
        try:
            first = next(records, None)
        except InvalidData as error:
            refusal = refusal or error
            continue
        if first is None:
            raise InvalidData(f"{file} is empty", hint="Its first line must name the columns.")
        line, lines, names = first
        headers.append((_are_even(records, len(names)), _Header(candidate, [name.strip() for name in names], line, lines)))
    if refusal is not None and all(len(header.names) == 1 for _, header in headers):
        raise refusal
    return max(headers, key=lambda header: (header[0], len(header[1].names) == expected, len(header[1].names)))[1]


def _are_even(records: Iterator[tuple[int, int, list[str]]], columns: int) -> bool:
    """Returns whether the next records have this number of columns, and more than one."""
    try:
        return columns > 1 and all(len(row) == columns for _, _, row in islice(records, _SNIFFED_ROWS))
    except InvalidData:
        return False


def _records(file: PlainFile, delimiter: str, blank_rows: bool = False) -> Iterator[tuple[int, int, list[str]]]:
    """Yields each record of a file with the numbers of its first and last line.

    Blank lines are records if `blank_rows`. Raises InvalidData for a quote that is never closed, and for text behind a closing quote.
    """
    csv.field_size_limit(_FIELD_LIMIT_BYTES)
    with file.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        reader = csv.reader(text, strict=True, delimiter=delimiter)
        line = 1
        try:
            for row in reader:
                if row or blank_rows:
                    yield line, reader.line_num, row
                line = reader.line_num + 1
        except csv.Error as error:
            is_open = "unexpected end" in str(error)
            fault = "has a quote that is never closed" if is_open else "has text behind a closing quote"
            raise InvalidData(f"{file}, line {line}: the row that begins here {fault}", hint=_QUOTES_HINT) from error


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
