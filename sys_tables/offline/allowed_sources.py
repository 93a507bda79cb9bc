"""What a statement may take rows from: the tables that it names, and functions that make rows of nothing but their arguments.

DuckDB's own parser says what a statement takes rows from, so that nothing can be spelled past it. The connection is locked besides
(`tiering.library_guards.duckdb_guard`): this is for a clear error, and for functions that open no file but look at memory or at the engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from tiering.errors import StatementFailed

TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
_OTHERS = {"SHOW_REF": "SHOW or DESCRIBE", "TABLE_FUNCTION": "a table function"}


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
            f"rows of {name + '()' if name else _OTHERS[source['type']]} cannot be read offline",
            hint=f"A query reads tables, and {', '.join(f'{one}()' for one in sorted(TABLE_FUNCTIONS))}.",
        )


def _sources(node: Any) -> Iterator[dict[str, Any]]:
    """What rows come from other than tables, at any depth."""
    nodes = [node]
    while nodes:
        one = nodes.pop()
        if isinstance(one, dict):
            if str(one.get("type")) in _OTHERS:  # of a column's type it is an object
                yield one
            nodes.extend(one.values())
        elif isinstance(one, list):
            nodes.extend(one)
