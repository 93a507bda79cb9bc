"""Worlds and stores that close what they opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.clusters.assigner import Assigner
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


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Reopen]]:
    """A store, and how to open it again after its process ended."""
    if request.param == "memory":
        yield MemoryStore(), lambda store: store
        return
    stores = [SqlStore(sqlite_url(tmp_path / "coordinator.db"))]

    def again(_: Store) -> Store:
        stores.append(SqlStore(sqlite_url(tmp_path / "coordinator.db")))
        return stores[-1]

    yield stores[0], again
    for store in stores:
        store.close()


@pytest.fixture
def shared() -> Iterator[World]:
    """One lake-enabled table of a cluster that assigns its tables."""
    new_world = World(assigner=Assigner())
    yield new_world
    new_world.coordinator.close()
