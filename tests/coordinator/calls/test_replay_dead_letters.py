"""`CALL sys.replay_dead_letters` over real lakes: a record becomes a row once, with its offset, and everything is proved afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.flink.flink_on_iceberg import FlinkOnIceberg, share
from support.lake_kinds.dead_letters import PUT_ASIDE, letters, tiered
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from support.stories.killed_calls import killed
from support.worlds.validated import check, faults
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering import crash_points, errors
from tiering.coordinator.lake_repair.letter_rows import LOG_CUT
from tiering.coordinator.memory.idempotency import IdempotentOperations
from tiering.lake.dead_letters.table import dead_letter_path
from tiering.model.schema.changes import AddColumn
from tiering.model.tables import BucketKey
from tiering.procedures.discard_dead_letters import DiscardDeadLetters, DiscardDeadLettersResult
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.replay_dead_letters import ReplayDeadLetters, ReplayDeadLettersResult


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> LakeKind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[False, True], ids=["log", "primary key"])
def poisoned(request: pytest.FixtureRequest, tmp_path: Path, kind: LakeKind) -> Iterator[Poisoned]:
    table = Poisoned(tmp_path, kind, has_key=request.param, options=PUT_ASIDE)
    yield table
    table.world.close()


@pytest.fixture
def refusing() -> Iterator[pytest.MonkeyPatch]:
    """Lakes refuse POISON until this patch is undone."""
    with pytest.MonkeyPatch.context() as patch:
        refuse_poison(patch)
        yield patch


def replay(poisoned: Poisoned, **more: object) -> ReplayDeadLettersResult:
    call = ReplayDeadLetters(poisoned.table.path, caller="ann", **more)  # type: ignore[arg-type]
    return asyncio.run(poisoned.world.coordinator.control.perform(call))


def discard(poisoned: Poisoned, **more: object) -> DiscardDeadLettersResult:
    call = DiscardDeadLetters(poisoned.table.path, reason="a test", caller="ann", **more)  # type: ignore[arg-type]
    return asyncio.run(poisoned.world.coordinator.control.perform(call))


def proved(poisoned: Poisoned) -> None:
    assert not faults(check(poisoned.world, poisoned.table))


def statuses(poisoned: Poisoned) -> list[str]:
    return [row.status for row in poisoned.world.coordinator.view().dead_letters()]


def superseded(poisoned: Poisoned) -> list[Any]:
    """The rows of sys.dead_letters over which a later change won, by that change."""
    rows = [row for row in poisoned.world.coordinator.view().dead_letters() if row.status == "superseded"]
    return sorted(rows, key=lambda row: (row.superseding_change_type, row.superseding_offset))


def events(poisoned: Poisoned, event_type: str) -> list[Any]:
    """The events of a type, as sys.tiering_events shows them."""
    table = default_registry().table("tiering_events")
    rows = table.rows(poisoned.world.coordinator.view(), ScanRequest())  # type: ignore[union-attr]
    return [row for row in rows if row.event_type == event_type]


ROWS = {number: f"row {number}" for number in range(20)}


def test_a_replayed_record_is_a_row_once_and_later_rounds_go_on(poisoned: Poisoned, refusing: pytest.MonkeyPatch) -> None:
    poisoned.write(*ROWS.items(), (100, POISON), (101, POISON))
    tiered(poisoned)
    refused = replay(poisoned)
    assert (refused.outcome, refused.rows_replayed, refused.rows_refused) == ("nothing_to_replay", 0, 2)
    assert refused.refusal == "its column 'text' is poison"
    assert [reason.endswith(": its column 'text' is poison") for reason in refused.refusals] == [True] * len(refused.refusals) != []
    refusing.undo()
    assert replay(poisoned, dry_run=True).outcome == "would_replay"
    assert poisoned.in_lake() == ROWS
    before = poisoned.world.view(poisoned.table)
    done = replay(poisoned, where=f"offset = {letters(poisoned)[0]['offset']} AND bucket_id = {letters(poisoned)[0]['bucket_id']}")
    view = poisoned.world.view(poisoned.table)
    assert (done.outcome, done.rows_replayed, done.rows_refused, done.lake_snapshot_id) == ("replayed", 1, 0, view.tiered)
    assert view.ranges == before.ranges, "a replay moves no offset"
    assert len(poisoned.in_lake()) == 21
    proved(poisoned)
    assert replay(poisoned).rows_replayed == 1
    assert poisoned.in_lake() == {**ROWS, 100: POISON, 101: POISON}
    proved(poisoned)
    assert replay(poisoned).outcome == "nothing_to_replay"
    poisoned.world.restart()
    poisoned.write((300, "row 300"))
    tiered(poisoned)
    assert poisoned.in_lake() == {**ROWS, 100: POISON, 101: POISON, 300: "row 300"}
    assert not poisoned.world.record(poisoned.table).lake.skipped
    marker = poisoned.world.view(poisoned.table).marker
    assert marker is not None
    assert (marker.skipped, marker.dead_letters) == ({}, {})


def test_a_discarded_record_stays_out_and_no_longer_waits(poisoned: Poisoned, refusing: pytest.MonkeyPatch) -> None:
    poisoned.write(*ROWS.items(), (100, POISON))
    tiered(poisoned)
    assert statuses(poisoned) == ["waiting"]
    assert discard(poisoned, dry_run=True).outcome == "would_discard"
    assert (discard(poisoned).outcome, statuses(poisoned)) == ("discarded", ["discarded"])
    [started] = events(poisoned, "RECONCILE_STARTED")
    assert (started.message, json.loads(started.details)["reason"]) == ("discard_dead_letters by ann: a test", "a test")
    refusing.undo()
    assert replay(poisoned).outcome == "nothing_to_replay"
    poisoned.write((300, "row 300"))
    tiered(poisoned)
    assert poisoned.in_lake() == {**ROWS, 300: "row 300"}
    assert statuses(poisoned) == ["discarded"]


def test_a_condition_that_names_another_column_changes_nothing(poisoned: Poisoned, refusing: pytest.MonkeyPatch) -> None:
    poisoned.write((1, "row 1"), (100, POISON))
    tiered(poisoned)
    for where in ("record = 'x'", "text = 'poison'", "offset >"):
        with pytest.raises(errors.InvalidArgument, match=r"'where' of sys\.replay_dead_letters"):
            replay(poisoned, where=where)


@pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with its key"])
@pytest.mark.parametrize("point", [crash_points.RECONCILE_CLAIMED, crash_points.RECONCILE_SENT, crash_points.RECONCILE_TOLD])
def test_wherever_a_replay_dies_each_record_becomes_a_row_once(
    poisoned: Poisoned, refusing: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch, point: str, key: str | None
) -> None:
    poisoned.write(*ROWS.items(), (100, POISON), (101, POISON))
    tiered(poisoned)
    refusing.undo()
    in_hour = poisoned.world.record(poisoned.table).lake.dead_letters_in_hour
    killed(poisoned.world, monkeypatch, point, lambda: replay(poisoned, idempotency_key=key))
    has_landed = point != crash_points.RECONCILE_CLAIMED
    all_rows = {**ROWS, 100: POISON, 101: POISON}
    poisoned.write((200, "row 200"))
    tiered(poisoned)
    assert poisoned.in_lake() == {**(all_rows if has_landed else ROWS), 200: "row 200"}
    lake = poisoned.world.record(poisoned.table).lake
    assert (lake.dead_letters_in_hour, len(events(poisoned, "DEAD_LETTERS"))) == (in_hour, 1), "no record is put aside again"
    again = replay(poisoned, idempotency_key=key)
    assert (again.outcome, again.rows_replayed) == (("nothing_to_replay", 0) if has_landed and key is None else ("replayed", 2))
    if key is not None:
        assert replay(poisoned, idempotency_key=key) == again
    poisoned.write((300, "row 300"))
    tiered(poisoned)
    assert poisoned.in_lake() == {**all_rows, 200: "row 200", 300: "row 300"}
    assert not poisoned.world.record(poisoned.table).lake.skipped


def test_a_cluster_that_fails_behind_the_commit_leaves_no_replayed_record_skipped(poisoned: Poisoned, refusing: pytest.MonkeyPatch) -> None:
    poisoned.write(*ROWS.items(), (100, POISON))
    tiered(poisoned)
    refusing.undo()

    def unavailable(*_: object) -> None:
        raise errors.ClusterUnavailable("the cluster does not answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poisoned.world.storage, "rewind_lake_snapshot", unavailable)
        with pytest.raises(errors.ClusterUnavailable):
            replay(poisoned)
    assert not poisoned.world.record(poisoned.table).lake.skipped
    poisoned.write((200, "row 200"))
    tiered(poisoned)
    assert poisoned.in_lake() == {**ROWS, 100: POISON, 200: "row 200"}
    marker = poisoned.world.view(poisoned.table).marker
    assert marker is not None
    assert (marker.skipped, marker.dead_letters, statuses(poisoned)) == ({}, {}, [])


def test_a_commit_that_is_not_sent_leaves_the_records_waiting(poisoned: Poisoned, refusing: pytest.MonkeyPatch) -> None:
    poisoned.write(*ROWS.items(), (100, POISON))
    tiered(poisoned)
    before = poisoned.world.record(poisoned.table).lake
    refusing.undo()

    def unavailable(*_: object) -> None:
        raise errors.LakeUnavailable("the storage does not answer")

    with pytest.MonkeyPatch.context() as patch:
        committer = type(poisoned.world.lake.tiering_factory(poisoned.table).create_committer())
        patch.setattr(committer, "commit", unavailable)
        with pytest.raises(errors.LakeUnavailable):
            replay(poisoned)
    after = poisoned.world.record(poisoned.table).lake
    assert (after.skipped_records, after.dead_letters) == (before.skipped_records, before.dead_letters)
    assert statuses(poisoned) == ["waiting"]
    assert replay(poisoned).rows_replayed == 1
    assert poisoned.in_lake() == {**ROWS, 100: POISON}


def test_columns_that_change_while_the_call_waits_for_its_turn_are_those_of_the_rows(
    tmp_path: Path, kind: LakeKind, refusing: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=False, options=PUT_ASIDE)
    poisoned.write((1, "row 1"), (100, POISON))
    tiered(poisoned)
    refusing.undo()
    checks: list[object] = []
    answer = IdempotentOperations.answer

    def with_a_change(operations: IdempotentOperations, request: Any) -> Any:
        checks.append(request)
        if len(checks) == 2:  # the call has its turn
            poisoned.world.storage.alter_table(poisoned.table.path, {}, [AddColumn(pa.field("note", pa.string()))])
        return answer(operations, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IdempotentOperations, "answer", with_a_change)
        assert replay(poisoned).rows_replayed == 1
    assert "note" in poisoned.world.by_hand.rows(poisoned.table.path).schema.names
    poisoned.world.close()


def test_records_behind_a_rollback_wait_again_and_can_be_replayed_again(poisoned: Poisoned, refusing: pytest.MonkeyPatch) -> None:
    poisoned.write(*ROWS.items(), (100, POISON))
    tiered(poisoned)
    before = poisoned.world.view(poisoned.table)
    with pytest.MonkeyPatch.context() as accepting:
        refusing.undo()
        assert replay(poisoned).rows_replayed == 1
        refuse_poison(accepting)
        assert before.head is not None
        poisoned.world.by_hand.roll_back(poisoned.table.path, before.head)
        call = ReconcileLake(poisoned.table.path, "retier", caller="ann")
        asyncio.run(poisoned.world.coordinator.control.perform(call))
        poisoned.write((200, "row 200"))
        tiered(poisoned)
    assert poisoned.in_lake() == {**ROWS, 200: "row 200"}
    assert statuses(poisoned) == ["waiting"]
    assert replay(poisoned).rows_replayed == 1
    assert poisoned.in_lake() == {**ROWS, 100: POISON, 200: "row 200"}
    proved(poisoned)


def test_a_replay_without_the_dead_letter_table_reads_the_log(poisoned: Poisoned, refusing: pytest.MonkeyPatch) -> None:
    poisoned.write((1, "row 1"), (100, POISON))
    tiered(poisoned)
    refusing.undo()
    poisoned.world.by_hand.drop(dead_letter_path(poisoned.table.path))
    assert replay(poisoned).rows_replayed == 1
    assert poisoned.in_lake() == {1: "row 1", 100: POISON}
    proved(poisoned)


def test_records_of_a_dropped_partition_no_longer_wait(tmp_path: Path, refusing: pytest.MonkeyPatch) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[1], has_key=False, partitioned=True, options=PUT_ASIDE)
    poisoned.write((1, "row 1"), (100, POISON))
    tiered(poisoned)
    assert statuses(poisoned) == ["waiting"]
    poisoned.world.storage.drop_partition(poisoned.table.path, "eu")
    refusing.undo()
    assert replay(poisoned).outcome == "nothing_to_replay"
    poisoned.write((2, "row 2"))
    tiered(poisoned)
    assert (statuses(poisoned), len(letters(poisoned))) == ([], 1)
    assert poisoned.in_lake() == {1: "row 1", 2: "row 2"}
    poisoned.world.close()


def test_rows_that_another_service_has_just_tiered_are_not_tiered_again_after_a_replay(
    tmp_path: Path, refusing: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=False, options=PUT_ASIDE)
    share(poisoned.world)
    poisoned.write((1, "row 1"), (100, POISON))
    tiered(poisoned)
    poisoned.write((2, "row 2"), (3, "row 3"))
    FlinkOnIceberg(poisoned.world, poisoned.table).plan().append().tell()
    refusing.undo()
    for settle in (replay, discard):
        with pytest.raises(errors.CannotReconcile, match="another tiering service has committed"):
            settle(poisoned)
    poisoned.write((4, "row 4"))
    tiered(poisoned)
    assert replay(poisoned).rows_replayed == 1
    poisoned.write((5, "row 5"))
    tiered(poisoned)
    assert poisoned.in_lake() == {**{number: f"row {number}" for number in range(1, 6)}, 100: POISON}
    poisoned.world.close()


def test_a_later_change_of_a_key_wins_over_a_replay(tmp_path: Path, kind: LakeKind, refusing: pytest.MonkeyPatch) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=True, options=PUT_ASIDE)
    poisoned.write(*((number, "first") for number in range(6)))
    tiered(poisoned)
    poisoned.write(*((number, POISON) for number in range(5)))
    tiered(poisoned)
    assert poisoned.in_lake() == dict.fromkeys(range(6), "first"), "the lake keeps the older rows"
    poisoned.write((0, "later"), (1, POISON))
    poisoned.delete(2)
    tiered(poisoned)
    poisoned.write((3, "not tiered yet"))
    refusing.undo()
    done = replay(poisoned)
    assert (done.rows_replayed, done.rows_refused) == (3, 0)
    assert poisoned.in_lake() == {0: "later", 1: POISON, 3: POISON, 4: POISON, 5: "first"}
    rows = superseded(poisoned)
    assert [(row.superseding_change_type, row.superseded_time) for row in rows] == [
        (kind, poisoned.world.clock.now()) for kind in ("+U", "+U", "-D")
    ]
    assert len({(row.bucket_id, row.superseding_offset) for row in rows}) == 3
    assert all(row.superseding_offset > row.offset for row in rows)
    tiered(poisoned)
    assert poisoned.in_lake() == {0: "later", 1: POISON, 3: "not tiered yet", 4: POISON, 5: "first"}
    poisoned.world.restart()
    assert (superseded(poisoned), len(statuses(poisoned))) == (rows, 3)
    poisoned.world.by_hand.drop(dead_letter_path(poisoned.table.path))
    assert [(row.offset, row.status, row.reason) for row in superseded(poisoned)] == [(row.offset, row.status, None) for row in rows]
    poisoned.world.close()


def test_a_superseded_record_waits_again_after_a_rollback_behind_its_replay(
    tmp_path: Path, kind: LakeKind, refusing: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=True, options=PUT_ASIDE)
    poisoned.write((1, POISON), (2, POISON))
    tiered(poisoned)
    poisoned.write((1, "later"))
    tiered(poisoned)
    before = poisoned.world.view(poisoned.table).head
    assert before is not None
    refusing.undo()
    assert (replay(poisoned).rows_superseded, statuses(poisoned)) == (1, ["superseded"])
    poisoned.world.by_hand.roll_back(poisoned.table.path, before)
    asyncio.run(poisoned.world.coordinator.control.perform(ReconcileLake(poisoned.table.path, "retier", caller="ann")))
    poisoned.write((3, "row 3"))
    tiered(poisoned)
    assert "superseded" not in statuses(poisoned)
    assert replay(poisoned).rows_superseded == 1
    assert poisoned.in_lake() == {1: "later", 2: POISON, 3: "row 3"}
    assert len(superseded(poisoned)) == 1
    poisoned.world.close()


@pytest.mark.parametrize("kind", LAKE_KINDS[1::2], ids=lambda kind: kind.name)
def test_a_cut_log_refuses_only_the_records_whose_later_changes_it_may_have_had(
    tmp_path: Path, kind: LakeKind, refusing: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=True, buckets=1, options={**PUT_ASIDE, "table.log.ttl": "60 s"})
    poisoned.write((1, POISON), (2, POISON))
    tiered(poisoned)
    storage, bucket = poisoned.world.storage, BucketKey(None, 0)
    for _ in range(2):  # retention keeps the log behind the newest but one
        storage.take_kv_snapshots(poisoned.table.path)
    poisoned.world.clock.advance(61)
    storage.maintenance.run()
    assert storage.offsets(poisoned.table)[bucket].log_start == 2
    poisoned.write((2, "later"), (3, POISON))
    tiered(poisoned)
    refusing.undo()
    done = replay(poisoned)
    assert (done.rows_replayed, done.rows_superseded, done.rows_refused) == (1, 1, 1)
    assert done.refusals == (f"bucket 0 of {poisoned.table.path}, offset 0: {LOG_CUT}",)
    assert poisoned.in_lake() == {2: "later", 3: POISON}
    assert statuses(poisoned) == ["waiting", "superseded"]
    poisoned.world.close()


def rolled_back_behind_superseded(folder: Path, kind: LakeKind) -> Poisoned:
    """A table with a superseded record, whose lake table was then rolled back behind the round that put the record aside."""
    poisoned = Poisoned(folder, kind, has_key=True, options=PUT_ASIDE)
    poisoned.write((0, "row 0"))
    tiered(poisoned)
    before = poisoned.world.view(poisoned.table).head
    assert before is not None
    for text in (POISON, "later"):
        poisoned.write((1, text))
        tiered(poisoned)
    assert (replay(poisoned).rows_superseded, statuses(poisoned)) == (1, ["superseded"])
    poisoned.world.by_hand.roll_back(poisoned.table.path, before)
    return poisoned


def test_a_superseded_record_is_read_again_after_a_rollback_behind_the_round_that_put_it_aside(
    tmp_path: Path, kind: LakeKind, refusing: pytest.MonkeyPatch
) -> None:
    poisoned = rolled_back_behind_superseded(tmp_path, kind)
    asyncio.run(poisoned.world.coordinator.control.perform(ReconcileLake(poisoned.table.path, "retier", caller="ann")))
    tiered(poisoned)
    assert statuses(poisoned) == ["waiting"]
    assert replay(poisoned).rows_superseded == 1
    assert (poisoned.in_lake(), statuses(poisoned)) == ({0: "row 0", 1: "later"}, ["superseded"])
    poisoned.world.close()


def test_a_superseded_record_stays_one_if_a_rollback_behind_the_round_that_put_it_aside_is_accepted(
    tmp_path: Path, kind: LakeKind, refusing: pytest.MonkeyPatch
) -> None:
    poisoned = rolled_back_behind_superseded(tmp_path, kind)
    asyncio.run(poisoned.world.coordinator.control.perform(ReconcileLake(poisoned.table.path, "accept", caller="ann")))
    poisoned.write((3, "row 3"))
    poisoned.world.tier(poisoned.table)
    assert statuses(poisoned) == ["superseded"]
    assert poisoned.in_lake() == {0: "row 0", 3: "row 3"}
    poisoned.world.close()
