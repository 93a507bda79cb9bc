"""When the coordinator publishes lake tables in a second catalog, and what a failure of that catalog costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import World
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.observing.publishing import FAILURES_OF_A_PASS, Publisher
from tiering.errors import AlreadyExists, Fenced, LakeUnavailable
from tiering.lake.base import LakeView
from tiering.model.tables import TablePath

TABLES = tuple(log_table(number, TablePath("sales", f"t{number}")) for number in range(1, 6))


class ScriptedCatalog:
    """A second catalog that fails with `error` and remembers the requests."""

    name, lake_format = "second", "iceberg"

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.error: Exception | None = None

    def publish(self, view: LakeView, check_lead: Callable[[], None]) -> None:
        self.requests.append(view.path.table_name)
        if self.error is not None:
            raise self.error
        check_lead()

    def sent(self) -> list[str]:
        requests, self.requests = self.requests, []
        return requests


@pytest.fixture
def world() -> Iterator[World]:
    opened = World(TABLES)
    for table in TABLES:
        commit(opened, table)
    yield opened
    opened.coordinator.close()


@pytest.fixture
def catalog() -> ScriptedCatalog:
    return ScriptedCatalog()


@pytest.fixture
def publisher(world: World, catalog: ScriptedCatalog) -> Publisher:
    return Publisher(world.coordinator.table_records, Lakes(world.cluster, cast(Any, lambda _: world.lake)), catalog)


def commit(world: World, table: Any) -> None:
    """A round of the table lands in the lake."""
    world.append(table=table)
    world.due()
    tierer = world.tierer()
    while (assignment := tierer.get()).table_id != table.table_id:
        tierer.fail(assignment)
    tierer.run(assignment)


def test_a_table_is_compared_again_after_a_commit_or_a_minute(world: World, catalog: ScriptedCatalog, publisher: Publisher) -> None:
    names = {table.path.table_name for table in TABLES}
    publisher.publish()
    assert set(catalog.sent()) == names
    publisher.publish()
    assert catalog.sent() == []
    world.clock.advance(60)
    publisher.publish()
    assert set(catalog.sent()) == names


def test_a_catalog_that_does_not_answer_ends_the_pass_and_is_asked_ever_less(
    world: World, catalog: ScriptedCatalog, publisher: Publisher
) -> None:
    catalog.error = LakeUnavailable("away")
    publisher.publish()
    assert len(catalog.sent()) == FAILURES_OF_A_PASS
    for _ in range(10):
        publisher.publish()
    assert len(catalog.sent()) == len(TABLES) - FAILURES_OF_A_PASS, "each table is tried once until its wait is over"
    world.clock.advance(1)
    for _ in range(10):
        publisher.publish()
    assert len(catalog.sent()) == len(TABLES)
    world.clock.advance(1)
    publisher.publish()
    assert catalog.sent() == [], "the wait doubles"
    catalog.error = None
    world.clock.advance(1)
    publisher.publish()
    assert len(catalog.sent()) == len(TABLES)
    state = publisher.publication(world.record(), world.clock.now())
    assert state is not None
    assert state.error is None


def test_a_table_of_another_origin_does_not_end_the_pass(catalog: ScriptedCatalog, publisher: Publisher) -> None:
    catalog.error = AlreadyExists("another table")
    publisher.publish()
    assert len(catalog.sent()) == len(TABLES)


def test_a_coordinator_that_lost_its_store_changes_nothing(world: World, publisher: Publisher) -> None:
    other = world.another()
    with pytest.raises(Fenced):
        publisher.publish()
    other.close()


def test_a_table_of_another_format_says_why_it_is_not_published(world: World, catalog: ScriptedCatalog, publisher: Publisher) -> None:
    catalog.lake_format = "paimon"
    publisher.publish()
    assert catalog.sent() == []
    state = publisher.publication(world.record(), world.clock.now())
    assert state is not None
    assert state.error == "not published: a catalog of Iceberg tables cannot have a table of the format iceberg"
    assert state.lag_ms is None


def test_without_a_second_catalog_nothing_is_known(world: World) -> None:
    assert world.coordinator.publisher.publication(world.record(), world.clock.now()) is None
    assert not world.coordinator.publisher.is_on
