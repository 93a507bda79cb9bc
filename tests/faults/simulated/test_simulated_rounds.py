"""Thousands of simulated hours: whatever fails, no offset is lost or doubled, and a backlog ends once. A seed reproduces a failure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pytest
from faults.simulated.weakenings import with_fates

from support.lakes.memory_lake import Request, checksum_of
from support.lakes.swept_lake import SweptMemoryLake
from support.worlds.simulation import Simulation, recorded_everywhere
from tiering.coordinator.decisions import backlog
from tiering.coordinator.decisions.lake_acks import LakeContents, LakeSize
from tiering.coordinator.lake_repair.sweeper import Sweeper
from tiering.coordinator.tierers.commits import Commits
from tiering.coordinator.tierers.messages import round_ref_from_pb, text_offsets_from_pb
from tiering.lake.base import LakeView
from tiering.lake.layouts import Layout
from tiering.lake.maintenance import StoredFile
from tiering.lake.rules.base_check import Base
from tiering.model.tables import TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb

STEPS = 300


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three records a split, so that most rounds have several splits of one bucket."""
    monkeypatch.setattr("tiering.planning.plan_splits.SPLIT_BYTES", 24)


@pytest.mark.parametrize("block", range(4))
def test_no_fault_loses_or_doubles_an_offset(block: int) -> None:
    outcomes: set[str] = set()
    for seed in range(block * 50, block * 50 + 50):
        simulation = Simulation(seed, tierers=2 + seed % 2)
        for _ in range(STEPS):
            simulation.step()
        simulation.heal()
        outcomes |= set(simulation.outcomes)
    assert {
        "SUCCEEDED",
        "FORCE_FINISHED",
        "FENCED",
        "FAILED",
        "killed",
        "forged",
        "clock set",
    } <= outcomes  # else the faults were no faults
    assert {"swept", "LIVE", "OPEN_ROUND", "MAY_STILL_LAND", "OF_ANOTHER_TABLE"} <= outcomes  # else the sweep had nothing to decide
    assert {"reconciled", "CommitOutcomeUnknown"} <= outcomes  # else no lake table was lost
    assert {"backlog FIRST", "backlog RETIERED", "backlog OUTAGE"} <= outcomes  # else no backlog started anew
    assert {"fenced by an operator", "CANCELLED", "cancelled", "too_late"} <= outcomes  # else operators did nothing


class LakeWithALateTag(SweptMemoryLake):
    """A lake like Paimon: a tag follows the commit that it names some time later, and at times another commit comes first."""

    tag_moves_in_the_commit = False

    def view(self, path: TablePath) -> LakeView | None:
        if path in self.tables and len(self.tables[path].markers) % 3 == 0:
            self.move_tag(self.tables[path])
        return super().view(path)


def test_no_fault_loses_or_doubles_an_offset_in_a_lake_whose_tag_follows_the_commit() -> None:
    outcomes: set[str] = set()
    lagged = False
    for seed in range(40):
        lake = LakeWithALateTag()
        simulation = Simulation(seed, lake=lake)
        for _ in range(STEPS):
            simulation.step()
            lagged |= any(table.tag != lake.tiered(table) for table in lake.tables.values())
        simulation.heal()
        outcomes |= set(simulation.outcomes)
    assert lagged
    assert {"SUCCEEDED", "FENCED", "FAILED", "killed", "swept", "MAY_STILL_LAND", "reconciled"} <= outcomes


class CleanLake(SweptMemoryLake):
    """`proved`: how many proofs its markers had. Each counts and sums the rows of exactly the offsets that it is about."""

    layout = Layout.CLEAN
    proved = 0

    def receive(self, request: Request) -> bool:
        landed = super().receive(request)
        for bucket, proof in request.marker.proofs.items() if landed else ():
            tiered = request.marker.buckets[bucket].tiered
            assert (proof.rows, proof.checksum) == (tiered - proof.since, checksum_of(proof.since, tiered)), request
            self.proved += 1
        return landed


def test_no_fault_breaks_the_chain_of_a_clean_table() -> None:
    outcomes: set[str] = set()
    proved = 0
    for seed in range(40):
        lake = CleanLake()
        simulation = Simulation(seed, lake=lake)
        for _ in range(STEPS):
            simulation.step()
        simulation.heal()
        outcomes |= set(simulation.outcomes)
        proved += lake.proved
        for table in lake.tables.values():
            newest = table.markers.get(lake.tiered(table) or 0)
            for bucket, tiered in {} if newest is None else newest.buckets.items():
                assert newest is not None
                assert bucket in newest.proofs or tiered.start == tiered.tiered, (seed, newest)
    assert proved > 100
    assert {"SUCCEEDED", "FENCED", "FAILED", "killed", "reconciled", "CommitOutcomeUnknown"} <= outcomes


