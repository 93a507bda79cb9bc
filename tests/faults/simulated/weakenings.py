"""For each fault of a simulated deployment: the function or guard that handles it, and its removal.

`also`: faults that have to come together with it. `unexpected`: how no round ends, and what is said of no table, as long as nothing is
taken out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from support.lakes.memory_lake import Request
from support.simulated.lake import SimulatedLake
from tiering.cluster.base import check_goes_on
from tiering.coordinator.decisions import round_lifecycle, table_lifecycle
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.moment import Moment, Timebase
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.round_lifecycle import RoundRef
from tiering.coordinator.lake_repair.sweeper import Ledger
from tiering.coordinator.memory.store import Writes
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import HistoryExpired, LakewardError, StoreError
from tiering.lake.base import LakeView
from tiering.lake.rules import history
from tiering.lake.rules.base_check import Base
from tiering.model.tables import BucketKey
from tiering.planning.plan_splits import Plan
from tiering.round.runner import RoundRunner
from tiering.round.steps import actions as act
from tiering.round.steps import machine, steps_to_commit, steps_to_write
from tiering.round.steps.round_state import Round, Step, failed


@dataclass(frozen=True)
class Weakening:
    """`target` is patched with `replacement`; one of the seeds from `first` on, and below `seeds`, sees it."""

    fault: str
    target: str
    replacement: Any
    also: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    knows_processes: bool = False
    seeds: int = 40
    first: int = 0

    @property
    def only(self) -> Collection[str]:
        """The faults of its stories."""
        return (self.fault, *self.also)


def nothing(*_: object, **__: object) -> None:
    """Does not do it."""


def with_fates(ledger: Ledger, **facts: Any) -> Ledger:
    """Returns the ledger with these facts in all fates."""
    return replace(ledger, fates={round_id: replace(fate, **facts) for round_id, fate in ledger.fates.items()})


def is_current_with_incarnations_only(record: TableRecord | None, ref: RoundRef) -> bool:
    return _is_current(record, ref) and ref.incarnation is not None


_is_current = round_lifecycle.is_current


def any_round_that_runs(record: TableRecord | None, ref: RoundRef) -> bool:
    """Accepts every caller: the fence is gone."""
    return record is not None and record.running is not None


def stores_nothing(self: TableRecords, writes: Writes) -> None:
    """Shows what it did not store."""


def takes_failed_writes_for_done(self: TableRecords, writes: Writes) -> None:
    with contextlib.suppress(StoreError):
        self.store.apply(self.epoch, writes)


def does_not_doubt(self: TableRecords, writes: Writes) -> None:
    """Goes on from what it had before a write with an unknown outcome."""
    self.store.apply(self.epoch, writes)


def fails_with_its_ack(state: Round, action: act.Action, error: LakewardError) -> Step:
    return failed(replace(state, sent=0), error) if isinstance(action, act.Ack) else _action_failed(state, action, error)


_action_failed = machine._action_failed


def takes_an_error_for_a_refusal(state: Round, action: act.Action, error: LakewardError) -> Step:
    """Deletes the files of a commit that may have landed."""
    return steps_to_commit.commit_not_sent(state, error) if isinstance(action, act.CommitLake) else _action_failed(state, action, error)


def passes_an_expired_history(view: LakeView, tiered: int, passed_head: int | None) -> None:
    with contextlib.suppress(HistoryExpired):
        _check_history(view, tiered, passed_head)


_check_history = history.check_history


def lets_panics_through(self: RoundRunner, action: act.Action) -> act.Event:
    try:
        self._check_cancelled(action)
        return self._effect(action)
    except LakewardError as error:
        return act.ActionFailed(action, error)


def same_base(base: Base, *_: object) -> Base:
    return base


def discovered_anew(ctx: Any, info: Any, earlier: TableRecord | None = None) -> Change:
    return _discover(ctx, info, None)


_discover = table_lifecycle.discover


def grants_cancelled_rounds(ctx: Any, record: TableRecord, request: Any) -> Change:
    assert record.round is not None
    return _grant(ctx, replace(record, round=replace(record.round, cancelled_by=None)), request)


_grant = round_lifecycle.grant


def lands_anyhow(self: SimulatedLake, request: Request) -> bool:
    """Without the compare-and-set on head and newest tiering commit."""
    table = self.tables.get(request.path)
    return _receive(self, request if table is None else replace(request, head=table.head, tiered=self.tiered(table), identity=None))


_receive = SimulatedLake.receive


def acks_nothing(state: Round, event: act.LakeRead) -> Step:
    after, action = _base_read(state, event)
    return (after, steps_to_write._read_log(after)) if isinstance(action, act.Ack) else (after, action)


_base_read = steps_to_write.base_read


def by_the_wall_clock(self: Timebase) -> Moment:
    return Moment(self._clock.now(), self._clock.now())


def any_goes_on(table: Any, recorded: Any, snapshot: Any, living: Any) -> None:
    _check_goes_on(table, recorded, snapshot, None)


_check_goes_on = check_goes_on


def replaces_by_name(plan: Plan, **_: object) -> frozenset[BucketKey]:
    """Whatever stands under a partition's value goes, also rows of a dropped partition of that name."""
    return plan.untiered


