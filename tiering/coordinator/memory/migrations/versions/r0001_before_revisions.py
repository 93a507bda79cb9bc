"""Creates the tables from before there were revisions, or completes those that an even older version created."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import CreateColumn

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_metadata = sa.MetaData()

sa.Table(
    "lakeward_owner",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("writes", sa.BigInteger, nullable=False),
)
sa.Table(
    "lakeward_tables",
    _metadata,
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("path", sa.String(401), nullable=False, index=True),
    sa.Column("state", sa.String(16)),
    sa.Column("body", sa.JSON, nullable=False),
)


def _path_columns() -> tuple[sa.Column[str], sa.Column[str]]:
    return sa.Column("database_name", sa.String(200)), sa.Column("table_name", sa.String(200))


def _indexes(name: str, time: str, *fields: str) -> tuple[sa.Index, ...]:
    by_path = sa.Index(f"{name}_by_path", "database_name", "table_name", time)
    return by_path, *(sa.Index(f"{name}_by_{field}", field, time) for field in ("table_name", *fields))


def _history(name: str) -> sa.Table:
    return sa.Table(
        name,
        _metadata,
        sa.Column("round_id", sa.String(64), primary_key=True),
        sa.Column("table_id", sa.BigInteger, nullable=False, index=True),
        sa.Column("tiering_epoch", sa.BigInteger, nullable=False),
        sa.Column("made_us", sa.BigInteger, nullable=False, index=True),
        sa.Column("closed", sa.Boolean, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        *_path_columns(),
        sa.Column("state", sa.String(16)),
        *_indexes(name, "made_us", "state"),
    )


_history("lakeward_rounds")
_history("lakeward_commits")
sa.Table(
    "lakeward_errors",
    _metadata,
    sa.Column("error_key", sa.String(400), primary_key=True),
    *_path_columns(),
    sa.Column("round_id", sa.String(64), nullable=False),
    sa.Column("seen_us", sa.BigInteger, nullable=False, index=True),
    sa.Column("closed", sa.Boolean, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    *_indexes("lakeward_errors", "seen_us"),
)
sa.Table(
    "lakeward_events",
    _metadata,
    sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("body", sa.JSON, nullable=False),
    *_path_columns(),
    sa.Column("occurred_us", sa.BigInteger, index=True),
    sa.Column("round_id", sa.String(64), index=True),
    sa.Column("level", sa.String(16)),
    sa.Column("event_type", sa.String(64)),
    sa.Column("principal", sa.Text),
    *_indexes("lakeward_events", "occurred_us", "level", "event_type", "principal"),
    sqlite_autoincrement=True,
)
sa.Table(
    "lakeward_validations",
    _metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("body", sa.JSON, nullable=False),
    sqlite_autoincrement=True,
)
sa.Table(
    "lakeward_operations",
    _metadata,
    sa.Column("idempotency_key", sa.String(256), primary_key=True),
    sa.Column("started_us", sa.BigInteger, nullable=False, index=True),
    sa.Column("body", sa.JSON, nullable=False),
)


def upgrade() -> None:
    connection = op.get_bind()
    _metadata.create_all(connection)
    inspector = sa.inspect(connection)
    for table in _metadata.sorted_tables:
        present = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in present:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {definition}"))
        for index in table.indexes:
            index.create(connection, checkfirst=True)
