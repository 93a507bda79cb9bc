"""Defines databases and tables of a Fluss cluster in the coordinator, for the statements of SQL.

Fluss keeps its own options of a table; the coordinator keeps Lakeward's options and other properties that change after the creation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from tiering.cluster.fluss.table_options import check_option, is_of_fluss
from tiering.cluster.fluss.writing.writer import FlussWriter
from tiering.cluster.writable import TableSpec
from tiering.errors import InvalidArgument
from tiering.model.schema.changes import AddColumn, SchemaChange
from tiering.model.schema.field_ids import all_fields, comment
from tiering.model.tables import TableInfo, TablePath


class FlussDefinitions:
    """Implements `TableDefinitions` with a writer, which it does not close. `set_own_option` keeps an option of a table."""

    def __init__(self, writer: FlussWriter, set_own_option: Callable[[TablePath, str, str | None], TableInfo]) -> None:
        self._writer = writer
        self._set_own_option = set_own_option

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        self._writer.create_database(name, ignore_if_exists)

    def drop_database(self, name: str) -> None:
        self._writer.drop_database(name, cascade=False)

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        self._writer.check_options(spec.properties)
        _check_no_comment(spec.schema)
        return self._writer.create_table(path, spec, ignore_if_exists)

    def drop_table(self, path: TablePath) -> None:
        self._writer.drop_table(path)

    def alter_table(
        self, path: TablePath, set_properties: Mapping[str, str | None], changes: Sequence[SchemaChange] = (), change_id: str | None = None
    ) -> TableInfo:
        """Changes Fluss's options and columns in one request, and then the options that the coordinator keeps.

        Checks all values first. The statement can be repeated after a crash, because adding an existing column changes nothing. So
        `change_id` is not used.
        """
        of_fluss = {name: value for name, value in set_properties.items() if is_of_fluss(name)}
        if of_fluss and changes:
            raise InvalidArgument(
                f"Fluss changes columns and options of {path} in two steps", hint="Use a statement for each.", table_path=path
            )
        for name, value in set_properties.items():
            check_option(name, value)
        _check_no_comment(pa.schema([change.field for change in changes if isinstance(change, AddColumn)]))
        table = self._writer.alter_table(path, of_fluss, changes) if of_fluss or changes else None
        for name, value in set_properties.items():
            if name not in of_fluss:
                table = self._set_own_option(path, name, value)
        return table or self._writer.table(path)

    def add_partitions(self, path: TablePath, names: Sequence[str]) -> None:
        self._writer.create_partitions(path, names)

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        self._writer.drop_partition(path, partition_name)


def _check_no_comment(columns: pa.Schema) -> None:
    """Raises InvalidArgument for a column or a nested field with a comment."""
    for field in all_fields(columns):
        if comment(field) is not None:
            raise InvalidArgument(
                f"the column {field.name!r} has a comment, which Fluss's client for Python cannot send",
                hint="Leave comments of columns out, or use Fluss's own client.",
                column=field.name,
            )
