"""Reads and streams that began before a record was put aside or replayed: each has the record once, or as the docs say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fresh.held_logs import ids
from support.fresh.read_service import reads_at_uri
from support.lake_kinds.dead_letters import PUT_ASIDE, tiered
from support.lake_kinds.kinds import ICEBERG_CLEAN
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from tiering.model.reading.scans import ReadScan
from tiering.procedures.discard_dead_letters import DiscardDeadLetters
from tiering.procedures.replay_dead_letters import ReplayDeadLetters
from tiering.union_read.read_client import ReadClient
from tiering.union_read.streams.batches import StreamOptions
from tiering.union_read.streams.client import StreamClient
from tiering.union_read.streams.offsets import BEGINNING
from tiering.wire.channel import Connection


class Beside:
    """A table with one row in the lake, and a service for reads of it. `write_bad` writes the rows 1, 100 (which is bad) and 2."""

    def __init__(self, poisoned: Poisoned, uri: str, connection: Connection, refusing: pytest.MonkeyPatch) -> None:
        self.poisoned, self.uri, self._refusing = poisoned, uri, refusing
        self.reads = ReadClient(connection, "python", "application 1")

    def write_bad(self) -> None:
        self.poisoned.write((1, "row 1"), (100, POISON), (2, "row 2"))

    def put_aside(self) -> None:
        tiered(self.poisoned)
        assert self.poisoned.in_lake().keys() == {0, 1, 2}

    def replay(self) -> None:
        self._refusing.undo()
        call = ReplayDeadLetters(self.poisoned.table.path, caller="ann")
        assert asyncio.run(self.poisoned.world.coordinator.control.perform(call)).rows_replayed == 1

    def discard(self) -> None:
        call = DiscardDeadLetters(self.poisoned.table.path, reason="a test", caller="ann")
        asyncio.run(self.poisoned.world.coordinator.control.perform(call))

    def stream(self, **options: object) -> Stream:
        client = StreamClient(self.uri, StreamOptions(self.poisoned.table.path, **options), "run 1", "application 1")  # type: ignore[arg-type]
        return Stream(client)

    def select(self, ticket: bytes) -> list[int]:
        """The ids of a read of the table."""
        return sorted(ids(self.reads.plan(ticket, ReadScan(columns=("id",)))[0]))

    def open(self) -> bytes:
        return self.reads.open(self.poisoned.table.path).ticket


class Stream:
    """A streaming query."""

    def __init__(self, client: StreamClient) -> None:
        self._client, self.checkpoint = client, BEGINNING

    def next_end(self) -> str:
        return self._client.next_batch(self.checkpoint, None)

    def rows(self, end: str) -> list[int]:
        return sorted(ids(self._client.plan_batch(self.checkpoint, end, ["id"])))

    def run(self) -> list[int]:
        """Runs one batch. Returns its ids."""
        end = self.next_end()
        rows = [] if end == self.checkpoint else self.rows(end)
        self.checkpoint = end
        return rows


@pytest.fixture(params=[False, True], ids=["log", "primary key"])
def beside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Beside]:
    poisoned = Poisoned(tmp_path, ICEBERG_CLEAN, has_key=request.param, buckets=1, options=PUT_ASIDE)
    with pytest.MonkeyPatch.context() as refusing, reads_at_uri(poisoned.world) as uri, Connection(uri) as connection:
        refuse_poison(refusing)
        poisoned.write((0, "row 0"))
        tiered(poisoned)
        yield Beside(poisoned, uri, connection, refusing)
    poisoned.world.close()


def test_a_batch_that_runs_again_has_the_record_whatever_was_decided_about_it(beside: Beside) -> None:
    stream = beside.stream()
    assert stream.run() == [0]
    beside.write_bad()
    end = stream.next_end()
    runs = [stream.rows(end)]
    beside.put_aside()
    runs.append(stream.rows(end))
    beside.replay()
    runs.append(stream.rows(end))
    assert runs == [[1, 2, 100]] * 3
    assert stream.run() == [1, 2, 100]
    assert stream.run() == []


def test_a_stream_that_follows_the_log_has_a_waiting_record_once(beside: Beside) -> None:
    stream = beside.stream()
    assert stream.run() == [0]
    beside.write_bad()
    beside.put_aside()
    assert stream.run() == [1, 2, 100]
    beside.replay()
    assert stream.run() == []
    assert beside.stream().run() == [0, 1, 2, 100]


def test_a_stream_that_begins_with_the_lake_while_a_record_waits_has_it_only_by_its_offset(beside: Beside) -> None:
    beside.write_bad()
    beside.put_aside()
    stream = beside.stream()
    assert stream.run() == [0, 1, 2]
    beside.replay()
    assert stream.run() == []
    assert beside.stream(starting_offsets='{"0": 2}').run() == [2, 100]


def test_a_read_keeps_the_rows_of_its_moment(beside: Beside) -> None:
    beside.write_bad()
    first = beside.open()
    beside.put_aside()
    second = beside.open()
    assert [beside.select(ticket) for ticket in (first, second)] == [[0, 1, 2, 100], [0, 1, 2]]
    beside.replay()
    third = beside.open()
    assert [beside.select(ticket) for ticket in (first, second, third)] == [[0, 1, 2, 100], [0, 1, 2], [0, 1, 2, 100]]


def test_a_discarded_record_is_left_out_of_streams_as_a_skipped_one(beside: Beside) -> None:
    stream = beside.stream()
    assert stream.run() == [0]
    beside.write_bad()
    beside.put_aside()
    beside.discard()
    assert stream.run() == [1, 2]
