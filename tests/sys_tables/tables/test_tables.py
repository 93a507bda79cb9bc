"""`sys.tables`: what is known of each source table, and NULL for what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from support.services.sys_catalog import serving, where
from support.worlds.memory_coordinator import MemoryCoordinator, MemoryView, table_info
from tiering.model.tables import TableInfo

Run = Callable[[Any], None]


class Seen(MemoryCoordinator):
    """A coordinator that has seen places and numbers of partitions, by table id."""

    def __init__(self, infos: Iterable[TableInfo], places: Mapping[int, str], numbers: Mapping[int, int]) -> None:
        super().__init__(infos)
        self._places = places
        self._numbers = numbers

    def view(self) -> MemoryView:
        return replace(super().view(), lake_locations=self._places, partition_numbers=self._numbers)


def test_source_tables_are_shown_with_what_is_unknown_as_null(run: Run) -> None:
    async def scenario() -> None:
        infos = [
            table_info("d.plain", lake_enabled=False, created_at=datetime(2026, 1, 2, tzinfo=UTC)),
            table_info("d.parted", table_id=2, partition_keys=("carrier",), bucket_keys=("flight",)),
            table_info("e.plain", table_id=3),
        ]
        handle = MemoryCoordinator(infos)
        async with serving(handle) as client:
            read = await client.read("tables", filters=(where("database_name", "EQUAL", "d"),))
            assert handle.lookups == [("d", None)], "only the database wanted is asked"
            answer = await client.read("tables", "database_name", filters=(where("table_name", "EQUAL", "plain"),))
        parted, plain = read.to_pylist()
        assert (parted["partitions"], parted["lake_location"], parted["lake_format"]) == (None, None, "iceberg")
        assert (parted["freshness_ms"], parted["bucket_keys"]) == (180_000, ["flight"])
        assert (plain["partitions"], plain["lake_format"], plain["freshness_ms"], plain["lake_enabled"]) == (0, None, None, False)
        assert plain["schema"] == "flight BIGINT NOT NULL, carrier STRING"
        assert plain["created_at"] == datetime(2026, 1, 2, tzinfo=UTC)
        assert answer.column("database_name").to_pylist() == ["d", "e"]

    run(scenario())


def test_partitions_and_location_are_those_that_the_coordinator_saw(run: Run) -> None:
    async def scenario() -> None:
        infos = [
            table_info("d.off", table_id=1, lake_enabled=False),
            table_info("d.parted", table_id=2, partition_keys=("carrier",)),
            table_info("d.plain", table_id=3),
        ]
        places = {number: f"s3://lake/{number}" for number in (1, 2, 3)}
        async with serving(Seen(infos, places, {2: 7})) as client:
            read = await client.read("tables", "partitions", "lake_location")
            answer = await client.read("tables", "lake_location", filters=(where("partitions", "EQUAL", 7),))
        assert read.to_pylist() == [
            {"partitions": 0, "lake_location": None},
            {"partitions": 7, "lake_location": "s3://lake/2"},
            {"partitions": 0, "lake_location": "s3://lake/3"},
        ]
        assert answer.column("lake_location").to_pylist() == ["s3://lake/2"]

    run(scenario())
