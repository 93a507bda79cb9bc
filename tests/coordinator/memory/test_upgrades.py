"""Upgrades of the state store's tables: from the version before revisions, on both databases, and from newer ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from tiering.coordinator.memory import sql_schema
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Writes
from tiering.errors import SetupError

BEFORE_REVISIONS = Path(__file__).parent / "store_before_revisions.sql"
"""Output of `sqlite3 coordinator.db .dump` for a store of the previous version, with a tiered table in it."""


@pytest.fixture
def engine(store_url: str) -> Iterator[sa.Engine]:
    engine = sql_schema.open_engine(store_url)
    yield engine
    engine.dispose()


def test_the_revisions_make_the_tables_that_are_declared(engine: sa.Engine) -> None:
    sql_schema.prepare(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": sql_schema.VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, sql_schema.owner.metadata) == []
        assert sql_schema.revision(connection) == sql_schema.NEWEST == ScriptDirectory(str(sql_schema._SCRIPTS)).get_current_head()


def test_a_store_of_the_version_before_is_upgraded_in_place(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(BEFORE_REVISIONS.read_text())
        before = {
            name: connection.execute(f"SELECT * FROM {name}").fetchall()
            for name in ("lakeward_tables", "lakeward_rounds", "lakeward_commits")
        }
        [[former_epoch]] = connection.execute("SELECT epoch FROM lakeward_owner").fetchall()
    assert all(before.values())
    store = SqlStore(sqlite_url(file))
    [record] = store.load()
    assert (str(record.path), store.take_over()) == ("sales.orders", former_epoch + 1)
    store.apply(former_epoch + 1, Writes(tables=(record,)))
    assert len(store.rounds()) == len(before["lakeward_rounds"])
    store.close()
    with sqlite3.connect(file) as connection:
        for name in ("lakeward_rounds", "lakeward_commits"):
            assert connection.execute(f"SELECT * FROM {name}").fetchall() == before[name]


def test_an_upgrade_that_died_half_way_is_done_again(engine: sa.Engine) -> None:
    sql_schema.prepare(engine)
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {sql_schema.VERSION_TABLE} SET version_num = '0001'"))  # the table is there, the number is not
    sql_schema.prepare(engine)
    with engine.connect() as connection:
        assert sql_schema.revision(connection) == sql_schema.NEWEST


def test_a_revision_of_a_newer_lakeward_is_left_alone(store_url: str, engine: sa.Engine) -> None:
    """The store stays usable as long as its version says that this Lakeward can work with it."""
    SqlStore(store_url).close()
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {sql_schema.VERSION_TABLE} SET version_num = '9999'"))
    store = SqlStore(store_url)
    assert store.take_over() == 1
    store.close()
    with engine.connect() as connection:
        assert sql_schema.revision(connection) == "9999"


def test_a_newer_version_is_refused_before_anything_is_changed(store_url: str, engine: sa.Engine) -> None:
    SqlStore(store_url).close()
    with engine.begin() as connection:
        connection.execute(sa.update(sql_schema.owner).values(version=sql_schema.VERSION + 1))
        connection.execute(sa.text("DROP TABLE lakeward_leader"))
        connection.execute(sa.text(f"UPDATE {sql_schema.VERSION_TABLE} SET version_num = '0001'"))
    with pytest.raises(SetupError, match=r"the state store has version 2; this Lakeward knows versions up to 1"):
        SqlStore(store_url)
    assert not sa.inspect(engine).has_table("lakeward_leader")
