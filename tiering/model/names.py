"""The one rule for names, checked at every entry before any path or SQL text is built (DESIGN 10)."""

from __future__ import annotations

import re

from tiering.errors import InvalidName
from tiering.model.tables import TablePath

NAME_LIMIT = 200
CATALOG = "fluss"
"""What the catalog is called where nobody gave it another name."""
SYSTEM_DATABASE = "sys"
_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PLAIN_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def check_length(name: str, kind: str) -> str:
    """`name`, if it is no longer than a name can be, whatever it is written with; raises InvalidName."""
    if len(name) > NAME_LIMIT:
        raise InvalidName(f"the {kind} name {name[:40]!r}... has {len(name)} characters; at most {NAME_LIMIT} are allowed")
    return name


def check_name(name: str, kind: str) -> str:
    """`name`, if it keeps the name rule; raises InvalidName, which names its kind (`database`, `table`, ...) and the reason."""
    check_length(name, kind)
    if not _NAME.fullmatch(name):
        raise InvalidName(f"{name!r} is not a valid {kind} name")
    if name.startswith("__"):
        raise InvalidName(f"the {kind} name {name!r} starts with '__', which is kept for system columns")
    return name


def check_database(name: str) -> str:
    """As check_name; refuses `sys`, which is the virtual database."""
    check_name(name, "database")
    if name.lower() == SYSTEM_DATABASE:
        raise InvalidName(f"the database name {name!r} is reserved for the system tables", hint="Choose another name.")
    return name


def quote_identifier(name: str) -> str:
    """`name` as an identifier of Spark SQL, in back-quotes unless it is a plain word."""
    return name if _PLAIN_IDENTIFIER.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def split_identifier(text: str) -> list[str]:
    """The parts of a dotted SQL identifier, back-quotes taken off; raises InvalidName."""
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise InvalidName(f"{text[:250]!r} is not a table name", hint="Write it as database.table.")
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        position = match.end()
        if position == len(text):
            return parts
        if text[position] != ".":
            raise InvalidName(f"{text[:250]!r} is not a table name", hint="Write it as database.table.")
        position += 1


def parse_table_path(text: str, *, catalog: str = CATALOG, database: str = "") -> TablePath:
    """`db.t`, `catalog.db.t` or either with back-quotes; `t` alone is in `database`, if there is one. Raises InvalidName.

    `catalog`: what the caller's session calls ours; empty = not known, and any name is taken for it.
    """
    parts = split_identifier(text.strip())
    if len(parts) == 1 and database:
        parts = [database, *parts]
    if len(parts) not in (2, 3):
        raise InvalidName(f"{text[:250]!r} is not a table name", hint="Write it as database.table.")
    if len(parts) == 3 and catalog and parts[0].lower() not in (catalog.lower(), CATALOG):
        raise InvalidName(
            f"{text[:250]!r} names the catalog {parts[0][:100]!r}, and Lakeward's tables are in {catalog!r}",
            hint=f"Write it as database.table, or {quote_identifier(catalog)}.database.table.",
        )
    return table_path(*parts[-2:])


def table_path(database_name: str, table_name: str) -> TablePath:
    """A checked path; raises InvalidName."""
    return TablePath(check_database(database_name), check_name(table_name, "table"))
