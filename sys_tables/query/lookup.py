"""Resolves names as users type them: an exact match, else the only match that differs in case (DESIGN 12).

Errors list the known names, or the nearest of them. Everything here may ask the cluster, so call it in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiering.coordinator.interface import NamesView
from tiering.errors import InvalidArgument, UnknownDatabase, UnknownTable
from tiering.model.names import SYSTEM_DATABASE
from tiering.model.tables import TableInfo, TablePath
from tiering.name_matching import nearest_names

_LISTED = 20
"""Names a hint lists in full; of more, only the nearest."""
_NEAR = 5


def resolve_name(name: str, names: Sequence[str]) -> str | None:
    """Returns the one of `names` that equals `name` in any case; None if none does. Raises InvalidArgument if several do."""
    if name in names:
        return name
    folded = name.lower()
    alike = [candidate for candidate in names if candidate.lower() == folded]
    if len(alike) > 1:
        raise InvalidArgument(f"{name!r} is ambiguous: it could be {' or '.join(sorted(alike))}", hint="Write it as it was created.")
    return alike[0] if alike else None


def near_hint(name: str, names: Sequence[str], kind: str) -> str:
    """A hint that lists the known names, all of them if there are few, else those nearest to `name`."""
    if not names:
        return f"There are no {kind}."
    if len(names) <= _LISTED:
        return f"The {kind} are: {', '.join(sorted(names))}."
    by_folded = {candidate.lower(): candidate for candidate in names}
    near = [by_folded[folded] for folded in nearest_names(name.lower(), by_folded, _NEAR)]
    if not near:
        return f"There are {len(names)} {kind}, none with a name like that."
    return f"Of {len(names)} {kind}, the nearest names are: {', '.join(near)}."


def resolve_database(view: NamesView, name: str) -> str:
    """Returns the stored name of a real database. Raises UnknownDatabase."""
    names = view.databases()
    if (stored_name := resolve_name(name, names)) is None:
        raise UnknownDatabase(f"there is no database {name!r}", hint=near_hint(name, [*names, SYSTEM_DATABASE], "databases"))
    return stored_name


def resolve_table(view: NamesView, path: TablePath) -> TableInfo:
    """A data table. Raises UnknownDatabase, UnknownTable."""
    database_name = resolve_database(view, path.database_name)
    tables = {table.path.table_name: table for table in view.tables(database_name)}
    stored_name = resolve_name(path.table_name, list(tables))
    if stored_name is None:
        hint = near_hint(path.table_name, list(tables), f"tables of {database_name}")
        raise UnknownTable(f"there is no table {database_name}.{path.table_name}", hint=hint)
    return tables[stored_name]
