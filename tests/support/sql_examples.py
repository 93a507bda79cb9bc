"""The numbered examples of `sql_examples/`: what a file says, and whether a result is what it expects.

    -- Title: Tables whose tiering fails
    -- Answers: which tables fail, and what to do about it.
    --   A line that begins so goes on.

    SELECT table_name, error_class FROM fluss.sys.lake_tiering_status WHERE status = 'Failed' ORDER BY table_name;

    -- Expected:
    -- | table_name | error_class |
    -- | --- | --- |
    -- | weather | SchemaDrift |

The format in full is in sql_examples/README.md. No I/O but `load_examples`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from tiering.errors import InvalidData

ANY = "*"
MORE = "..."
_FILE_NAME = re.compile(r"(?P<number>[0-9]{3})_[a-z0-9_]+\.sql")
_TITLE = "-- Title: "
_ANSWERS = "-- Answers: "
_GOES_ON = "--   "
_EXPECTED = "-- Expected:"
_EXPECTED_ERROR = "-- Expected error:"
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class ExpectedRows:
    """Columns and cells as text, in order. `more`: further rows may follow."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: bool


@dataclass(frozen=True)
class ExpectedError:
    """Texts that the message of the error contains."""

    contains: tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """One file."""

    number: int
    file_name: str
    title: str
    answers: str
    sql: str
    expected: ExpectedRows | ExpectedError


def load_examples(folder: Path) -> tuple[Example, ...]:
    """All examples of a folder, by number. Raises InvalidData for a bad file and for a number used twice."""
    examples = [parse_example(path.name, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.sql"))]
    for earlier, later in pairwise(examples):
        if earlier.number == later.number:
            raise InvalidData(f"{earlier.file_name} and {later.file_name} have the same number")
    return tuple(examples)


def parse_example(file_name: str, text: str) -> Example:
    """Raises InvalidData, which names the file and what is wrong with it."""
    named = _FILE_NAME.fullmatch(file_name)
    if named is None:
        raise InvalidData(f"{file_name}: the name of an example is three digits, '_', words in lower case and '.sql'")
    paragraphs = [paragraph.strip("\n").split("\n") for paragraph in re.split(r"\n[ \t]*\n", text.strip())]
    if len(paragraphs) < 3:
        raise InvalidData(f"{file_name}: an example is a header, a statement and what is expected, with empty lines between")
    header, *statement, expected = paragraphs
    title, answers = _header(file_name, header)
    sql = "\n\n".join("\n".join(lines) for lines in statement)
    if not sql.endswith(";") or sql.count(";") != 1 or "--" in sql:
        raise InvalidData(f"{file_name}: between header and expectation stands one statement, ended by ';', without comments")
    return Example(int(named["number"]), file_name, title, answers, sql[:-1], _expectation(file_name, expected))


def differences(expected: ExpectedRows, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Returns the differences from the expected rows, one line each. Rows are compared in order."""
    if tuple(columns) != expected.columns:
        return [f"the columns are {', '.join(columns)}, not {', '.join(expected.columns)}"]
    actual_rows = [tuple(cell_text(value) for value in row) for row in rows]
    problems = []
    if len(actual_rows) < len(expected.rows) or (len(actual_rows) > len(expected.rows) and not expected.more):
        problems.append(f"there are {len(actual_rows)} rows, not {len(expected.rows)}{' or more' if expected.more else ''}")
    for number, (row, wanted) in enumerate(zip(actual_rows, expected.rows, strict=False), start=1):
        if any(cell not in (ANY, text) for cell, text in zip(wanted, row, strict=True)):
            problems.append(f"row {number} is {' | '.join(row)}, not {' | '.join(wanted)}")
    return problems


def cell_text(value: object) -> str:
    """A value as Spark casts it to STRING in a UTC session; NULL for None."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        in_utc = value.astimezone(UTC) if value.tzinfo else value
        return in_utc.replace(tzinfo=None).isoformat(sep=" ").rstrip("0" if value.microsecond else "")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{cell_text(key)} -> {cell_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):  # also a Row
        return "{" + ", ".join(cell_text(item) for item in value) + "}"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return "[" + ", ".join(cell_text(item) for item in value) + "]"
    return str(value)


def _header(file_name: str, lines: Sequence[str]) -> tuple[str, str]:
    if len(lines) < 2 or not lines[0].startswith(_TITLE) or not lines[1].startswith(_ANSWERS):
        raise InvalidData(f"{file_name}: an example begins with the lines '{_TITLE}...' and '{_ANSWERS}...'")
    if any(not line.startswith(_GOES_ON) for line in lines[2:]):
        raise InvalidData(f"{file_name}: a further line of the header begins with {_GOES_ON!r}")
    answers = [lines[1].removeprefix(_ANSWERS), *(line.removeprefix(_GOES_ON) for line in lines[2:])]
    return lines[0].removeprefix(_TITLE).strip(), " ".join(line.strip() for line in answers)


def _expectation(file_name: str, lines: Sequence[str]) -> ExpectedRows | ExpectedError:
    kind, body = lines[0].rstrip(), [line.removeprefix("--").strip() for line in lines[1:]]
    if not all(line.startswith("--") for line in lines) or kind not in (_EXPECTED, _EXPECTED_ERROR) or not body:
        raise InvalidData(f"{file_name}: an example ends with comment lines after '{_EXPECTED}' or '{_EXPECTED_ERROR}'")
    if kind == _EXPECTED_ERROR:
        return ExpectedError(tuple(body))
    header, *rows = list(_cells(file_name, body))
    if not rows or any(cell.strip("-") for cell in rows[0]):
        raise InvalidData(f"{file_name}: the expected columns are followed by a line of '---'")
    more = rows[-1] == (MORE,)
    expected = tuple(rows[1:-1] if more else rows[1:])
    if any(len(row) != len(header) for row in (rows[0], *expected)):
        raise InvalidData(f"{file_name}: an expected row has another number of cells than there are columns")
    return ExpectedRows(header, expected, more)


def _cells(file_name: str, lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for line in lines:
        if len(line) < 2 or not (line.startswith("|") and line.endswith("|")):
            raise InvalidData(f"{file_name}: {line!r} is not a row between '|'")
        yield tuple(cell.strip().replace("\\|", "|") for cell in _CELL.split(line[1:-1]))
