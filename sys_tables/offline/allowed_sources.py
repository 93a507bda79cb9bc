"""Checks what a statement takes rows from: tables by name, and functions that make rows of nothing but their arguments.

DuckDB's own parser lists the sources of a statement, so that no spelling gets past the check. The connection is locked as well
(`tiering.library_guards.duckdb_guard`); this check gives a clear error, and refuses functions that open no file but show memory or the
engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from tiering.errors import StatementFailed

TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
_OTHER_SOURCES = {"SHOW_REF": "SHOW or DESCRIBE", "TABLE_FUNCTION": "a table function"}


def check_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raises StatementFailed for a statement, in DuckDB's SQL, that is no query, or takes rows from what is not allowed.

    One that DuckDB cannot parse passes: running it says why.
    """
    [(text,)] = connection.execute("SELECT json_serialize_sql($sql)", {"sql": sql}).fetchall()
    parsed = json.loads(text)
    if parsed.get("error"):
        if parsed.get("error_type") == "parser":
            return
        raise StatementFailed("offline there are queries alone, which read", hint="`lakeward sql` without --engine runs Spark.")
    if len(parsed["statements"]) != 1:
        raise StatementFailed("this is more than one statement")
    for source in _sources(parsed["statements"]):
        name = str((source.get("function") or {}).get("function_name") or "").lower()
        if source["type"] == "TABLE_FUNCTION" and name in TABLE_FUNCTIONS:
            continue
        raise StatementFailed(
            f"rows of {name + '()' if name else _OTHER_SOURCES[source['type']]} cannot be read offline",
            hint=f"A query reads tables, and {', '.join(f'{function}()' for function in sorted(TABLE_FUNCTIONS))}.",
        )


def _sources(node: Any) -> Iterator[dict[str, Any]]:
    """The nodes of the parse tree that rows come from, other than tables, at any depth."""
    nodes = [node]
    while nodes:
        item = nodes.pop()
        if isinstance(item, dict):
            if str(item.get("type")) in _OTHER_SOURCES:  # the "type" of a column is an object
                yield item
            nodes.extend(item.values())
        elif isinstance(item, list):
            nodes.extend(item)
