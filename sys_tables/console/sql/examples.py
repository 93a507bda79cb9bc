"""The files of sql_examples/ whose statements the SQL page runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sys_tables.console.help.shipped import shipped_folder
from sys_tables.console.sql.statements import checked
from tiering.errors import StatementFailed

_TITLE = "-- Title: "
_EMPTY_LINE = re.compile(r"\n[ \t]*\n")


@dataclass(frozen=True)
class SqlExample:
    """One file: its title, and its statement without the `;`."""

    title: str
    statement: str


@cache
def examples() -> Sequence[SqlExample]:
    """Returns the examples in the order of their files."""
    return tuple(_read(sorted(shipped_folder("sql_examples").glob("*.sql"))))


def _read(files: Sequence[Path]) -> Iterator[SqlExample]:
    for file in files:
        header, *statement, _ = _EMPTY_LINE.split(file.read_text(encoding="utf-8").strip())
        text = "\n\n".join(statement).strip().removesuffix(";")
        try:
            checked(text)
        except StatementFailed:
            continue
        yield SqlExample(header.splitlines()[0].removeprefix(_TITLE), text)
