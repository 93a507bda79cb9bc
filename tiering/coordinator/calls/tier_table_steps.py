"""The steps of a CALL between its waits. They block: on the store, the cluster and the lake, never under the book's lock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from tiering import errors
from tiering.cluster.base import Cluster
from tiering.coordinator.calls.tier_table_rows import (
    Goal,
    cancelled_error,
    empty_row,
    error_of,
    goal_again,
    goal_fields,
    in_context,
    progress_of,
    row,
)
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.decisions.moment import milliseconds
from tiering.coordinator.decisions.operator_requests import check_callable, reach_stops
from tiering.coordinator.decisions.records import ErrorInfo, RoundRecord, TableRecord, from_text, to_text
from tiering.coordinator.interface import Progress, TierTable, TierTableResult
from tiering.coordinator.memory.idempotency import IdempotentOperations
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.coordinator.observing.lag import LagObserver
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.lake.rules.base_check import Base, reaches
from tiering.model.rounds import RoundState
from tiering.model.states import TableState
from tiering.model.tables import TableInfo, TableType

_log = structlog.get_logger(__name__)

LOOK_AGAIN_MS = 1_000
"""Pause between looks at a lake that does not answer."""


@dataclass(frozen=True)
class Ended:
    """The call is done."""

    result: TierTableResult


@dataclass(frozen=True)
class Waiting:
    """Not yet. `look_at`: look again then (steady time), even if nothing changes."""

    goal: Goal
    progress: Progress
    look_at: datetime | None = None


class CallSteps:
    """One call is a `prepare`, a `start`, and a `look` whenever something changed."""

    def __init__(
        self,
        table_records: TableRecords,
        cluster: Cluster,
        lakes: Lakes,
        discovery: Discovery,
        observer: LagObserver,
        operations: IdempotentOperations,
    ) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._lakes = lakes
        self._discovery = discovery
        self._observer = observer
        self._operations = operations

    def begin(self, call: TierTable) -> TierTableResult | Goal:
        """The result, if nothing is left to do; else the goal, with the round that was joined or queued for it.

        A known idempotency key attaches to the earlier call's goal, or ends as that one did. Raises UnknownTable,
        UnknownDatabase, LakeDisabled, TablePaused, ClusterUnavailable, InvalidArgument (the key names something else).
        """
        earlier = self._operations.known(call)
        if earlier is not None:
            if earlier.error is not None:
                raise error_of(earlier.error)
            return self._operations.answer(call) or goal_again(call, earlier, self._table_records.now().steady)
        goal = self._goal(call)
        record = self._live(goal)
        check_callable(record)
        # A failed table gets its round even with nothing to do: only a round can clear the failure.
        if record.state is not TableState.FAILED and (base := self._reached(record, goal)) is not None:
            return self._nothing_to_do(call, goal, record, base)
        if call.dry_run:
            return self._would_do(call, goal, record)
        return self._ask(call, goal)

    def _goal(self, call: TierTable) -> Goal:
        since = self._table_records.now().steady
        info = self._cluster.table(call.path)
        if not info.lake_enabled:
            raise errors.LakeDisabled(f"{call.path} has its lake disabled", table_id=info.table_id)
        record = self._record(info)
        offsets = self._cluster.offsets(info)
        # What a log lost of its beginning is out of reach; of a primary-key table the KV snapshot still has it.
        starts = {bucket: log.log_start for bucket, log in offsets.items() if info.table_type is TableType.LOG}
        return Goal(
            path=call.path,
            table_id=info.table_id,
            targets=to_text({bucket: log.log_end for bucket, log in offsets.items()}),
            log_starts=to_text(starts),
            started_since=since,
            lag_ms_before=self._lag_ms(record),
            seen_snapshot_id=record.lake.snapshot_id,
        )

    def look(self, call: TierTable, goal: Goal) -> Ended | Waiting:
        """Where the call is. Raises the error of its round, TablePaused while it is queued, UnknownTable once it is gone."""
        if self._table_records.fenced is not None:
            raise self._table_records.fenced
        record = self._live(goal)
        current = self._round(record, goal)
        if current is not None and current.state.is_final:
            return self._look_at_ended(call, goal, record, current)
        if current is None and (record.call is None or record.call.round_id != goal.round_id):
            return self._ask_again(call, goal)
        if record.pause is not None and (current is None or current.state is RoundState.QUEUED):
            check_callable(record)
        return self._look_at_lake(call, goal, record) or Waiting(goal, progress_of(record, current))

    def as_it_stands(self, goal: Goal) -> TierTableResult:
        """The row of a call that ends before its round does: the table's state, and the round that goes on."""
        record = self._live(goal)
        assert record.state is not None
        return row(
            goal, record.state.value, record, self._round(record, goal), self._table_records.now(), lag_ms_after=self._lag_ms(record)
        )

    def _look_at_ended(self, call: TierTable, goal: Goal, record: TableRecord, ended: RoundRecord) -> Ended | Waiting:
        if ended.state is RoundState.FAILED and ended.error is not None:
            raise self._end_badly(call, goal, in_context(ended.error, record.path, ended.round_id))
        if ended.state is RoundState.CANCELLED:
            raise self._end_badly(call, goal, cancelled_error(record, ended, self._table_records.now().wall))
        try:
            base = self._check(record, goal)
        except errors.TransientTieringError as error:
            return Waiting(
                goal, Progress(f"the round ended; looking at the lake: {error.message}"), self._table_records.now().after(LOOK_AGAIN_MS)
            )
        if base is None:
            return self._ask_again(call, goal)
        if ended.state is RoundState.FENCED:
            return Ended(self._reached_by_another(call, goal, record, base))
        return Ended(self._end_well(call, goal, ended, ended.state, record, base))

    def _look_at_lake(self, call: TierTable, goal: Goal, record: TableRecord) -> Ended | Waiting | None:
        """Done before its own round ended, by whichever round: only the lake counts. None = nothing new to look at."""
        lake, now = record.lake, self._table_records.now()
        if lake.snapshot_id == goal.seen_snapshot_id or not reach_stops(lake.offsets, goal.targets, goal.log_starts):
            return None
        running = record.running
        # An ack from the future is from before the clock was set back: its grace is over too.
        grace = self._table_records.options.stats_grace_ms - milliseconds(abs(now.wall - (record.last_tiered_time or now.wall)))
        if running is not None and running.acked and grace > 0:
            # Its statistics come with the tierer's next heartbeat, if it still lives.
            return Waiting(goal, Progress(f"round {running.round_id} of {record.path} is in the lake", running.progress), now.after(grace))
        base = self._reached(record, goal)
        if base is None:
            return Waiting(replace(goal, seen_snapshot_id=lake.snapshot_id), progress_of(record, self._round(record, goal)))
        return Ended(self._reached_by_another(call, goal, record, base))

    def _reached_by_another(self, call: TierTable, goal: Goal, record: TableRecord, base: Base) -> TierTableResult:
        """The row is about the round that the marker names, as far as it is known."""
        round_id = base.marker.round_id if base.marker else None
        reached = replace(goal, round_id=round_id)
        return self._end_well(call, reached, self._round(record, reached), RoundState.SUCCEEDED, record, base)

    def _nothing_to_do(self, call: TierTable, goal: Goal, record: TableRecord, base: Base) -> TierTableResult:
        snapshot_id = base.view.tag if base.view else None
        result = empty_row(goal, record, snapshot_id, self._table_records.now(), self._lag_ms(record))
        self._ended(call, goal, result)
        return result

    def _would_do(self, call: TierTable, goal: Goal, record: TableRecord) -> TierTableResult:
        """A dry run: the round that would be joined, or QUEUED."""
        called = operator_requests.call(
            self._table_records.context(call.caller), record, goal.targets, goal.log_starts, recorded=record.lake.offsets
        )
        joined = self._round(record, replace(goal, round_id=called.round_id)) if called.joined else None
        state = joined.state if joined else RoundState.QUEUED
        shown = replace(goal, round_id=joined.round_id if joined else None)
        return row(shown, state.value, record, joined, self._table_records.now(), lag_ms_after=goal.lag_ms_before)

    def _ask(self, call: TierTable, goal: Goal) -> Goal:
        """Joins or queues a round, and stores the operation together with it."""
        with self._table_records.changing():
            record = self._live(goal)
            called = operator_requests.call(
                self._table_records.context(call.caller),
                record,
                goal.targets,
                goal.log_starts,
                recorded=record.lake.offsets,
                idempotency_key=call.idempotency_key,
            )
            hoped = replace(goal, round_id=called.round_id)
            begun = self._operations.begun(call, goal.table_id, called.round_id, goal_fields(goal))
            self._table_records.put(called.change, operations=begun)
        return hoped

    def _ask_again(self, call: TierTable, goal: Goal) -> Waiting:
        """The hoped-for round ended short of the goal: it stopped early, was fenced, or a user rolled the lake back."""
        return Waiting(self._ask(call, goal), Progress(f"another round of {goal.path} follows"), self._table_records.now().steady)

    def _end_well(
        self, call: TierTable, goal: Goal, ended: RoundRecord | None, state: RoundState, record: TableRecord, base: Base
    ) -> TierTableResult:
        snapshot_id = base.view.tag if base.view else None
        lag = self._lag_ms(record)
        result = row(goal, state.value, record, ended, self._table_records.now(), lake_snapshot_id=snapshot_id, lag_ms_after=lag)
        self._ended(call, goal, result)
        return result

    def _end_badly(self, call: TierTable, goal: Goal, error: ErrorInfo) -> errors.LakewardError:
        self._ended(call, goal, error)
        return error_of(error)

    def _ended(self, call: TierTable, goal: Goal, outcome: TierTableResult | ErrorInfo) -> None:
        with self._table_records.changing():
            ended = self._operations.done(call, goal.table_id, outcome, goal.round_id, goal_fields(goal))
            if ended:
                self._table_records.put(operations=ended)

    def _reached(self, record: TableRecord, goal: Goal) -> Base | None:
        """As `_check`, for a look on the way: what is wrong with the lake is for the round to say."""
        try:
            return self._check(record, goal)
        except (errors.PermanentTieringError, errors.TransientTieringError) as error:
            _log.debug("the lake table does not pass the check now", table=str(record.path), error=error.message)
            return None

    def _check(self, record: TableRecord, goal: Goal) -> Base | None:
        """The lake table, if it passes the base check now and has reached the goal. Raises what the base check raises."""
        info = self._cluster.table(record.path)
        if info.table_id != goal.table_id:
            raise self._gone(goal)
        base = self._lakes.base(record, info)
        living = {partition.partition_id for partition in self._cluster.partitions(info)} if info.partition_keys else ()
        return base if reaches(base.marker, from_text(goal.targets), from_text(goal.log_starts), living) else None

    def _lag_ms(self, record: TableRecord) -> int | None:
        seen = self._observer.observe(record)
        return None if seen is None else seen.age_ms(self._table_records.now().wall)

    def _round(self, record: TableRecord, goal: Goal) -> RoundRecord | None:
        """The round that the call hopes for; None = queued behind the running one, or unknown."""
        if record.round is not None and record.round.round_id == goal.round_id:
            return record.round
        return self._table_records.store.round(goal.round_id) if goal.round_id else None

    def _record(self, info: TableInfo) -> TableRecord:
        """Its record, also if the table was made a moment ago."""
        record = self._table_records.get(info.table_id)
        if record is None:
            self._discovery.run()
            record = self._table_records.get(info.table_id)
        if record is None:
            raise errors.UnknownTable(f"{info.path} is not a lake table any more", table_id=info.table_id)
        return record

    def _live(self, goal: Goal) -> TableRecord:
        record = self._table_records.get(goal.table_id)
        if record is None:
            raise self._gone(goal)
        return record

    def _gone(self, goal: Goal) -> errors.UnknownTable:
        return errors.UnknownTable(f"{goal.path} was dropped, made anew, or its lake disabled", table_id=goal.table_id)
