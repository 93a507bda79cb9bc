"""CALL sys.skip_record over a real cluster and a real lake: the table fails with the way out, and is right for everyone after it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.older_version import TWICE, older_write
from support.lakes.lake_proof import lake_rows
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.errors import BucketStopped, InvalidArgument
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import AddColumn, ChangeType, RenameColumn
from tiering.model.tables import TableInfo
from tiering.procedures.skip_record import SkipRecord, SkipRecordResult

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string()), ("tags", pa.map_(pa.string(), pa.int32()))])
NOT_YET, TOOK_IT_IN = "the lake had not seen it", "the lake took it in"


def rows(*values: tuple[int, str, list[tuple[str, int]]]) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "text": text, "tags": tags} for number, text, tags in values], schema=SCHEMA)


class Stuck:
    """A table of one bucket with the rows 1 to 3, tiered; `poison` is logged, and refused by the KV state."""

    def __init__(self, folder: Path) -> None:
        self.world = LakeWorld(folder)
        self.table: TableInfo = self.world.primary_key_table("orders", 1, SCHEMA)
        self.world.storage.upsert(self.table.path, rows(*((number, "old", [("k", number)]) for number in (1, 2, 3))), "test", 0)
        self.world.tier(self.table)

    def poison(self, number: int, when: str) -> int:
        """The offset at which the bucket stands then."""
        older_write(self.world.storage, self.table.path, rows((number, "poison", TWICE)), 0, applied=False)
        if when == TOOK_IT_IN:  # a version that noted nothing tiered it
            assert self.world.tier(self.table).state is RoundState.SUCCEEDED
        with pytest.raises(BucketStopped) as caught:
            self.world.storage.upsert(self.table.path, rows((9, "new", [])), "test", 1)
        return int(caught.value.ids["offset"])

    def skip(self, offset: int, **more: Any) -> SkipRecordResult:
        call = SkipRecord(self.table.path, 0, offset, **{"caller": "ann", "reason": "a test", **more})
        return asyncio.run(self.world.coordinator.control.perform(call))

    def in_lake(self) -> dict[int, str]:
        table_rows = lake_rows(self.world.lake_properties, self.table.path).to_pylist()
        return {row["id"]: row["text"] for row in table_rows}

    def events(self) -> list[Any]:
        return [event for event in self.world.store.events() if event.event_type == "RECORD_SKIPPED"]


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Stuck]:
    stuck_table = Stuck(tmp_path)
    yield stuck_table
    stuck_table.world.close()


@pytest.mark.parametrize("when", [NOT_YET, TOOK_IT_IN])
@pytest.mark.parametrize("number", [2, 4], ids=["an update", "an insert"])
@pytest.mark.parametrize("goes_on", [True, False], ids=["more rows come", "nothing comes"])
def test_after_the_skip_log_rows_snapshots_and_lake_agree(stuck: Stuck, when: str, number: int, goes_on: bool) -> None:
    world, table = stuck.world, stuck.table
    offset = stuck.poison(number, when)
    stuck.skip(offset)
    right = {1: "old", 2: "old", 3: "old"}
    if goes_on:
        world.storage.upsert(table.path, rows((1, "new", []), (number, "mended", [("a", 1)])), "test", 2)
        right |= {1: "new", number: "mended"}
    world.storage.take_kv_snapshots(table.path)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert stuck.in_lake() == right
    assert not faults(check(world, table))


@pytest.mark.parametrize("when", [NOT_YET, TOOK_IT_IN])
@pytest.mark.parametrize("number", [2, 4], ids=["an update", "an insert"])
def test_a_record_of_former_columns_is_skipped_after_the_columns_changed(stuck: Stuck, when: str, number: int) -> None:
    world = stuck.world
    offset = stuck.poison(number, when)
    changes = [RenameColumn(("text",), "words"), ChangeType(("tags", "value"), pa.int64()), AddColumn(pa.field("text", pa.int32()))]
    table = world.storage.alter_table(stuck.table.path, {}, changes)
    stuck.skip(offset)
    row = {"id": 1, "words": "new", "tags": [("a", 2**40)], "text": 5}
    world.storage.upsert(table.path, pa.Table.from_pylist([row], schema=table.schema), "test", 2)
    world.storage.take_kv_snapshots(table.path)
    assert world.tier(table).state is RoundState.SUCCEEDED
    in_lake = lake_rows(world.lake_properties, table.path).to_pylist()
    assert {row["id"]: (row["words"], row["text"]) for row in in_lake} == {1: ("new", 5), 2: ("old", None), 3: ("old", None)}
    assert not faults(check(world, table))


def test_a_round_that_would_read_the_record_fails_with_the_way_out(stuck: Stuck) -> None:
    world, table = stuck.world, stuck.table
    offset = stuck.poison(2, NOT_YET)
    assert world.tier(table).state is RoundState.SUCCEEDED, "what comes before the record"
    assert world.tier(table).state is RoundState.FAILED
    assert stuck.in_lake() == {1: "old", 2: "old", 3: "old"}
    (status,) = world.coordinator.view().table_statuses()
    assert (status.status, status.error_class, status.error_retryable) == ("Failed", "BucketStopped", True)
    assert f"stands at offset {offset}" in (status.last_error or "")
    assert "poison" not in (status.last_error or "")
    [bucket] = [row for row in stuck.world.coordinator.view().buckets() if row.stopped_at_offset is not None]
    assert "text='poison'" in (bucket.stopped_at_record or "")
    assert f"CALL sys.skip_record('sales.orders', 0, {offset}, reason => '...')" in (status.error_hint or "")

    result = stuck.skip(offset)
    assert (result.bucket_id, result.offset, result.partition_name, result.outcome) == (0, offset, None, "skipped")
    assert "text='poison'" in result.value
    assert world.record(table).state == "Pending", "it is tiered again without another CALL"
    assert world.begin(table).end().state is RoundState.SUCCEEDED
    (status,) = world.coordinator.view().table_statuses()
    assert (status.last_error, status.error_hint) == (None, None)
    assert not faults(check(world, table))


def test_the_other_buckets_of_the_table_go_on_into_the_lake(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.primary_key_table("orders", 4, SCHEMA)
    expected = dict.fromkeys(range(12), "old")
    world.storage.upsert(table.path, rows(*((number, "old", []) for number in expected)), "test", 0)
    assert world.tier(table).state is RoundState.SUCCEEDED
    older_write(world.storage, table.path, rows((1, "poison", TWICE)), 0, applied=False)

    def write_where_it_can_be(text: str, sequence: int) -> None:
        for number in range(12):
            try:
                world.storage.upsert(table.path, rows((number, text, [])), f"test-{number}", sequence)
            except BucketStopped:
                continue
            expected[number] = text

    def in_lake() -> dict[int, str]:
        return {row["id"]: row["text"] for row in lake_rows(world.lake_properties, table.path).to_pylist()}

    write_where_it_can_be("new", 0)
    assert 4 < list(expected.values()).count("new") < 12
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert in_lake() == expected
    failed = world.tier(table)
    assert (failed.state, getattr(failed.error, "error_class", None)) == (RoundState.FAILED, "BucketStopped")
    write_where_it_can_be("newer", 1)
    assert world.tier(table).state is RoundState.SUCCEEDED, "it is tried again, for the others"
    assert in_lake() == expected
    offset = int(failed.error.ids["offset"]) if failed.error else -1
    bucket = int(re.search(r"bucket (\d+)", failed.error.message if failed.error else "")[1])  # type: ignore[index]
    asyncio.run(world.coordinator.control.perform(SkipRecord(table.path, bucket, offset, caller="ann", reason="a test")))
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert in_lake() == expected
    assert not faults(check(world, table))
    world.close()


def test_the_event_tells_who_left_out_what_and_why(stuck: Stuck) -> None:
    offset = stuck.poison(2, NOT_YET)
    stuck.skip(offset, dry_run=True)
    assert stuck.events() == []
    stuck.skip(offset)
    (event,) = stuck.events()
    assert (event.principal, event.table_name, event.level) == ("ann", "orders", "WARN")
    assert event.message == f"bucket 0: the record at offset {offset} is left out: a test"
    assert event.details["offset"] == offset
    assert "poison" not in f"{event.message} {event.details}"


def test_another_offset_is_refused_and_changes_nothing(stuck: Stuck) -> None:
    offset = stuck.poison(2, NOT_YET)
    for wrong in (0, offset - 1, offset + 1):
        with pytest.raises(InvalidArgument, match=f"stands at offset {offset}, not at {wrong}"):
            stuck.skip(wrong)
    assert stuck.events() == []
    with pytest.raises(BucketStopped):
        stuck.world.storage.upsert(stuck.table.path, rows((1, "new", [])), "test", 5)


def test_a_coordinator_that_died_before_it_stored_the_answer_gives_it_to_the_repeat(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    offset = stuck.poison(2, NOT_YET)
    with monkeypatch.context() as patch:
        patch.setattr(stuck.world.coordinator.table_records, "put", lambda *_, **__: (_ for _ in ()).throw(SystemError("killed")))
        with pytest.raises(SystemError):
            stuck.skip(offset, idempotency_key="k")
    stuck.world.restart()
    assert stuck.skip(offset, idempotency_key="k").outcome == "already_skipped"
    assert len(stuck.events()) == 1
    assert stuck.skip(offset, idempotency_key="k").outcome == "already_skipped"
    assert len(stuck.events()) == 1