BASE_CHECK = "tiering.lake.rules.base_check."
ROUNDS = "tiering.coordinator.decisions.round_lifecycle."
TABLES = "tiering.coordinator.decisions.table_lifecycle."
STORED = "tiering.coordinator.memory.table_records.TableRecords._apply"
HEARTBEATS = "tiering.coordinator.tierers.heartbeats.Heartbeats."

WEAKENINGS = (
    Weakening("request-repeated", ROUNDS + "_granted_for", lambda row: object(), unexpected=("FENCED",)),
    Weakening("request-lost", "tiering.errors.ServiceUnreachable.retryable", False),
    Weakening("answer-lost", ROUNDS + "_granted_for", lambda row: object(), unexpected=("FENCED",)),
    Weakening("tierer-fenced", HEARTBEATS + "_is_fenced", lambda *_: False),
    Weakening("tierer-killed", ROUNDS + "expire", nothing),
    Weakening("tierer-asleep", ROUNDS + "is_current", any_round_that_runs),
    Weakening("tierer-older", ROUNDS + "is_current", is_current_with_incarnations_only),
    Weakening("round-cancelled", ROUNDS + "grant", grants_cancelled_rounds),
    Weakening("coordinator-killed", STORED, stores_nothing),
    Weakening("coordinator-restarted", STORED, stores_nothing),
    Weakening("store-write-failed", STORED, takes_failed_writes_for_done, also=("coordinator-restarted",)),
    Weakening("store-answer-lost", STORED, does_not_doubt),
    Weakening("cluster-unreachable", "tiering.errors.ClusterUnavailable.retryable", False),
    Weakening("record-answer-lost", "tiering.round.steps.machine._action_failed", fails_with_its_ack, unexpected=("FAILED",)),
    Weakening("cluster-record-lost", "tiering.round.steps.steps_to_write.base_read", acks_nothing),
    Weakening("ends-stale", "tiering.round.runner.LOG_REREADS", 0),
    Weakening("bucket-without-ends", "tiering.planning.plan_splits._check_all_told", nothing),
    Weakening("log-cut", "tiering.planning.plan_splits.check_gaps", nothing),
    Weakening("log-rewritten", "tiering.round.steps.steps_to_write.check_same_log", nothing),
    Weakening("table-dropped", TABLES + "drop", nothing),
    Weakening("table-recreated", BASE_CHECK + "_check_identity", nothing),
    Weakening("table-untierable", TABLES + "redefine", nothing),
    Weakening("column-added", ROUNDS + "_is_outdated", lambda *_: False, also=("table-untierable",)),
    Weakening("lake-switched", TABLES + "discover", discovered_anew),
    Weakening("partition-dropped", "support.simulated.cluster.check_goes_on", any_goes_on),
    Weakening("partition-remade", "tiering.round.runner.replaced_buckets", replaces_by_name, also=("partition-dropped",)),
    Weakening("lake-unreachable", "tiering.errors.LakeUnavailable.retryable", False),
    Weakening("lake-disk-full", "tiering.round.tasks.split_work._SplitWork.abort", nothing),
    Weakening("library-panic", "tiering.round.runner.RoundRunner._carry_out", lets_panics_through),
    Weakening("lake-compacted", "tiering.round.steps.steps_to_commit.check_same_base", same_base, unexpected=("CommitOutcomeUnknown",)),
    Weakening(
        "lake-expired",
        BASE_CHECK + "check_history",
        passes_an_expired_history,
        also=("lake-rolled-back", "lake-compacted"),
        first=45,
        seeds=60,
    ),
    Weakening("lake-rolled-back", BASE_CHECK + "check_history", nothing),
    Weakening("lake-untagged", BASE_CHECK + "_check_untiered", nothing),
    Weakening("lake-table-dropped", BASE_CHECK + "_check_absent", nothing),
    Weakening("lake-table-renamed", BASE_CHECK + "_check_absent", nothing),
    Weakening("record-refused", "tiering.coordinator.calls.skip_record._skip", nothing),
    Weakening("call-repeated", "tiering.coordinator.memory.idempotency.IdempotentOperations.answer", nothing),
    # With seed 0 five requests in a row are lost, more than are sent.
    Weakening(
        "commit-request-lost", "tiering.round.steps.steps_to_commit.COMMIT_ATTEMPTS", 1, unexpected=("CommitOutcomeUnknown",), first=1
    ),
    Weakening("commit-answer-lost", "tiering.round.steps.machine._action_failed", takes_an_error_for_a_refusal),
    Weakening("clock-ahead", "tiering.coordinator.decisions.moment.Timebase.now", by_the_wall_clock),
    Weakening("clock-back", "tiering.coordinator.decisions.moment.Timebase.now", by_the_wall_clock),
    Weakening("tierer-doubled", "tiering.coordinator.tierers.heartbeats.incarnation_from_pb", nothing, knows_processes=True),
)

OF_THE_SIMULATION = (
    Weakening("coordinator-doubled", "support.worlds.memory_store.MemoryStore._check", nothing),
    Weakening("commit-request-late", "support.simulated.lake.SimulatedLake.receive", lands_anyhow),
    Weakening("rewrite-overtaken", "support.simulated.lake.SimulatedLake.fits", lambda *_: True),
)
"""Guards of the simulated store and lake: those of the real ones are taken out in `test_parts_held_elsewhere`."""
