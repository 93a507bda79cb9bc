"""Worlds that close what they opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.coordinator_world import World


@pytest.fixture
def world() -> Iterator[World]:
    """One lake-enabled table, just discovered."""
    made = World()
    yield made
    made.coordinator.close()
