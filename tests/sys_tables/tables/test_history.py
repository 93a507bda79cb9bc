"""The tables of history, `sys.tiering_rounds` and the like: what the store keeps of the past, as the service shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from support.services.sys_catalog import serving, where
from support.worlds.memory_coordinator import NOON, MemoryCoordinator, MemoryView
from support.worlds.memory_store import MemoryStore
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.server import service
from tiering.coordinator.decisions.records import CommitState, ErrorRecord, EventRecord, LakeCommitRecord, Level, RoundRecord, Trigger
from tiering.coordinator.interface import HistoryRange
from tiering.coordinator.memory.store import Writes
from tiering.model.rounds import PhaseTimes, RanOn, RoundMode, RoundPlace, RoundState, RoundStats
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.common_pb2 import Literal

Run = Callable[[Any], None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NOT_SHOWN = {"table_id", "bucket", "offset", "trace", "record_text"}
KEYS = ("database_name", "table_name", "tiering_epoch", "coordinator_epoch")


class WatchedStore(MemoryStore):
    """Counts the events that are drawn, and remembers the requested ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0
        self.ranges: list[HistoryRange] = []

    def read_events(self, history_range: HistoryRange) -> Iterator[EventRecord]:
        self.ranges.append(history_range)
        for row in super().read_events(history_range):
            self.drawn += 1
            yield row


class Remembering(MemoryCoordinator):
    """A coordinator with history."""

    def __init__(self, writes: Writes) -> None:
        super().__init__()
        self.store = WatchedStore()
        self.store.apply(self.store.take_over(), writes)

    def view(self) -> MemoryView:
        return replace(super().view(), history=self.store)


def event(number: int, **changes: Any) -> EventRecord:
    written = EventRecord(NOON + number * SECOND, Level.INFO, "TABLE_PENDING", f"{number}", None, "demo", "flights", "r1", {"n": number})
    return replace(written, **changes)


def newest(table: str, *columns: str, limit: int | None = None, **filters: str) -> pb.ReadTableRequest:
    column = {"tiering_events": "occurred_at", "lake_commits": "prepared_at", "tiering_rounds": "pending_time"}.get(table, "last_seen")
    order = [pb.Order(column=column, descending=True)]
    conditions = [where(name, "EQUAL", value) for name, value in filters.items()]
    return pb.ReadTableRequest(namespace="sys", name=table, columns=columns, order=order, limit=limit, filters=conditions)


def test_events_are_shown_with_all_that_they_say(run: Run) -> None:
    async def scenario() -> None:
        other = event(2, database_name=None, table_name=None, round_id=None, principal="ann", level=Level.WARN)
        async with serving(Remembering(Writes(events=(event(1), other)))) as client:
            first, second = (await client.read("tiering_events")).to_pylist()
        assert (second["event_id"], second["occurred_at"], second["level"]) == (1, NOON + SECOND, "INFO")
        assert (second["database_name"], second["table_name"], second["round_id"]) == ("demo", "flights", "r1")
        assert (second["event_type"], second["message"], json.loads(second["details"])) == ("TABLE_PENDING", "1", {"n": 1})
        assert (first["principal"], first["database_name"], first["round_id"]) == ("ann", None, None)

    run(scenario())


def test_the_newest_events_are_drawn_and_no_more(run: Run) -> None:
    async def scenario() -> None:
        handle = Remembering(Writes(events=tuple(event(number) for number in range(3_000))))
        async with serving(handle) as client:
            answer = await client.table(newest("tiering_events", "message", limit=3))
        assert answer.column("message").to_pylist() == ["2999", "2998", "2997"]
        assert handle.store.drawn == 3

    run(scenario())


def test_conditions_narrow_the_read_of_the_store(run: Run) -> None:
    async def scenario() -> None:
        rows = (event(1, table_name="weather", level=Level.ERROR), event(2, level=Level.ERROR), event(3))
        handle = Remembering(Writes(events=rows))
        async with serving(handle) as client:
            answer = await client.table(newest("tiering_events", "message", limit=9, table_name="flights", level="ERROR"))
            odd = await client.table(newest("tiering_events", "message", table_name="\0"))
        assert answer.column("message").to_pylist() == ["2"]
        assert handle.store.drawn == 1 + len(rows), "what no store can be asked for is filtered afterwards"
        assert handle.store.ranges[0] == HistoryRange(table_name="flights", fields={"level": "ERROR"}, page_rows=100)
        assert odd.num_rows == 0

    run(scenario())


