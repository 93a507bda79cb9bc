"""Reads files in the format of sqllogictest, and runs their records on an engine.

The format is https://sqlite.org/sqllogictest: `statement ok`, `statement error PATTERN`, `query TYPES SORT`, `skipif ENGINE`,
`onlyif ENGINE`, `#` comments, and an empty line after each record. As in DuckDB's files, a row is a line, and tabs separate its values.
The types are T, I (whole numbers) and R (other numbers). PyPI has no package that reads the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from support.slt.answers import cells
from tiering.cli.sql.engine import Engine, Result
from tiering.errors import StatementFailed

RESULT = "----"


@dataclass(frozen=True)
class Record:
    """A statement and what it must do. `types` None: no rows are compared. `error` is a pattern of the message; None = it must succeed."""

    line: int
    sql: str
    engines: frozenset[str]
    types: str | None = None
    sort: str = "nosort"
    rows: tuple[str, ...] = ()
    error: str | None = None


def read_records(file: Path, engines: Sequence[str]) -> list[Record]:
    """Returns the records of a file for engines with these names. Raises ValueError for a line that is not in the format."""
    lines = file.read_text(encoding="utf-8").splitlines()
    blocks: list[list[tuple[int, str]]] = [[]]
    for number, line in enumerate(lines, 1):
        if not line.strip():
            blocks.append([])
        elif not line.startswith("#"):
            blocks[-1].append((number, line))
    return [_record(block, frozenset(engines)) for block in blocks if block]


def _record(block: Sequence[tuple[int, str]], engines: frozenset[str]) -> Record:
    (line, first), *remaining = block
    words = first.split()
    match words:
        case ["skipif", engine]:
            return _record(remaining, engines - {engine})
        case ["onlyif", engine]:
            return _record(remaining, engines & {engine})
        case ["statement", "ok"]:
            return Record(line, _text(remaining), engines)
        case ["statement", "error", *_]:
            return Record(line, _text(remaining), engines, error=first.split(maxsplit=2)[2] if len(words) > 2 else "")
        case ["query", types, *sort] if re.fullmatch("[TIR]+", types) and sort in ([], ["nosort"], ["rowsort"]):
            texts = [text for _, text in remaining]
            end = texts.index(RESULT) if RESULT in texts else len(texts)
            return Record(line, _text(remaining[:end]), engines, types, *sort, rows=tuple(texts[end + 1 :]))
    raise ValueError(f"line {line}: {first!r} begins no record")


def _text(lines: Sequence[tuple[int, str]]) -> str:
    return "\n".join(text for _, text in lines)


def faults(record: Record, engine: Engine) -> Iterator[str]:
    """Yields what an engine does otherwise than the record says."""
    try:
        result = engine.execute(record.sql)
    except StatementFailed as error:
        if record.error is None or not re.search(record.error, error.message):
            yield f"failed: {error.message}"
        return
    if record.error is not None:
        yield f"did not fail with {record.error!r}"
    elif record.types is not None:
        yield from _wrong_rows(record, record.types, result)


def _wrong_rows(record: Record, types: str, result: Result) -> Iterator[str]:
    if len(result.columns) != len(types):
        yield f"has {len(result.columns)} columns and not {len(types)}"
        return
    for letter, name, values in zip(types, result.columns, zip(*result.rows, strict=True), strict=False):
        if any(not IS_OF[letter](value) for value in values if value is not None):
            yield f"has values in {name!r} that are not of the type {letter}"
    arranged: Callable[[Sequence[str]], list[str]] = sorted if record.sort == "rowsort" else list
    rows = arranged(["\t".join(row) for row in cells(result.rows)])
    if rows != arranged(record.rows):
        yield "\n".join(["has the rows", *rows])


IS_OF: dict[str, Callable[[Any], bool]] = {
    "T": lambda value: isinstance(value, bool) or not isinstance(value, int | float | Decimal),
    "I": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "R": lambda value: isinstance(value, float | Decimal),
}
"""Whether a value is of a type, by the letter of the type."""
