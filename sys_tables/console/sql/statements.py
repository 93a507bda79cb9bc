"""Checks which statements the SQL page runs: a query, SHOW or DESCRIBE, on tables of `sys` alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sys_tables.offline.parsing import Describe, Query, Show, Statement, first_word, parse
from tiering.errors import StatementFailed
from tiering.model.names import CATALOG, SYSTEM_DATABASE

MAX_CHARACTERS = 8_000
"""Longest statement. The statement is part of the page's address."""
_READS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "SHOW", "DESCRIBE", "DESC"})
_HINTS = {"CALL": "Use the page of actions.", "USE": f"A name without a database is a table of {SYSTEM_DATABASE}."}
_ANSWERED = f"This page runs SELECT, SHOW and DESCRIBE on tables of {SYSTEM_DATABASE}."


def checked(text: str) -> Statement:
    """Returns the parsed statement. Raises StatementFailed for one that the page does not run, which it names."""
    if len(text) > MAX_CHARACTERS:
        raise too_long(text)
    word = first_word(text)
    if word and word not in _READS:
        raise StatementFailed(
            f"{word[:40]} is refused: nothing but rows of {SYSTEM_DATABASE} is read here", hint=_HINTS.get(word, _ANSWERED)
        )
    statement = parse(text)
    match statement:
        case Query(tree):
            _check_tables(tree)
        case Describe(name=name):
            _check_name(name)
        case Show():
            pass
        case _:
            raise StatementFailed("this statement is refused", hint=_ANSWERED)
    return statement


def too_long(text: str) -> StatementFailed:
    """Returns the error for a statement that is too long."""
    reason = f"the statement has {len(text):,} characters; {MAX_CHARACTERS:,} are possible"
    return StatementFailed(reason, hint="Run it with `lakeward sql`.")


def _check_tables(tree: exp.Query) -> None:
    for table in tree.find_all(exp.Table):
        if not all(isinstance(part, exp.Identifier) for part in table.parts):
            continue  # a function: the parser of DuckDB, which lists them, refuses those that read anything
        _check_name([part.name for part in table.parts])


def _check_name(parts: Sequence[str]) -> None:
    match [part.lower() for part in parts]:
        case [_]:
            return  # a table of `sys`, which the page uses, or the name of a WITH
        case [database, _] if database == SYSTEM_DATABASE:
            return
        case [catalog, database, _] if (catalog, database) == (CATALOG, SYSTEM_DATABASE):
            return
    shown = ".".join(parts)[:200]
    raise StatementFailed(
        f"{shown} is refused: only tables of {SYSTEM_DATABASE} are read here",
        hint=f"Write {SYSTEM_DATABASE}.name, such as {SYSTEM_DATABASE}.lake_tiering_status. SHOW TABLES lists them.",
    )
