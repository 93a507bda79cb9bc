"""Worlds and stores that close what they opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.coordinator_world import World
from support.memory_store import MemoryStore
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Store

Reopen = Callable[[Store], Store]


@pytest.fixture
def world() -> Iterator[World]:
    """One lake-enabled table, just discovered."""
    made = World()
    yield made
    made.coordinator.close()


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Reopen]]:
    """A store, and how to open it again after its process ended."""
    if request.param == "memory":
        yield MemoryStore(), lambda store: store
        return
    made = [SqlStore(sqlite_url(tmp_path / "coordinator.db"))]

    def again(_: Store) -> Store:
        made.append(SqlStore(sqlite_url(tmp_path / "coordinator.db")))
        return made[-1]

    yield made[0], again
    for store in made:
        store.close()
