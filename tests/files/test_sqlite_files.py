"""Reading SQLite files of others."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from tiering.errors import SetupError
from tiering.files.sqlite_files import harden, read_only_url, sqlite_url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """In WAL mode, at rest, in a folder whose name URLs would take for something else."""
    folder = tmp_path / "50 % ?#ä"
    folder.mkdir()
    database = folder / "a.db"
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    connection.close()
    return database


def read(file: Path) -> list[int]:
    engine = sa.create_engine(read_only_url(file))
    try:
        with engine.connect() as connection:
            return list(connection.execute(sa.text("SELECT a FROM t")).scalars())
    finally:
        engine.dispose()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_read_and_left_as_it_was(file: Path) -> None:
    before = file.read_bytes()
    assert read(file) == [1]
    assert file.read_bytes() == before
    assert set(names(file.parent)) <= {"a.db", "a.db-shm", "a.db-wal"}, "a reader of WAL mode leaves SQLite's own two"
    assert not file.with_name("a.db-wal").exists() or file.with_name("a.db-wal").stat().st_size == 0


def test_what_was_committed_a_moment_ago_beside_it_is_seen(file: Path) -> None:
    writer = sqlite3.connect(file)
    writer.execute("INSERT INTO t VALUES (2)")
    writer.commit()
    assert read(file) == [1, 2]
    writer.close()


def test_where_nothing_can_be_written_no_helper_file_is_needed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "immutable" in read_only_url(file)
    assert read(file) == [1]
    assert names(file.parent) == ["a.db"]


def test_a_log_with_content_is_never_passed_by(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = sqlite3.connect(file)
    writer.execute("INSERT INTO t VALUES (2)")
    writer.commit()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert read(file) == [1, 2]
    writer.close()


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(sa.exc.OperationalError):
        read(tmp_path / "a.db")
    assert names(tmp_path) == []


RUNS = {
    "a view": "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c",
    "a trigger": "CREATE TRIGGER x AFTER UPDATE ON t BEGIN DELETE FROM t; END",
    "a virtual table": "CREATE VIRTUAL TABLE w USING fts5(a)",
    "a view for a table": "DROP TABLE t; CREATE VIEW t AS SELECT 1 AS a",
}


@pytest.mark.parametrize("statement", RUNS)
def test_a_database_that_would_run_sql_of_its_own_is_refused(file: Path, statement: str) -> None:
    connection = sqlite3.connect(file)
    connection.executescript(RUNS[statement])
    connection.close()
    engine = sa.create_engine(read_only_url(file))
    with pytest.raises(SetupError, match="which Lakeward's databases never have"):
        harden(engine)


def test_functions_in_a_schema_are_not_trusted(file: Path) -> None:
    engine = sa.create_engine(read_only_url(file))
    harden(engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA trusted_schema").scalar() == 0
    engine.dispose()


@pytest.mark.parametrize("name", ["/a/b.db", "/a b/c+d/100%.db", "/ü/?x=1&y=#2.db", "/a@b:c/d;e.db", "file:/a%20b.db"])
def test_urls_are_those_that_sqlalchemy_renders(name: str) -> None:
    query = {"uri": "true", "mode": "ro", "x": "a b&c"}
    assert sqlite_url(name) == sa.URL.create("sqlite", database=name).render_as_string(hide_password=False)
    assert sqlite_url(name, query) == sa.URL.create("sqlite", database=name, query=query).render_as_string(hide_password=False)
    assert sa.make_url(sqlite_url(name, query)).database == name
