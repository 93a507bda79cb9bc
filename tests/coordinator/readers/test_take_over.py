"""The needs of open reads outlive the coordinator that opened them, and no restart stops retention and cleaning for long."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from support.fresh.held_logs import TIERED, ids, opened, planned, renewed, retain, starts
from support.worlds.lake_world import LakeWorld
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.memory.store import Writes
from tiering.coordinator.readers.open_reads import OpenReads
from tiering.coordinator.readers.stored_holds import HOLD_AHEAD
from tiering.coordinator.readers.streams import STREAM_TTL, StreamCall, Streams
from tiering.errors import Fenced, LogTruncated, ReadExpired
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.tables import TableInfo
from tiering.union_read.streams.batches import StreamOptions

SECOND = timedelta(seconds=1)


class CountingStore(MemoryStore):
    """Counts the writes of what reads need."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        super().apply(coordinator_epoch, writes)
        self.writes += len(writes.read_holds)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def world(tmp_path: Path, store: CountingStore) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, store)
    yield lake_world
    lake_world.close()


def test_a_coordinator_that_takes_over_keeps_what_open_reads_need(world: LakeWorld, table: TableInfo) -> None:
    ticket = opened(world, table)
    tasks = planned(world, ticket)
    world.restart()

    assert retain(world, table) == TIERED
    ticket = renewed(world, ticket)
    world.clock.advance((READ_TTL + HOLD_AHEAD - SECOND).total_seconds() / 2)
    ticket = renewed(world, ticket)
    world.clock.advance((READ_TTL + HOLD_AHEAD - SECOND).total_seconds() / 2)
    renewed(world, ticket)
    world.storage.maintenance.run()
    assert ids(tasks) == ids(planned(world, ticket)) == list(range(20))


def test_without_stored_holds_the_log_of_an_open_read_is_cut_after_a_restart(
    world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = planned(world, opened(world, table))
    monkeypatch.setattr(OpenReads, "_holds_of", lambda reads, table_id: [])
    world.restart()
    retain(world, table)
    with pytest.raises(LogTruncated):
        ids(tasks)


def test_what_a_dead_reader_needed_is_released_after_a_restart(world: LakeWorld, table: TableInfo) -> None:
    ticket = opened(world, table)
    world.restart()
    assert retain(world, table) == TIERED
    world.clock.advance((READ_TTL + HOLD_AHEAD).total_seconds())
    world.storage.maintenance.run()

    assert min(starts(world, table)) > min(TIERED)
    with pytest.raises(ReadExpired):
        renewed(world, ticket)
    world.coordinator.advance()
    assert world.store.read_holds() == []


def test_restarts_do_not_stop_retention(world: LakeWorld, table: TableInfo) -> None:
    """No restart makes the coordinator wait: it knows from the store what reads need."""
    world.restart()
    assert min(retain(world, table)) > min(TIERED)


def test_restarts_beside_reads_delay_retention_for_a_limited_time(world: LakeWorld, table: TableInfo) -> None:
    """Each process opens a read, and ends before the read expires. Five minutes later the log of a read is cut all the same."""
    lag = []
    for number in range(12):
        opened(world, table)
        world.append(table, 20 + number * 10, 10)
        world.restart()
        lag.append((20 + number * 10) // 2 - min(retain(world, table)))
    assert max(lag[6:]) <= max(lag[:6])
    assert len(world.store.read_holds()) <= 6


def test_many_reads_of_one_lake_snapshot_are_one_write(world: LakeWorld, table: TableInfo, store: CountingStore) -> None:
    for number in range(50):
        ticket = opened(world, table)
        if number % 10 == 0:
            world.append(table, 100 + number * 10, 4)
        world.clock.advance(HOLD_AHEAD.total_seconds() / 100)
        renewed(world, ticket)
    assert store.writes == 1
    world.tier(table)
    opened(world, table)
    assert store.writes == 2


def test_the_position_of_a_stream_is_kept_after_a_restart(world: LakeWorld, table: TableInfo, store: CountingStore) -> None:
    call = StreamCall(StreamOptions(table.path), "run 1", "application 1")
    for _ in range(20):
        Streams(world.coordinator.reads).next_batch(call, None, None, None)
        world.clock.advance(HOLD_AHEAD.total_seconds() / 25)
    assert store.writes == 1
    world.restart()

    assert retain(world, table) == TIERED
    world.clock.advance((STREAM_TTL + HOLD_AHEAD).total_seconds())
    world.storage.maintenance.run()
    assert min(starts(world, table)) > min(TIERED)


def test_a_table_that_is_new_and_empty_needs_nothing(world: LakeWorld, store: CountingStore) -> None:
    opened(world, world.table("empty"))
    assert store.writes == 0


def test_a_deposed_coordinator_opens_no_read_that_its_successor_does_not_keep(world: LakeWorld, table: TableInfo) -> None:
    deposed, ticket = world.coordinator, opened(world, table)
    world.coordinator = world._start()
    try:
        assert deposed.reads.open(table.path, "spark", "")  # the successor keeps what this read needs
        world.tier(table)
        with pytest.raises(Fenced):
            deposed.reads.open(table.path, "spark", "")
        world.clock.advance((READ_TTL / 2).total_seconds())
        renewed(world, ticket)
    finally:
        deposed.close()


@dataclass
class Reader:
    """A reader with its tasks. It renews until it dies."""

    ticket: bytes
    tasks: list[bytes]
    rows: list[int]
    expires: float
    renews: bool


@pytest.mark.parametrize("seed", range(5))
def test_no_living_reader_loses_anything_in_any_order_of_events(world: LakeWorld, table: TableInfo, seed: int) -> None:
    """Reads, renewals, closes, deaths of readers, rounds, retention, restarts and outages in a random order."""
    rng, rows, readers = random.Random(seed), 20, list[Reader]()

    def now() -> float:
        return world.clock.now().timestamp()

    for _ in range(120):
        match rng.choice(("open", "open", "plan", "close", "die", "write", "retain", "retain", "restart", "outage", "pass")):
            case "open":
                ticket = opened(world, table)
                tasks = planned(world, ticket)
                readers.append(Reader(ticket, tasks, list(range(rows)), now() + READ_TTL.total_seconds(), rng.random() < 0.7))
            case "plan" if readers:
                reader = rng.choice(readers)
                assert ids(planned(world, reader.ticket)) == reader.rows
            case "close" if readers:
                world.coordinator.reads.close(readers.pop(rng.randrange(len(readers))).ticket)
            case "die" if readers:
                rng.choice(readers).renews = False
            case "write":
                world.append(table, rows, 10)
                rows += 10
            case "retain":
                retain(world, table)
            case "restart":
                world.restart()
            case "outage":
                living = [reader for reader in readers if reader.renews and now() < reader.expires]
                world.restart(down_s=rng.choice((60, 600, 7_200)))
                for reader in living:
                    reader.expires = now() + 1
            case "pass":
                world.clock.advance(rng.choice((1, 30, 90)))
        for reader in readers:
            if reader.renews and now() < reader.expires:
                reader.ticket, reader.expires = renewed(world, reader.ticket), now() + READ_TTL.total_seconds()
        assert all(ids(reader.tasks) == reader.rows for reader in readers if now() < reader.expires)
        readers = [reader for reader in readers if now() < reader.expires]
    for reader in readers:
        world.coordinator.reads.close(reader.ticket)
    world.clock.advance((READ_TTL + HOLD_AHEAD).total_seconds())
    retain(world, table)
    before = starts(world, table)
    world.append(table, rows, 10)
    assert all(after > start for after, start in zip(retain(world, table), before, strict=True))
