"""The rule for names. Each entry point checks it before it builds a path or SQL text (DESIGN 10)."""

from __future__ import annotations

import re

from tiering.errors import InvalidName
from tiering.model.tables import TablePath

NAME_LIMIT = 200
CATALOG = "fluss"
"""The name of the catalog if a deployment sets no other one."""
SYSTEM_DATABASE = "sys"
LAKE_SUFFIX = "$lake"
"""Suffix of a table's name that means its lake copy alone. No table has such a name."""
CHANGELOG_SUFFIX = "$changelog"
"""Suffix of a table's name that means the records of its log."""
_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PLAIN_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def check_length(name: str, kind: str) -> str:
    """Returns `name` if it is not longer than `NAME_LIMIT`, whatever its characters are. Raises InvalidName."""
    if len(name) > NAME_LIMIT:
        raise InvalidName(f"the {kind} name {name[:40]!r}... has {len(name)} characters; at most {NAME_LIMIT} are allowed")
    return name


def check_name(name: str, kind: str) -> str:
    """Returns `name` if it follows the name rule. Raises InvalidName, which names `kind` (`database`, `table`, ...) and the reason."""
    check_length(name, kind)
    if not _NAME.fullmatch(name):
        raise InvalidName(f"{name!r} is not a valid {kind} name")
    if name.startswith("__"):
        raise InvalidName(f"the {kind} name {name!r} starts with '__', which is reserved for system columns")
    return name


def check_database(name: str) -> str:
    """Returns `name` if `check_name` accepts it and it is not `sys`, which is the virtual database. Raises InvalidName."""
    check_name(name, "database")
    if name.lower() == SYSTEM_DATABASE:
        raise InvalidName(f"the database name {name!r} is reserved for the system tables", hint="Choose another name.")
    return name


def quote_identifier(name: str) -> str:
    """Returns `name` as an identifier of Spark SQL. It is in backquotes unless it is a plain word."""
    return name if _PLAIN_IDENTIFIER.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def sql_name(path: TablePath, suffix: str = "") -> str:
    """Returns the full name of a table in Spark SQL, or of what LAKE_SUFFIX or CHANGELOG_SUFFIX makes of it."""
    return f"{CATALOG}.{quote_identifier(path.database_name)}.{quote_identifier(path.table_name + suffix)}"


def split_identifier(text: str) -> list[str]:
    """Returns the parts of a dotted SQL identifier without backquotes. Raises InvalidName."""
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise InvalidName(f"{text[:250]!r} is not a table name", hint="Write the name as database.table.")
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        position = match.end()
        if position == len(text):
            return parts
        if text[position] != ".":
            raise InvalidName(f"{text[:250]!r} is not a table name", hint="Write the name as database.table.")
        position += 1


def parse_table_path(text: str, *, catalog: str = CATALOG, database: str = "") -> TablePath:
    """Parses `db.t` or `catalog.db.t`, with or without backquotes. `t` alone is in `database` if that is set. Raises InvalidName.

    `catalog` is the name of Lakeward's catalog in the caller's session. If it is empty, the name is unknown and every name is accepted.
    """
    parts = split_identifier(text.strip())
    if len(parts) == 1 and database:
        parts = [database, *parts]
    if len(parts) not in (2, 3):
        raise InvalidName(f"{text[:250]!r} is not a table name", hint="Write the name as database.table.")
    if len(parts) == 3 and catalog and parts[0].lower() not in (catalog.lower(), CATALOG):
        raise InvalidName(
            f"{text[:250]!r} names the catalog {parts[0][:100]!r}, but Lakeward's tables are in the catalog {catalog!r}",
            hint=f"Write the name as database.table, or {quote_identifier(catalog)}.database.table.",
        )
    return table_path(*parts[-2:])


def table_path(database_name: str, table_name: str) -> TablePath:
    """Returns the path of two checked names. Raises InvalidName."""
    return TablePath(check_database(database_name), check_name(table_name, "table"))
