"""Rounds that begin with KV snapshots, on a real embedded cluster and a real lake: what becomes of the lease, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from support.background import tick
from support.running.processes import wait_for
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld, SteppedRound
from tiering.cluster.embedded.metadata.snapshot_rows import RETAINED
from tiering.errors import PeerTooOld, RoundFailed
from tiering.model.rounds import Phase, RoundState
from tiering.model.tables import TableBucket
from tiering.procedures.retry_tiering import RetryTiering
from tiering.round.ports import SplitTask, TaskOutcome, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.steps import actions as act


class LosesItsExecutor:
    """A `TaskRunner` as Spark is when the executors of a job are gone."""

    def __init__(self, world: LakeWorld) -> None:
        self._world = world
        self.leased_while_it_ran: list[int] = []

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        self.leased_while_it_ran = [len(lease.snapshots) for lease in self._world.storage.leases()]
        raise RoundFailed("Job aborted: ExecutorLostFailure (executor 1 exited)", cause_class="PySparkException")


class Snapshots:
    """A table of twenty keys in two buckets with a KV snapshot each, never tiered."""

    def __init__(self, folder: Path) -> None:
        self.world = LakeWorld(folder)
        self.table = self.world.primary_key_table("planes")
        self.write("first", 0)

    def write(self, text: str, sequence: int) -> None:
        rows = pa.table({"id": range(20), "text": [text] * 20}, schema=PRIMARY_KEY_SCHEMA)
        self.world.storage.upsert(self.table.path, rows, "test", sequence)
        self.world.storage.take_kv_snapshots(self.table.path)
        self.writes = sequence + 1

    def supersede(self, text: str) -> None:
        """New KV snapshots, until none of those that there were is kept any more."""
        for _ in range(RETAINED):
            self.write(text, self.writes)

    def begin(self, **changes: int) -> SteppedRound:
        """The next round, also after a failure: its back-off is over. `changes` are made to its assignment."""
        self.world.clock.advance(600)
        tick(self.world.coordinator)
        return self.world.begin(self.table, **changes)

    def files(self) -> list[Path]:
        return sorted((self.world.storage.root / "kv-snapshots").glob("*/*"))

    def lake(self) -> dict[int, str]:
        rows = self.world.iceberg(self.table).scan().to_arrow()
        assert rows.num_rows == len(set(rows["id"].to_pylist()))
        return dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))

    def assert_released(self) -> None:
        wait_for("the lease to be released", lambda: not self.world.storage.leases())


@pytest.fixture
def snapshots(tmp_path: Path) -> Iterator[Snapshots]:
    snapshots = Snapshots(tmp_path)
    yield snapshots
    snapshots.world.close()


def test_all_snapshots_are_leased_while_any_is_read_and_released_when_an_executor_is_lost(snapshots: Snapshots) -> None:
    lost = snapshots.world.spark = LosesItsExecutor(snapshots.world)
    outcome = snapshots.begin().end()
    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class) == (RoundState.FAILED, "PySparkException")
    assert lost.leased_while_it_ran == [2]
    snapshots.assert_released()
    snapshots.world.spark = None
    assert snapshots.begin().end().state is RoundState.SUCCEEDED
    assert snapshots.lake() == dict.fromkeys(range(20), "first")
    snapshots.assert_released()


def test_a_fenced_round_releases_too(snapshots: Snapshots) -> None:
    begun = snapshots.begin().advance_to(act.BeginCommit)
    (lease,) = snapshots.world.storage.leases()
    assert len(lease.snapshots) == 2
    snapshots.world.restart()  # the coordinator's next epoch gives the table away again
    snapshots.world.clock.advance(600)
    tick(snapshots.world.coordinator)
    assert begun.runner.run().state is RoundState.FENCED
    snapshots.assert_released()


def test_a_coordinator_without_leases_gets_one_warning_and_rounds_go_on(snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Mapping[TableBucket, int]] = []

    def unimplemented(lease_id: str, ttl_ms: int, wanted: Mapping[TableBucket, int]) -> set[TableBucket]:
        requests.append(wanted)
        raise PeerTooOld("the service does not offer this call (UNIMPLEMENTED)")

    monkeypatch.setattr(snapshots.world.transport, "acquire_lease", unimplemented)
    with capture_logs() as logs:
        assert snapshots.begin().end().state is RoundState.SUCCEEDED
    assert [entry["log_level"] for entry in logs if "without leases" in entry["event"]] == ["warning"]
    assert (len(requests), snapshots.lake()) == (1, dict.fromkeys(range(20), "first"))


def test_a_snapshot_with_a_flipped_bit_fails_the_round_where_it_is_read_and_a_newer_one_mends_it(snapshots: Snapshots) -> None:
    damaged = snapshots.files()[-1]
    content = damaged.read_bytes()
    middle = len(content) // 2
    damaged.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])

    outcome = snapshots.begin().end()
    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class, outcome.phase) == (RoundState.FAILED, "DataCorrupt", Phase.READ)
    assert str(damaged) in outcome.error.message
    assert "checksum" in outcome.error.message
    assert "CALL sys.retry_tiering" in outcome.error.hint
    assert snapshots.lake() == {}
    snapshots.assert_released()

    snapshots.write("second", 1)
    asyncio.run(snapshots.world.coordinator.control.perform(RetryTiering(snapshots.table.path, caller="ann")))
    assert snapshots.begin().end().state is RoundState.SUCCEEDED
    assert snapshots.lake() == dict.fromkeys(range(20), "second")


def test_a_snapshot_that_is_lost_before_it_was_read_fails_the_round(snapshots: Snapshots) -> None:
    begun = snapshots.begin().advance_to(act.RunSplits)
    begun.runner.lose_snapshots("a KV snapshot was deleted after its lease had lapsed")
    outcome = begun.end()
    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class) == (RoundState.FAILED, "KvSnapshotGone")
    assert snapshots.begin().end().state is RoundState.SUCCEEDED


def test_a_snapshot_that_is_lost_after_it_was_read_changes_nothing(snapshots: Snapshots) -> None:
    begun = snapshots.begin().advance_to(act.BeginCommit)
    begun.runner.lose_snapshots("a KV snapshot was deleted after its lease had lapsed")
    assert begun.end().state is RoundState.SUCCEEDED
    assert snapshots.lake() == dict.fromkeys(range(20), "first")


def test_time_that_went_before_the_work_is_not_the_works(snapshots: Snapshots) -> None:
    begun = snapshots.begin().advance_to(act.RunSplits)
    snapshots.world.clock.advance(3_600)
    assert begun.end().state is RoundState.SUCCEEDED
    assert snapshots.lake() == dict.fromkeys(range(20), "first")


def test_each_round_brings_a_snapshot_into_the_lake_although_it_has_no_time(snapshots: Snapshots) -> None:
    rows = []
    for _ in range(2):
        outcome = snapshots.begin(max_duration_ms=0).end()
        rows.append((outcome.state, len(snapshots.lake())))
        snapshots.write("later", len(rows))  # there is always more
    (first, half), (second, whole) = rows
    assert first is RoundState.FORCE_FINISHED
    assert 0 < half < 20
    assert (second in (RoundState.FORCE_FINISHED, RoundState.SUCCEEDED), whole) == (True, 20)


def test_each_lease_that_finds_a_snapshot_superseded_leaves_one_log_line_and_one_event(snapshots: Snapshots) -> None:
    begun = snapshots.begin().advance_to(act.LeaseSnapshots)
    snapshots.supersede("second")
    with capture_logs() as logs:
        assert begun.end().state is RoundState.SUCCEEDED
    assert snapshots.lake() == dict.fromkeys(range(20), "second")

    lines = [entry for entry in logs if "could not be leased" in entry["event"]]
    events = [event for event in snapshots.world.store.events() if event.event_type == "KV_SNAPSHOTS_NOT_LEASED"]
    assert [(line["log_level"], line["table"]) for line in lines] == [("warning", str(snapshots.table.path))]
    assert [(event.table_name, event.round_id) for event in events] == [("planes", begun.assignment.round_id)]
    assert events[0].message == lines[0]["event"]
    assert set(events[0].details["snapshots"]) == {"0", "1"}
    assert "of bucket 0" in events[0].message


def test_a_round_that_never_gets_its_leases_says_so_each_time(snapshots: Snapshots) -> None:
    begun = snapshots.begin()
    for number in range(3):
        begun.advance_to(act.LeaseSnapshots)
        snapshots.supersede(f"write {number}")
        begun.runner.advance()
    outcome = begun.end()
    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class, outcome.phase) == (RoundState.FAILED, "KvSnapshotGone", Phase.LEASE)
    events = [event for event in snapshots.world.store.events() if event.event_type == "KV_SNAPSHOTS_NOT_LEASED"]
    assert len(events) == 3