def test_after_a_quiet_hour_everybody_knows_what_the_lake_holds() -> None:
    simulation = Simulation(seed=7)
    for _ in range(STEPS):
        simulation.step()
    simulation.heal()
    simulation.heal()
    marker_ends = simulation.tiered()
    for recorded in recorded_everywhere(simulation):
        assert recorded is not None
        assert dict(recorded.offsets) == marker_ends


def forgets_the_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a round that ended for one that cannot commit any more."""
    ledger = Sweeper._ledger
    monkeypatch.setattr(Sweeper, "_ledger", lambda self, record: with_fates(ledger(self, record), granted_on=()))


def forgets_open_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every round for dead."""
    ledger = Sweeper._ledger
    monkeypatch.setattr(Sweeper, "_ledger", lambda self, record: with_fates(ledger(self, record), ended=True))


def forgets_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes what was granted for a renamed lake table for granted for the one in its place."""
    monkeypatch.setattr("tiering.lake.rules.sweep.is_granted_for", lambda *_: True)


def lists_live_files_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that lands between that list and the look at the tag counts as dead."""
    listed, files = SweptMemoryLake.live_files, SweptMemoryLake.stored_files
    early: dict[int, Collection[str]] = {}

    def stored_files(self: SweptMemoryLake, view: LakeView) -> Sequence[StoredFile]:
        early[id(self)] = listed(self, view)
        return files(self, view)

    monkeypatch.setattr(SweptMemoryLake, "stored_files", stored_files)
    monkeypatch.setattr(SweptMemoryLake, "live_files", lambda self, view: early[id(self)])


@pytest.mark.parametrize("weaken", [forgets_the_tag, forgets_open_rounds, forgets_the_table, lists_live_files_too_early])
def test_a_weaker_sweep_is_found_out(weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the simulator could not fail."""
    weaken(monkeypatch)

    def story(seed: int) -> None:
        simulation = Simulation(seed)
        for _ in range(STEPS):
            simulation.step()

    with pytest.raises(AssertionError, match="lacks"):
        list(map(story, range(200)))


def believes_acks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records what an ack of the running round says, as long as it goes on from what is on record."""

    def believe(self: Commits, request: pb.CommitLakeSnapshotRequest) -> None:
        ref = round_ref_from_pb(request.round)
        record = self._live(ref)
        if record.running is None or record.running.round_id != ref.round_id:
            return
        claimed = LakeContents(
            snapshot_id=request.marker.lake_snapshot_id,
            offsets=text_offsets_from_pb(request.marker.offsets),
            marker_round_id=ref.round_id,
            table_uuid=record.lake.table_uuid or "",
            acker=ref.round_id,
            head=None,
            size=LakeSize(None, None, None, None),
        )
        self._record(self._table(record), claimed, Base(None, None, False))

    monkeypatch.setattr(Commits, "commit_lake_snapshot", believe)


def believes_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records the lake table that a plan names."""
    monkeypatch.setattr(Commits, "names_another_lake_table", lambda self, request: False)
    forget_incarnations(monkeypatch)


def forget_incarnations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any process that knows the names of a round may speak for it."""
    monkeypatch.setattr("tiering.coordinator.tierers.messages.incarnation_from_pb", lambda message: None)
    monkeypatch.setattr("tiering.coordinator.tierers.heartbeats.incarnation_from_pb", lambda message: None)


@pytest.mark.parametrize("weaken", [believes_acks, believes_plans])
def test_a_coordinator_that_believes_what_it_is_told_is_found_out(
    weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)

    def story(seed: int) -> None:
        simulation = Simulation(seed)
        for _ in range(STEPS):
            simulation.step()

    with pytest.raises(AssertionError, match=r"is ahead of|is no lake table"):
        list(map(story, range(50)))


def test_a_backlog_that_ends_with_what_is_read_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than with what the lake has: then fenced rounds, and those whose commit never landed, end it too."""
    begun = backlog.begin_planned
    monkeypatch.setattr(backlog, "begin_planned", lambda change, ctx, stops: backlog.finish_passed(begun(change, ctx, stops), ctx, stops))
    finished = backlog._finish
    monkeypatch.setattr(backlog, "_finish", lambda change, *rest, **how: replace(finished(change, *rest, **how), record=change.record))

    def story(seed: int) -> None:
        simulation = Simulation(seed)
        for _ in range(STEPS):
            simulation.step()

    with pytest.raises(AssertionError, match=r"finished twice|goes on after its end"):
        list(map(story, range(50)))


def test_without_incarnations_nothing_is_lost_either() -> None:
    """Reading the lake keeps the rows: incarnations only decide whose rounds are disturbed."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        forget_incarnations(monkeypatch)
        for seed in range(25):
            simulation = Simulation(seed)
            for _ in range(STEPS):
                simulation.step()
