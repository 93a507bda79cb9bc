"""The system tables and procedures, by name.

A `Registry` is a value: services get one, and tests create their own. The default one has the tables of the modules in
`sys_tables/tables`, and the procedures that `tiering/procedures` declares.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import TypeVar

from sys_tables import tables as table_modules
from sys_tables.declare.procedure import Procedure
from sys_tables.declare.system_table import SystemTable
from sys_tables.procedures import declared_procedures
from sys_tables.query.lookup import near_hint
from tiering.errors import UnknownProcedure, UnknownTable
from tiering.model.names import SYSTEM_DATABASE

DefinedT = TypeVar("DefinedT", SystemTable, Procedure)


class Registry:
    """Tables and procedures by name. Names are lower-case here and case-insensitive in SQL."""

    def __init__(self, tables: Iterable[SystemTable] = (), procedures: Iterable[Procedure] = ()) -> None:
        """Raises ValueError for a name that is not lower-case or defined twice."""
        self._tables = _by_name(tables)
        self._procedures = _by_name(procedures)

    @property
    def tables(self) -> tuple[SystemTable, ...]:
        """The tables, sorted by name."""
        return tuple(self._tables.values())

    @property
    def procedures(self) -> tuple[Procedure, ...]:
        """The procedures, sorted by name."""
        return tuple(self._procedures.values())

    def table(self, name: str) -> SystemTable:
        """Returns the table of that name, in any case. Raises UnknownTable, which lists the known names."""
        if (table := self._tables.get(name.lower())) is None:
            raise UnknownTable(
                f"there is no system table {SYSTEM_DATABASE}.{name}", hint=near_hint(name, list(self._tables), "system tables")
            )
        return table

    def procedure(self, name: str) -> Procedure:
        """Returns the procedure of that name, in any case. Raises UnknownProcedure, which lists the known names."""
        if (procedure := self._procedures.get(name.lower())) is None:
            raise UnknownProcedure(
                f"there is no procedure {SYSTEM_DATABASE}.{name}", hint=near_hint(name, list(self._procedures), "procedures")
            )
        return procedure


@cache
def default_registry() -> Registry:
    """Returns all tables and procedures of this version of Lakeward."""
    return Registry(_defined_in(table_modules), declared_procedures())


def _defined_in(package: ModuleType) -> Iterator[SystemTable]:
    for module_info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(module_info.name)
        yield from (value for value in vars(module).values() if isinstance(value, SystemTable))


def _by_name(defined: Iterable[DefinedT]) -> Mapping[str, DefinedT]:
    by_name: dict[str, DefinedT] = {}
    for definition in sorted(defined, key=lambda definition: definition.name):
        if definition.name != definition.name.lower():
            raise ValueError(f"the name {definition.name!r} is not lower-case")
        if definition.name in by_name:
            raise ValueError(f"{definition.name!r} is defined twice")
        by_name[definition.name] = definition
    return by_name
