"""Upgrades metadata of an older format to the present one, in one transaction.

Format 1 has no partitions and never adds columns; format 2 has no primary keys; format 3 has no refused records; format 4 has no SHA-256 of
writes. The caller creates new tables.
"""

from __future__ import annotations

import sqlalchemy as sa

from tiering.library_guards.arrow_ipc import read_schema


def upgrade(connection: sa.Connection, schema: sa.MetaData, version: int) -> None:
    """Upgrades the metadata from format `version` to `schema`; segment files stay unchanged."""
    if version < 5:
        connection.execute(sa.text("ALTER TABLE appends ADD COLUMN sha256 TEXT"))
    if version < 3:
        connection.execute(sa.text("ALTER TABLE tables ADD COLUMN primary_key JSON NOT NULL DEFAULT '[]'"))
    if version < 2:
        _add_partitions(connection, schema)


def _add_partitions(connection: sa.Connection, schema: sa.MetaData) -> None:
    """Rewrites `tables`, `buckets` and `segments` of format 1."""
    tables = schema.tables["tables"]
    for statement in (
        "ALTER TABLE tables ADD COLUMN partition_keys JSON NOT NULL DEFAULT '[]'",
        "ALTER TABLE tables ADD COLUMN created_columns INTEGER NOT NULL DEFAULT 0",
    ):
        connection.execute(sa.text(statement))
    for table_id, serialized in connection.execute(sa.select(tables.c.table_id, tables.c.schema)).all():
        columns = len(read_schema(serialized))
        connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(created_columns=columns))
    _rebuild(connection, schema.tables["buckets"], {"partition_id": "0"})
    columns_of_table = "(SELECT created_columns FROM tables WHERE tables.table_id = segments_v1.table_id)"
    _rebuild(connection, schema.tables["segments"], {"partition_id": "0", "columns": columns_of_table})


def _rebuild(connection: sa.Connection, table: sa.Table, added: dict[str, str]) -> None:
    """Copies a table into one with another primary key, because SQLite cannot change it in place. `added` has the SQL for columns that
    format 1 lacks.
    """
    old = f"{table.name}_v1"
    connection.execute(sa.text(f"ALTER TABLE {table.name} RENAME TO {old}"))
    table.create(connection)
    names = [column.name for column in table.columns]
    values = ", ".join(added.get(name, name) for name in names)
    connection.execute(sa.text(f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM {old}"))
    connection.execute(sa.text(f"DROP TABLE {old}"))
