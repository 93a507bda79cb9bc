"""Full collections at chosen moments alone, and everything as before afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tiering.coordinator.server.background import RareCollections


class Cycle:
    """An object that reference counts alone do not free."""

    def __init__(self) -> None:
        self.itself = self


def cycle() -> weakref.ref[Cycle]:
    return weakref.ref(Cycle())


@pytest.fixture
def rare() -> Iterator[RareCollections]:
    collections = RareCollections()
    yield collections
    collections.end()


def test_nothing_is_changed_before_it_begins(rare: RareCollections) -> None:
    before = (gc.get_freeze_count(), gc.get_threshold())
    rare.collect()
    assert (gc.get_freeze_count(), gc.get_threshold()) == before


def test_what_lives_is_out_of_sight_and_what_is_made_later_is_collected(rare: RareCollections) -> None:
    rare.begin()
    frozen = gc.get_freeze_count()
    later = cycle()
    assert frozen > 0
    assert gc.get_threshold()[2] > 1_000_000
    rare.collect()
    assert later() is None


def test_everything_is_as_before_once_it_ends(rare: RareCollections) -> None:
    thresholds = gc.get_threshold()
    rare.begin()
    rare.begin()
    rare.end()
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, thresholds)


def test_nothing_begins_after_the_end(rare: RareCollections) -> None:
    before = (gc.get_freeze_count(), gc.get_threshold())
    rare.end()
    rare.begin()
    assert (gc.get_freeze_count(), gc.get_threshold()) == before
