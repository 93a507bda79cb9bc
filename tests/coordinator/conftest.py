"""Worlds and stores that close what they opened."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
import sqlalchemy as sa

from support.clusters.assigner import Assigner
from support.running.postgresql import DATABASE, PASSWORD, USER, running_postgresql
from support.worlds.coordinator_world import World
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Store

Reopen = Callable[[Store], Store]


@pytest.fixture
def world() -> Iterator[World]:
    """One lake-enabled table, just discovered."""
    new_world = World()
    yield new_world
    new_world.coordinator.close()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a database in a real PostgreSQL, shared by the tests of this folder.

    Its folder is none of pytest's, whose next session closes them to other users.
    """
    with tempfile.TemporaryDirectory(prefix="lakeward-postgresql-") as folder, running_postgresql(Path(folder) / "server") as port:
        yield f"postgresql+psycopg://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/{DATABASE}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    return empty_database(request, tmp_path)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Reopen]]:
    """A store, and how to open it again after its process ended."""
    if request.param == "memory":
        yield MemoryStore(), lambda store: store
        return
    url = empty_database(request, tmp_path)
    stores = [SqlStore(url)]

    def again(_: Store) -> Store:
        stores.append(SqlStore(url))
        return stores[-1]

    yield stores[0], again
    for store in stores:
        store.close()


def empty_database(request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a file, or of a schema of its own in PostgreSQL: as the fixture's parameter says."""
    if request.param == "sqlite":
        return sqlite_url(folder / "coordinator.db")
    server, schema = request.getfixturevalue("postgresql"), f"store_{uuid4().hex}"
    engine = sa.create_engine(server)
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE SCHEMA {schema}"))
    engine.dispose()
    return f"{server}?options=-csearch_path%3D{schema}"


@pytest.fixture
def shared() -> Iterator[World]:
    """One lake-enabled table of a cluster that assigns its tables."""
    new_world = World(assigner=Assigner())
    yield new_world
    new_world.coordinator.close()