def test_bounds_of_time_reach_the_store(run: Run) -> None:
    async def scenario() -> None:
        handle = Remembering(Writes(events=tuple(event(number) for number in range(5))))
        moments = [Literal(timestamp_us=(NOON + number * SECOND - _EPOCH) // timedelta(microseconds=1)) for number in (1, 3)]
        operators = [common_pb2.Filter.GREATER, common_pb2.Filter.LESS_OR_EQUAL]
        filters = [
            common_pb2.Filter(column="occurred_at", operator=op, values=[moment]) for op, moment in zip(operators, moments, strict=True)
        ]
        async with serving(handle) as client:
            answer = await client.read("tiering_events", "message", filters=tuple(filters))
        assert answer.column("message").to_pylist() == ["3", "2"]
        assert (handle.store.ranges[0].since, handle.store.ranges[0].until) == (NOON + SECOND, NOON + 3 * SECOND)

    run(scenario())


def test_another_order_is_sorted(run: Run) -> None:
    async def scenario() -> None:
        rows = (event(1, message="b"), event(2, message="c"), event(3, message="a"))
        order = [pb.Order(column="message", descending=True)]
        async with serving(Remembering(Writes(events=rows))) as client:
            request = pb.ReadTableRequest(namespace="sys", name="tiering_events", columns=["message"], order=order, limit=2)
            answer = await client.table(request)
        assert answer.column("message").to_pylist() == ["c", "b"]

    run(scenario())


def test_commits_are_shown_with_offsets_by_bucket(run: Run) -> None:
    async def scenario() -> None:
        open_row = LakeCommitRecord("r2", 7, "demo", "flights", 2, CommitState.PREPARED, NOON + SECOND, offsets={"17/3": 5})
        done = LakeCommitRecord("r1", 7, "demo", "flights", 1, CommitState.ACKED, NOON, None, None, {"0": 9}, 9, 1, 77, NOON, NOON)
        async with serving(Remembering(Writes(commits=(done, open_row)))) as client:
            answer = await client.table(newest("lake_commits"))
            acked = await client.table(newest("lake_commits", "round_id", state="ACKED"))
        first, second = answer.to_pylist()
        assert (first["state"], first["lake_snapshot_id"], first["acked_at"], first["offsets"]) == ("PREPARED", None, None, [("17/3", 5)])
        assert (second["round_id"], second["offsets"], second["records"], second["lake_snapshot_id"]) == ("r1", [("0", 9)], 9, 77)
        assert acked.column("round_id").to_pylist() == ["r1"]
        assert pa.types.is_map(answer.schema.field("offsets").type)

    run(scenario())


def test_rounds_are_shown_with_where_their_time_went(run: Run) -> None:
    async def scenario() -> None:
        stats = RoundStats(2, 10, 0, 9, 100, 1, 0, PhaseTimes(1, None, 2, 3, 4, 5), RoundPlace(RanOn.SPARK, "app-7", 12))
        queued = RoundRecord("r2", 7, "demo", "flights", 2, 1, Trigger.CALL, RoundState.QUEUED, NOON + SECOND, triggered_by="ann")
        ended = replace(
            replace(queued, round_id="r1", state=RoundState.SUCCEEDED, pending_time=NOON, trigger=Trigger.SCHEDULE, triggered_by=None),
            started_time=NOON + SECOND,
            finished_time=NOON + 3 * SECOND,
            stats=stats,
            deadline=NOON - SECOND,
            missed_by_ms=3_500,
            mode=RoundMode.LIVE,
            waited_for_slot_ms=1_000,
            backoff_ms=0,
            paused_ms=7,
        )
        async with serving(Remembering(Writes(rounds=(ended, queued)))) as client:
            first, second = (await client.table(newest("tiering_rounds"))).to_pylist()
            called = await client.table(newest("tiering_rounds", "round_id", trigger="call"))
        known = {name for name, value in first.items() if value is not None}
        assert known == {"round_id", "table_id", "triggered_by", "trigger", "state", "pending_time", "attempt", *KEYS}
        times = [second[f"{part}_ms"] for part in ("plan", "lease", "read", "write", "commit", "ack")]
        assert times == [1, None, 2, 3, 4, 5]
        assert (second["waited_for_slot_ms"], second["backoff_ms"], second["paused_ms"]) == (1_000, 0, 7)
        assert (second["duration_ms"], second["deadline"], second["missed_by_ms"], second["mode"]) == (2_000, NOON - SECOND, 3_500, "LIVE")
        assert (second["records_read"], second["bytes_read"], second["records_written"], second["files_written"]) == (10, None, 9, 1)
        assert (second["ran_on"], second["spark_application_id"], second["spark_job_id"]) == ("SPARK", "app-7", 12)
        assert called.column("round_id").to_pylist() == ["r2"]

    run(scenario())


def test_kinds_of_errors_are_shown_with_how_often_and_since_when(run: Run) -> None:
    async def scenario() -> None:
        row = ErrorRecord(7, "demo", "flights", None, "TiererLost", "gone", "", True, 3, NOON, NOON + SECOND, "r3")
        over = replace(row, phase="READ", error_class="OSError", hint="buy a disk", retryable=False, last_seen=NOON, resolved_at=NOON)
        async with serving(Remembering(Writes(errors=(over, row)))) as client:
            first, second = (await client.table(newest("tiering_errors"))).to_pylist()
            read = await client.table(newest("tiering_errors", "error_class", phase="READ"))
        assert first == {name: value for name, value in vars(row).items() if name not in NOT_SHOWN} | {"hint": None, "next_action": None}
        assert (second["hint"], second["retryable"], second["resolved_at"]) == ("buy a disk", False, NOON)
        assert read.column("error_class").to_pylist() == ["OSError"]

    run(scenario())


def test_a_miss_is_explained_by_what_took_longest(run: Run) -> None:
    async def scenario() -> None:
        kept = RoundRecord("r1", 7, "demo", "flights", 1, 1, Trigger.SCHEDULE, RoundState.SUCCEEDED, NOON, deadline=NOON, missed_by_ms=0)
        late = replace(kept, round_id="r2", missed_by_ms=90_000, backoff_ms=60_000, waited_for_slot_ms=5_000, pending_time=NOON + SECOND)
        slow = replace(kept, round_id="r3", missed_by_ms=9, stats=RoundStats(times=PhaseTimes(read_ms=7)), pending_time=NOON + 2 * SECOND)
        silent = replace(kept, round_id="r4", missed_by_ms=9, pending_time=NOON + 3 * SECOND)
        failed = replace(kept, round_id="r5", missed_by_ms=None, state=RoundState.FAILED)
        async with serving(Remembering(Writes(rounds=(kept, late, slow, silent, failed)))) as client:
            r4, r3, r2 = (await client.read("freshness_misses")).to_pylist()
        assert (r2["round_id"], r2["reached_at"], r2["largest_part"], r2["largest_part_ms"]) == (
            "r2",
            NOON + 90 * SECOND,
            "backoff",
            60_000,
        )
        assert "the table waited 1 min after them" in r2["explanation"]
        assert (r3["largest_part"], r3["explanation"]) == ("read", "reading took 7 ms")
        assert (r4["largest_part"], r4["largest_part_ms"], r4["explanation"]) == (None, None, "the tierer reported no durations")

    run(scenario())


def test_of_history_an_export_of_all_tables_has_the_newest_rows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "EXPORTED_HISTORY_ROWS", 2)

    async def scenario() -> None:
        handle = Remembering(Writes(events=tuple(event(number) for number in range(5))))
        async with serving(handle) as client:
            pieces = [answer async for answer in client.stub.ReadAllTables(pb.ReadAllTablesRequest())]
        arrow = b"".join(answer.arrow for answer in pieces if answer.name == "tiering_events")
        assert pa.ipc.open_stream(arrow).read_all().column("message").to_pylist() == ["4", "3"]
        assert handle.store.drawn == 2

    run(scenario())
