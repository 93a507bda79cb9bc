"""Checks what a statement takes rows from: tables by name, and functions that make rows of nothing but their arguments.

DuckDB's own parser lists the sources of a statement, so that no spelling gets past the check. The connection is locked as well
(`tiering.library_guards.duckdb_guard`); this check gives a clear error, and refuses functions that open no file but show memory or the
engine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import duckdb

from tiering.errors import StatementFailed

TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
_OTHER_SOURCES = {"SHOW_REF": "SHOW or DESCRIBE", "TABLE_FUNCTION": "a table function"}


def check_statement(connection: duckdb.DuckDBPyConnection, sql: str, refused_functions: frozenset[str] = frozenset()) -> None:
    """Raises StatementFailed for a statement, in DuckDB's SQL, that is no query, takes rows from what is not allowed, or names a refused
    function.

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
    for function in _nodes(parsed["statements"], "class", ("FUNCTION", "WINDOW")):
        if (name := str(function.get("function_name") or "").lower()) in refused_functions:
            raise StatementFailed(f"{name}() is refused: it shows or changes more than rows", hint="Leave it out.")
    for source in _nodes(parsed["statements"], "type", _OTHER_SOURCES):
        name = str((source.get("function") or {}).get("function_name") or "").lower()
        if source["type"] == "TABLE_FUNCTION" and name in TABLE_FUNCTIONS:
            continue
        raise StatementFailed(
            f"rows of {name + '()' if name else _OTHER_SOURCES[source['type']]} cannot be read offline",
            hint=f"A query reads tables, and {', '.join(f'{function}()' for function in sorted(TABLE_FUNCTIONS))}.",
        )


def _nodes(node: Any, key: str, values: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yields the nodes of the parse tree whose text under `key` is one of the values, at any depth."""
    nodes = [node]
    while nodes:
        item = nodes.pop()
        if isinstance(item, dict):
            if str(item.get(key)) in values:  # the "type" of a column is an object
                yield item
            nodes.extend(item.values())
        elif isinstance(item, list):
            nodes.extend(item)
