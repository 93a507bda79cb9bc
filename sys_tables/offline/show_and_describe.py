"""SHOW and DESCRIBE, with Spark's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from sys_tables.offline.answers import Answer
from sys_tables.offline.parsing import Describe, Show
from sys_tables.offline.relations import CATALOG, LAKE_CATALOG, ResolvedTable, lake_table, resolve
from sys_tables.query.data_tables import describe_data_table
from sys_tables.query.lookup import resolve_database
from sys_tables.registry import Registry
from tiering.coordinator.interface import NamesView
from tiering.errors import InvalidArgument, StatementFailed
from tiering.lake.base import Lake
from tiering.model.declare import comment_of
from tiering.model.names import SYSTEM_DATABASE, quote_identifier
from tiering.model.sql_types import spark_type
from tiering.name_matching import NamePatterns, with_text_between


def show(statement: Show, view: NamesView, registry: Registry) -> Answer:
    """The names of a SHOW. Raises UnknownDatabase, InvalidArgument, StatementFailed."""
    inside = statement.inside[1:] if statement.inside and statement.inside[0].lower() == CATALOG else statement.inside
    if inside and inside[0].lower() == LAKE_CATALOG and inside[0] not in view.databases():
        raise StatementFailed(
            "what the lake's own catalog holds is not listed offline", hint="SHOW TABLES IN fluss.db; sys.tables says what is tiered."
        )
    match statement.kind, inside:
        case "NAMESPACES", ():
            return _rows(("namespace",), ([name] for name in _matching([*view.databases(), SYSTEM_DATABASE], statement.pattern)))
        case "TABLES", (database,):
            return _tables(database, statement.pattern, view, registry)
        case "PROCEDURES", () | (_,):
            names = [procedure.name for procedure in registry.procedures] if not inside or inside[0].lower() == SYSTEM_DATABASE else []
            columns = ("catalog", "namespace", "schema", "procedure_name")
            return _rows(columns, ([CATALOG, [SYSTEM_DATABASE], SYSTEM_DATABASE, name] for name in _matching(names, statement.pattern)))
        case "TABLES", ():
            tables = ((name, table.path.table_name) for name in view.databases() for table in view.tables(name))
            listed = [pair for pair in sorted(tables) if _matching([pair[1]], statement.pattern)]
            return _rows(("namespace", "tableName", "isTemporary"), ([database, name, False] for database, name in listed))
    raise InvalidArgument(f"{'.'.join(statement.inside)} has no {statement.kind.lower()}", hint="SHOW NAMESPACES; SHOW TABLES IN db")


def used_database(name: Sequence[str], view: NamesView) -> str:
    """Returns the stored name of the database of a USE; none for the catalog alone. Raises UnknownDatabase, StatementFailed."""
    match [*name]:
        case [catalog] if catalog.lower() == CATALOG and catalog not in view.databases():
            return ""
        case [database] | [_, database] if len(name) == 1 or name[0].lower() == CATALOG:
            return SYSTEM_DATABASE if database.lower() == SYSTEM_DATABASE else resolve_database(view, database)
    raise StatementFailed(f"{'.'.join(name)} cannot be used offline", hint="USE db, USE sys, or USE fluss.")


def _tables(database: str, pattern: str | None, view: NamesView, registry: Registry) -> Answer:
    if database.lower() == SYSTEM_DATABASE:
        namespace, names = SYSTEM_DATABASE, [table.name for table in registry.tables]
    else:
        namespace = resolve_database(view, database)
        names = [table.path.table_name for table in view.tables(namespace)]
    return _rows(("namespace", "tableName", "isTemporary"), ([namespace, name, False] for name in _matching(names, pattern)))


def _matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The matching names, sorted. Spark's patterns: `*` is any text, `|` separates alternatives, in any case."""
    if pattern is None:
        return sorted(names)
    patterns = NamePatterns(with_text_between(alternative.strip().lower().split("*")) for alternative in pattern.split("|"))
    return sorted(name for name in names if patterns.matching(name.lower()))


def describe(statement: Describe, view: NamesView, registry: Registry, open_lake: Callable[[str], Lake], lake_format: str) -> Answer:
    """Columns, and with EXTENDED the properties. Raises UnknownTable, UnknownDatabase, InvalidArgument, LakeUnavailable."""
    table = resolve(statement.name, view, registry)
    schema, properties = _described(table, view, registry, open_lake, lake_format)
    rows: list[Sequence[object]] = [[field.name, catalog_type(field.type), comment_of(field) or None] for field in schema]
    if statement.extended and properties:
        rows += [["", "", ""], ["# Detailed Table Information", "", ""], *([name, value, ""] for name, value in sorted(properties.items()))]
    return _rows(("col_name", "data_type", "comment"), rows)


def _described(
    table: ResolvedTable, view: NamesView, registry: Registry, open_lake: Callable[[str], Lake], lake_format: str
) -> tuple[pa.Schema, dict[str, str]]:
    catalog, database, name = table.name
    if catalog == LAKE_CATALOG:
        return lake_table(view, open_lake, lake_format, table).columns, {}
    if database == SYSTEM_DATABASE:
        return registry.table(name).schema, {"Comment": registry.table(name).comment}
    data_table = describe_data_table(view, table.path)
    return data_table.schema, dict(data_table.properties)


def catalog_type(arrow_type: pa.DataType) -> str:
    """Returns a type as DESCRIBE writes it: `array<struct<name:string>>`."""
    if isinstance(arrow_type, (pa.ListType, pa.LargeListType)):
        return f"array<{catalog_type(arrow_type.value_type)}>"
    if isinstance(arrow_type, pa.MapType):
        return f"map<{catalog_type(arrow_type.key_type)},{catalog_type(arrow_type.item_type)}>"
    if isinstance(arrow_type, pa.StructType):
        return f"struct<{','.join(f'{quote_identifier(field.name)}:{catalog_type(field.type)}' for field in arrow_type)}>"
    return spark_type(arrow_type).lower()


def _rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Answer:
    return Answer(columns, list(rows))
