"""The plain Spark source: no process renews its reads, so each is kept for the option `keepFor` from its planning on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fresh.read_service import reads_at_uri
from support.lake_kinds.kinds import ICEBERG_CLEAN
from support.upkeep.aged_world import AgedWorld
from support.upkeep.long_scans import HOUR, STEP, live_for, long_world, table_to_read
from tiering.model.reading.open_reads import UNRENEWED_TTL
from tiering.model.tables import TableInfo
from tiering.union_read.spark_source import ReadPartition, UnionReader, read_options
from tiering.union_read.spark_tasks import ReadFailed


@pytest.fixture
def world(tmp_path: Path) -> Iterator[AgedWorld]:
    with long_world(tmp_path, ICEBERG_CLEAN) as long:
        yield long


@pytest.fixture(params=[False, True], ids=["log", "primary key"])
def table(request: pytest.FixtureRequest, world: AgedWorld) -> TableInfo:
    return table_to_read(world, has_primary_key=request.param)


@pytest.fixture
def options(world: AgedWorld, table: TableInfo) -> Iterator[dict[str, str]]:
    with reads_at_uri(world) as uri:
        yield {"table": str(table.path), "uri": uri}


def reader(options: dict[str, str]) -> UnionReader:
    return UnionReader(read_options(options), ["id", "text"])


def rows_of(options: dict[str, str], partitions: list[ReadPartition]) -> list[tuple[int, str]]:
    """The rows, read by another object than the one that planned, as executors do."""
    batches = [batch for partition in partitions for batch in reader(options).read(partition)]
    return sorted((row["id"], row["text"]) for batch in batches for row in batch.to_pylist())


def test_a_scan_of_an_hour_has_the_rows_of_its_planning(world: AgedWorld, table: TableInfo, options: dict[str, str]) -> None:
    partitions = reader(options).partitions()
    expected = rows_of(options, partitions)
    assert [read.expires_at - read.opened_at for read in world.coordinator.reads.open_reads.all()] == [UNRENEWED_TTL]

    live_for(world, table, HOUR - 2 * STEP, 2)

    assert rows_of(options, partitions) == expected


def test_a_scan_that_takes_longer_than_its_read_is_kept_is_an_error(world: AgedWorld, table: TableInfo, options: dict[str, str]) -> None:
    short, long = options | {"keepFor": "5 min"}, options | {"keepFor": "90 min"}
    partitions = reader(long).partitions()
    expected = rows_of(long, partitions)
    live_for(world, table, HOUR, 2)
    assert rows_of(long, partitions) == expected

    partitions = reader(short).partitions()
    live_for(world, table, HOUR, 50)
    with pytest.raises(ReadFailed, match=r"^\[(LogTruncated|LakeUnavailable)\]"):
        rows_of(short, partitions)


@pytest.mark.parametrize(
    ("keep_for", "message"),
    [("soon", "'soon' is not a valid keepFor"), ("0 s", "the option 'keepFor' is 0"), ("25 h", "cannot be kept open for 25 h")],
)
def test_a_keep_for_that_cannot_be_kept_is_an_error(world: AgedWorld, keep_for: str, message: str) -> None:
    table = world.table("plain")
    with reads_at_uri(world) as uri, pytest.raises(Exception, match=message):
        reader({"table": str(table.path), "uri": uri, "keepFor": keep_for}).partitions()
