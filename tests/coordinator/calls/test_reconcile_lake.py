"""`CALL sys.reconcile_lake` over a real Iceberg lake: each way out of a permanent error, and what stands in its way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG, LAKE_KINDS, LakeKind
from support.stories.killed_calls import killed
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering import crash_points, errors
from tiering.lake.base import FLUSS_COMMIT_USER, LakeView
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.rules.base_check import tiered_offsets
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult
from tiering.procedures.retry_tiering import RetryTiering
from tiering.procedures.tier_table import TierTable, TierTableResult
from tiering.round.steps import actions as act


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=getattr(request, "param", None))
    yield lake_world
    lake_world.close()


def reconcile(world: LakeWorld, table: TableInfo, action: str, **more: object) -> ReconcileLakeResult:
    call = ReconcileLake(table.path, action, caller="alice", **more)  # type: ignore[arg-type]
    return asyncio.run(world.coordinator.control.perform(call))


def tiered(world: LakeWorld, rounds: int = 2) -> TableInfo:
    """A table whose lake has `rounds` rounds of 20 rows, and whose log has 20 more."""
    table = world.table("orders")
    for number in range(rounds):
        world.append(table, number * 20, 20)
        assert world.tier(table).state is RoundState.SUCCEEDED
    world.append(table, rounds * 20, 20)
    return table


def roll_back(world: LakeWorld, table: TableInfo) -> None:
    loaded = world.iceberg(table)
    loaded.manage_snapshots().rollback_to_snapshot(loaded.metadata.snapshots[0].snapshot_id).commit()


def parked(world: LakeWorld, table: TableInfo, error: type[errors.LakewardError]) -> None:
    """The next round fails for good."""
    assert isinstance(world.tier(table).error, error)
    assert (world.record(table).state, world.record(table).retry_deadline) == ("Failed", None)


def run_due(world: LakeWorld, table: TableInfo) -> None:
    """The table is due at once, and its round goes through."""
    assert world.record(table).state == "Pending"
    assert world.begin(table).end().state is RoundState.SUCCEEDED


def ids(world: LakeWorld, table: TableInfo) -> list[int]:
    return sorted(world.by_hand.rows(table.path)["id"].to_pylist())


def test_retier_after_a_rollback_brings_the_rows_back(world: LakeWorld) -> None:
    table = tiered(world)
    roll_back(world, table)
    parked(world, table, errors.LakeRolledBack)
    result = reconcile(world, table, "retier")
    assert (result.outcome, dict(result.offsets)) == ("reconciled", {"0": 10, "1": 10})
    start = world.record(table).lake.backlog_start
    assert start is not None
    assert (start.cause, start.buckets) == ("RETIERED", ("0", "1")), "the buckets that went back are a backlog again"
    run_due(world, table)
    finished = [event.details for event in world.store.events() if event.event_type == "BACKLOG_FINISH"]
    assert sorted((row["start"], row["bucket"]) for row in finished) == [(1, "0"), (1, "1"), (2, "0"), (2, "1")]
    assert ids(world, table) == list(range(60))
    world.assert_exact(table)
    assert world.record(table).error is None


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_action_that_there_is_not_is_refused_with_those_that_there_are(world: LakeWorld, dry_run: bool) -> None:
    table = world.table("orders")
    with pytest.raises(errors.InvalidArgument, match=r"'fix' is not an action .* adopt, accept, retier, deduplicate"):
        reconcile(world, table, "fix", dry_run=dry_run)


def test_accept_after_a_rollback_leaves_the_rows_out_and_goes_on(world: LakeWorld) -> None:
    table = tiered(world)
    roll_back(world, table)
    parked(world, table, errors.LakeRolledBack)
    before = world.view(table)
    result = reconcile(world, table, "accept")
    view = world.view(table)
    assert view.head == view.tiered == result.lake_snapshot_id
    assert view.head not in before.snapshots
    run_due(world, table)
    assert ids(world, table) == [*range(20), *range(40, 60)]


def test_accept_never_doubles_a_row_whose_ack_was_lost(world: LakeWorld) -> None:
    """The coordinator is behind the lake when a user expires snapshots and cuts the chain behind the tag."""
    table = tiered(world, 1)
    world.due()
    world.transport.lose_acks = True
    world.begin(table).end()
    world.transport.lose_acks = False
    loaded = world.iceberg(table)
    loaded.manage_snapshots().remove_tag(TAG).commit()
    world.append(table, 40, 20)
    parked(world, table, errors.MarkerLost)
    assert dict(reconcile(world, table, "accept").offsets) == {"0": 20, "1": 20}
    run_due(world, table)
    assert ids(world, table) == list(range(60))


@pytest.mark.parametrize("action", ["retier", "accept"])
def test_a_dropped_lake_table_begins_anew_or_goes_on_empty(world: LakeWorld, action: str) -> None:
    table = tiered(world)
    world.lake._open().drop_table(str(table.path))  # as a user would, in the same catalog
    parked(world, table, errors.LakeTableReplaced)
    shown = reconcile(world, table, action, dry_run=True)
    assert world.lake.view(table.path) is None
    done = reconcile(world, table, action)
    assert (shown.outcome, dict(shown.offsets)) == ("would_reconcile", dict(done.offsets))
    assert (shown.records_left_out, done.records_left_out) == ((0, 0) if action == "retier" else (40, 40))
    run_due(world, table)
    assert ids(world, table) == list(range(0 if action == "retier" else 40, 60))


def test_retier_refuses_rows_with_a_gap_a_double_or_a_foreign_offset(world: LakeWorld) -> None:
    table = tiered(world)
    roll_back(world, table)
    parked(world, table, errors.LakeRolledBack)
    rows = world.iceberg(table).scan().to_arrow()
    loaded = world.iceberg(table)
    loaded.append(rows.slice(3, 1))
    with pytest.raises(errors.CannotReconcile, match="twice"):
        reconcile(world, table, "retier")
    loaded.delete("id = 3")
    with pytest.raises(errors.CannotReconcile, match="lacks the offsets 3 to 3"):
        reconcile(world, table, "retier")
    loaded.delete("id < 5")
    with pytest.raises(errors.CannotReconcile, match="holds offsets from 5 on, but lacks 0 to 4"):
        reconcile(world, table, "retier")
    loaded.append(rows.slice(0, 1).set_column(3, rows.schema.field(3), pa.array([900], pa.int64())))
    with pytest.raises(errors.CannotReconcile, match="but holds 900"):
        reconcile(world, table, "retier")
    assert reconcile(world, table, "accept").outcome == "reconciled"


def test_a_dry_run_changes_nothing(world: LakeWorld) -> None:
    table = tiered(world)
    roll_back(world, table)
    parked(world, table, errors.LakeRolledBack)
    before, view = world.record(table), world.view(table)
    assert reconcile(world, table, "retier", dry_run=True).outcome == "would_reconcile"
    assert (world.record(table), world.view(table)) == (before, view)


def test_nothing_is_committed_where_nothing_is_wrong(world: LakeWorld) -> None:
    table = tiered(world)
    head = world.view(table).head
    assert {reconcile(world, table, action).outcome for action in ("accept", "adopt", "retier")} == {"not_needed"}
    assert world.view(table).head == head
    assert world.record(table).state == "Scheduled"


def test_it_is_refused_while_a_granted_round_is_open_and_fences_one_that_is_not(world: LakeWorld) -> None:
    table = tiered(world)
    world.due()
    granted = world.begin(table).advance_to(act.CommitLake)
    roll_back(world, table)
    with pytest.raises(errors.CannotReconcile, match="was granted its commit"):
        reconcile(world, table, "retier")
    assert isinstance(granted.end().error, errors.LakeRolledBack)
    reconcile(world, table, "retier")
    running = world.begin(table).advance_to(act.BeginCommit)
    roll_back(world, table)
    epoch = world.record(table).tiering_epoch
    assert reconcile(world, table, "retier").outcome == "reconciled"
    assert world.record(table).tiering_epoch > epoch
    assert running.end().state is RoundState.FENCED
    run_due(world, table)
    world.assert_exact(table)


def test_a_late_commit_of_an_older_round_is_refused_by_the_lake(world: LakeWorld) -> None:
    """Granted, then nothing was heard for the service timeout; it sends its commit after the reconciliation."""
    table = tiered(world)
    world.due()
    asleep = world.begin(table).advance_to(act.CommitLake)
    roll_back(world, table)
    world.clock.advance(10_000)
    tick(world.coordinator)
    assert reconcile(world, table, "retier").outcome == "reconciled"
    assert asleep.end().state in (RoundState.FENCED, RoundState.FAILED)
    world.clock.advance(3_600)
    tick(world.coordinator)
    world.begin(table).end()
    world.assert_exact(table)


def test_a_coordinator_that_dies_after_its_commit_is_ended_by_the_same_call(world: LakeWorld) -> None:
    table = tiered(world)
    roll_back(world, table)
    parked(world, table, errors.LakeRolledBack)

    def die(*_: object) -> None:
        raise RuntimeError("killed")

    world.storage.rewind_lake_snapshot = die  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="killed"):
        reconcile(world, table, "retier")
    del world.storage.rewind_lake_snapshot
    world.restart()
    asyncio.run(world.coordinator.control.perform(RetryTiering(table.path, caller="bob")))
    assert isinstance(world.begin(table).end().error, errors.RecordAheadOfLake)
    assert reconcile(world, table, "retier").outcome == "reconciled"
    run_due(world, table)
    world.assert_exact(table)


CALLS: list[tuple[LakeKind, str, str | None]] = [
    *((ICEBERG, action, key) for action in ("retier", "accept") for key in (None, "k")),
    *((kind, "retier", "k") for kind in LAKE_KINDS if kind != ICEBERG),
]


@pytest.mark.parametrize(
    ("world", "action", "key"), CALLS, indirect=["world"], ids=[f"{kind.name}, {action}, {key}" for kind, action, key in CALLS]
)
@pytest.mark.parametrize("point", crash_points.IN_RECONCILE)
def test_wherever_a_reconciliation_dies_the_same_call_goes_on(
    world: LakeWorld, monkeypatch: pytest.MonkeyPatch, point: str, action: str, key: str | None
) -> None:
    table = tiered(world)
    world.by_hand.drop(table.path)
    parked(world, table, errors.LakeTableReplaced)
    killed(world, monkeypatch, point, lambda: reconcile(world, table, action, idempotency_key=key))
    asyncio.run(world.coordinator.control.perform(RetryTiering(table.path, caller="bob")))
    unharmed = world.begin(table).end()
    assert unharmed.error is None or not unharmed.error.retryable
    again = reconcile(world, table, action, idempotency_key=key)
    assert again.records_left_out == (0 if action == "retier" else 40)
    if world.record(table).state == "Pending":
        world.begin(table).end()
    assert ids(world, table) == list(range(0 if action == "retier" else 40, 60))
    assert world.record(table).error is None


def test_a_refused_retier_makes_no_lake_table(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tiered(world)
    world.lake._open().drop_table(str(table.path))
    parked(world, table, errors.LakeTableReplaced)
    with pytest.raises(errors.CannotReconcile, match="no other tiering service wrote") as refusal:
        reconcile(world, table, "adopt")
    assert "CALL sys.reconcile_lake('sales.orders', 'retier')" in refusal.value.hint
    assert "accept" not in refusal.value.hint
    assert world.lake.view(table.path) is None


def test_a_table_that_another_program_creates_meanwhile_is_not_the_one_that_was_decided_about(world: LakeWorld) -> None:
    table = tiered(world)
    rows = world.iceberg(table).scan().to_arrow()
    world.lake._open().drop_table(str(table.path))
    parked(world, table, errors.LakeTableReplaced)
    ensure_table = world.lake.ensure_table

    def restored(info: TableInfo) -> LakeView:
        ensure_table(info)
        world.iceberg(table).append(rows)
        return ensure_table(info)

    world.lake.ensure_table = restored  # type: ignore[method-assign]
    with pytest.raises(errors.CommitOutcomeUnknown, match="meanwhile"):
        reconcile(world, table, "retier")
    del world.lake.ensure_table
    assert dict(reconcile(world, table, "retier").offsets) == {"0": 20, "1": 20}
    run_due(world, table)
    world.assert_exact(table)


def test_a_retier_after_an_accept_does_not_take_the_marker_at_its_word(world: LakeWorld) -> None:
    """The rows of a primary-key table have no offsets, and the marker counts more rows than there are."""
    table = world.primary_key_table("balances")
    for round_id in range(2):
        put(world, table, round_id * 10, 10)
        world.tier(table)
    roll_back(world, table)
    parked(world, table, errors.LakeRolledBack)
    assert reconcile(world, table, "accept").records_left_out == 10
    run_due_or_empty(world, table)
    assert ids(world, table) == list(range(10))
    done = reconcile(world, table, "retier")
    assert (done.outcome, done.records_left_out) == ("reconciled", 0)
    run_due_or_empty(world, table)
    assert ids(world, table) == list(range(20))
    assert reconcile(world, table, "retier").outcome == "not_needed"


def put(world: LakeWorld, table: TableInfo, start: int, count: int) -> None:
    rows = pa.table({"id": range(start, start + count), "text": [f"row {number}" for number in range(count)]}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, f"writer-{start}", 0)


def run_due_or_empty(world: LakeWorld, table: TableInfo) -> None:
    assert world.record(table).state == "Pending"
    assert world.begin(table).end().error is None


def test_a_bucket_of_which_only_the_kv_snapshot_is_left_is_not_taken_for_tiered(world: LakeWorld) -> None:
    """The log is empty, and `tier_table` still has to wait for the snapshot."""
    table = world.primary_key_table("balances", 1, log_ttl="1 h", kv_snapshot_interval="365 d")
    put(world, table, 0, 10)
    world.tier(table)
    world.storage.take_kv_snapshots(table.path)
    world.clock.advance(3_601)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(table).values()
    assert (log.log_start, log.log_end) == (10, 10)
    world.lake._open().drop_table(str(table.path))
    world.tier(table)
    assert dict(reconcile(world, table, "retier").offsets) == {}
    call = TierTable(table.path, caller="alice", wait=False)
    [result] = asyncio.run(all_of(world, call))
    assert result.state != "EMPTY"
    run_due(world, table)
    assert ids(world, table) == list(range(10))


async def all_of(world: LakeWorld, call: TierTable) -> list[TierTableResult]:
    return [step async for step in world.coordinator.control.perform_with_progress(call) if isinstance(step, TierTableResult)]


def test_adopt_takes_over_what_flusss_tiering_wrote(world: LakeWorld, tmp_path: Path) -> None:
    table = tiered(world)
    offsets = tmp_path / "lake" / "sales" / "orders-1" / "metadata" / "a.offsets"
    offsets.parent.mkdir(parents=True)
    offsets.write_text(json.dumps({"version": 1, "table_id": table.table_id, "bucket_offsets": [30, 30]}))
    schema = world.iceberg(table).scan().to_arrow().schema
    columns = {"id": range(40, 60), "text": [None] * 20, "__bucket": [0] * 10 + [1] * 10, "__offset": [*range(20, 30)] * 2}
    rows = pa.table({**columns, "__timestamp": world.iceberg(table).scan().to_arrow()["__timestamp"][:20]}, schema=schema)
    summary = {"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": str(offsets)}
    world.iceberg(table).append(rows, snapshot_properties=summary)
    parked(world, table, errors.ForeignTiering)
    with pytest.raises(errors.CannotReconcile, match="double"):
        reconcile(world, table, "accept")
    assert dict(reconcile(world, table, "adopt").offsets) == {"0": 30, "1": 30}
    world.append(table, 60, 20)
    run_due(world, table)
    world.assert_exact(table)


def test_adopt_says_what_it_cannot_read(world: LakeWorld) -> None:
    table = tiered(world)
    row = world.iceberg(table).scan().to_arrow().slice(0, 1)
    world.iceberg(table).append(row, snapshot_properties={"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": "/etc/passwd"})
    with pytest.raises(errors.CannotReconcile, match="names no file of offsets"):
        reconcile(world, table, "adopt")


def test_a_key_names_one_reconciliation(world: LakeWorld) -> None:
    table = tiered(world)
    roll_back(world, table)
    first = reconcile(world, table, "retier", idempotency_key="k")
    roll_back(world, table)
    assert reconcile(world, table, "retier", idempotency_key="k") == first
    with pytest.raises(errors.InvalidArgument, match="already names"):
        reconcile(world, table, "accept", idempotency_key="k")


def test_it_leaves_an_event_with_the_caller_and_a_row_in_the_ledger(world: LakeWorld) -> None:
    table = tiered(world)
    roll_back(world, table)
    result = reconcile(world, table, "retier")
    principals = {event.event_type: event.principal for event in world.store.events()}
    assert (principals["RECONCILE_STARTED"], principals["LAKE_RECONCILED"]) == ("alice", "alice")
    [row] = [row for row in world.store.commits(table.table_id) if row.round_id == result.round_id]
    assert (row.state, row.lake_snapshot_id) == ("RECONCILED", result.lake_snapshot_id)
    marker = world.view(table).marker
    assert marker is not None
    assert {str(bucket): at for bucket, at in tiered_offsets(marker).items()} == row.offsets


def test_retry_tries_a_failed_table_now_and_leaves_others_alone(world: LakeWorld) -> None:
    table = tiered(world)

    def retry(**more: bool) -> tuple[str, object]:
        result = asyncio.run(world.coordinator.control.perform(RetryTiering(table.path, caller="bob", **more)))
        return result.status, result.next_retry_time

    assert retry() == ("Scheduled", None)
    roll_back(world, table)
    parked(world, table, errors.LakeRolledBack)
    assert retry(dry_run=True) == ("Pending", None)
    assert world.record(table).state == "Failed"
    assert retry() == ("Pending", None)
    current = world.record(table).round
    assert current is not None
    assert (current.trigger, current.triggered_by) == ("retry", "bob")
