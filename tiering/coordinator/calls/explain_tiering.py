"""`CALL sys.explain_tiering`: what a round would read now, and all reasons why none begins. It changes nothing.

It reads the lake and the cluster's log like a round, with the same rules: the base check, then the plan. It creates no lake table and
leases no KV snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tiering import errors
from tiering.cluster.capabilities import RewritableLogs
from tiering.cluster.log_state import LogState, read_log_state
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions.backlog import assigned_backlog
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.table_lifecycle import BacklogTurns, queued_before
from tiering.coordinator.reasons import HOLDS_UP, tierer_room, why_not_now
from tiering.counts import counted
from tiering.lake.maintenance import ColumnCheck
from tiering.lake.rules.base_check import Base
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, TableInfo
from tiering.planning.check_log import begins_late, check_bucket_counts, check_same_log
from tiering.planning.explain_plan import PlannedBuckets, explain_plan
from tiering.planning.plan_splits import Plan, plan_round, readable_splits
from tiering.procedures.explain_tiering import Decision, ExplainTiering, Explanation


def explain_tiering(parts: CallParts, request: ExplainTiering) -> tuple[Explanation, ...]:
    """Returns the explanation. A problem of lake or log is a line. Raises UnknownTable, UnknownDatabase, ClusterUnavailable."""
    info = parts.cluster.table(request.path)
    if not info.lake_enabled:
        return (Explanation(Decision.REFUSE, f"its lake is disabled. {errors.LakeDisabled.default_hint}"),)
    record = parts.table_records.get(info.table_id)
    if record is None:
        parts.discovery.refresh()
        record = parts.table_records.get(info.table_id)
    if record is None:
        return (Explanation(Decision.WAIT, "the coordinator has not discovered the table yet"),)
    reasons = _reasons(parts, record)
    if info.refusal is not None:
        reasons.append(Explanation(Decision.REFUSE, f"it cannot be tiered: {info.refusal}"))
    times, buckets = _explained(parts, record, info)
    reasons += times
    if not any(line.decision in HOLDS_UP for line in reasons):
        reasons.insert(0, Explanation(Decision.BEGIN, "nothing prevents it: a round begins when a tierer asks for the next table"))
    return (*reasons, *buckets)


def _reasons(parts: CallParts, record: TableRecord) -> list[Explanation]:
    """Returns the reasons from the records and the running processes."""
    records = parts.table_records
    with records.changing():  # so that the queue and the rounds are of one moment
        waiting, running = records.waiting(), len(records.running())
    now = records.now()
    room = tierer_room(parts.tierers.all(), running, now)
    turns = BacklogTurns(apart=records.options.backlog_waits_apart)
    before = queued_before(waiting, record, now, turns) if record.state is TableState.PENDING else 0
    with_numbers = parts.grants.current().sees_numbers
    return why_not_now(record, now, room, records.options, queued_before=before, with_numbers=with_numbers)


def _explained(parts: CallParts, record: TableRecord, info: TableInfo) -> tuple[list[Explanation], list[Explanation]]:
    """Returns the lines from lake and log: about the table, and about its buckets."""
    try:
        base = parts.lakes.base(record, info)
        about = list(_about_lake(parts, record, info, base))
        log_state = read_log_state(parts.cluster, info, _tiered(base))
        plan, log_state = _plan(parts, record, info, base, log_state)
        buckets = _buckets(parts, info, base, log_state, plan)
    except errors.LakewardError as error:
        return [_obstacle(error)], []
    return [*about, *_about_plan(parts, base, plan)], buckets


def _tiered(base: Base) -> dict[BucketKey, int]:
    return {bucket: tiered.tiered for bucket, tiered in base.ranges.items()}


def _about_lake(parts: CallParts, record: TableRecord, info: TableInfo, base: Base) -> Iterator[Explanation]:
    lake = parts.lakes.of(info.lake_format)
    try:
        lake.check_schema(info)
        changes = lake.column_changes(info, base.view) if base.view is not None and isinstance(lake, ColumnCheck) else ()
    except errors.LakewardError as error:
        yield _obstacle(error)
    else:
        if changes:
            yield Explanation(Decision.NOTE, f"the columns of the lake table are changed first: {', '.join(changes)}")
    if base.view is None:
        yield Explanation(Decision.NOTE, "there is no lake table yet: the first round with rows creates it")
    if base.ahead and base.newest is not None:
        yield Explanation(Decision.NOTE, f"the lake is ahead of the record: a round adopts its snapshot {base.newest} first")


def _plan(parts: CallParts, record: TableRecord, info: TableInfo, base: Base, log_state: LogState) -> tuple[Plan, LogState]:
    """Returns the plan like a round makes it.

    Where leaders of buckets may have moved, a sign of a damaged log is believed only after a second read.
    """
    rereads_log = isinstance(parts.cluster, RewritableLogs)
    try:
        plan = _checked_plan(record, info, base, log_state)
    except (errors.LogTruncated, errors.LogBehindLake, errors.LogRewritten):
        if not rereads_log:
            raise
    else:
        if not (rereads_log and begins_late(base.ranges, log_state.ends)):
            return plan, log_state
    log_state = read_log_state(parts.cluster, info, _tiered(base), settle=True)
    return _checked_plan(record, info, base, log_state), log_state


def _checked_plan(record: TableRecord, info: TableInfo, base: Base, log_state: LogState) -> Plan:
    check_bucket_counts(info, log_state.partitions)
    plan = plan_round(info, base.ranges, log_state.ends, log_state.partitions, log_state.snapshots, assigned_backlog(record))
    check_same_log(info, base.ranges, base.marker, log_state.traces)
    return plan


def _about_plan(parts: CallParts, base: Base, plan: Plan) -> Iterator[Explanation]:
    if not plan.splits:
        outcome = "would commit a snapshot without rows, which repairs the cluster's record" if base.needs_commit else "would end as EMPTY"
        yield Explanation(Decision.NOTE, f"nothing is new: a round {outcome}")
        return
    splits, size = len(plan.splits) + len(plan.snapshots), plan.estimated_bytes
    text = f"a round would read {counted(sum(split.records for split in plan.splits), 'record')} of the log"
    text += f" and {counted(len(plan.snapshots), 'KV snapshot')}" if plan.snapshots else ""
    text += f" in {counted(splits, 'split')}" + ("" if size is None else f", some {size:,} bytes")
    is_inline = size is not None and size <= parts.table_records.options.inline_round_bytes
    yield Explanation(Decision.NOTE, f"{text}, {'in the process of its tierer' if is_inline else 'in a Spark job'}")


def _buckets(parts: CallParts, info: TableInfo, base: Base, log_state: LogState, plan: Plan) -> list[Explanation]:
    readable = readable_splits(plan.splits, partial(parts.cluster.reader, info))
    names = {partition.partition_id: partition.partition_name for partition in log_state.partitions}
    splits = [split for split, _ in readable.splits]
    return explain_plan(PlannedBuckets(info, plan, base.ranges, log_state.ends, names, splits, readable.stopped))


def _obstacle(error: errors.LakewardError) -> Explanation:
    """Returns the error with which a round would fail, and its bucket."""
    decision = Decision.WAIT if error.retryable else Decision.REFUSE
    hint = f" {error.hint}" if error.hint else ""
    text = f"a round would fail{' and be retried' if error.retryable else ''}: {error.error_class}: {error.message}{hint}"
    bucket = error.ids.get("bucket")
    return Explanation(decision, text, bucket_id=None if bucket is None else BucketKey.parse(bucket).bucket_id)
