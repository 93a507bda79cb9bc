"""Values of the model survive the way through a message, each of them with everything set and with everything absent."""

from __future__ import annotations

import typing
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tiering.instants import from_milliseconds, to_milliseconds
from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.rounds import IN_THE_TIERER, Assignment, PhaseTimes, RanOn, RecordedLakeSnapshot, RoundPlace, RoundStats
from tiering.model.splits import (
    AssignedBacklog,
    SplitPosition,
    SplitProgress,
    SplitState,
    TieringLogSplit,
    TieringSnapshotSplit,
    TieringSplit,
)
from tiering.model.status import TableStatus
from tiering.model.tables import BucketKey, TableBucket, TablePath
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder, UpkeepStats
from tiering.redaction.redact import NAME_TEXT_LIMIT
from tiering.rpc.v1.coordinator_pb2 import PbRoundPlace, PbRoundStats, PbUpkeepStats
from tiering.rpc.v1.status_pb2 import ListTieringStatusesResponse, PbTableTieringStatus
from tiering.wire.codec import time_from_pb, time_to_pb
from tiering.wire.model_codecs import (
    ASSIGNMENT,
    BUCKET,
    LEASE,
    OFFSETS,
    PATH,
    ROUND_STATS,
    SNAPSHOTS_TO_LEASE,
    TABLE_BUCKET,
    split_from_pb,
    split_to_pb,
    stats_from_pb,
    status_to_pb,
    statuses_from_pb,
)

ORDERS = TablePath("sales", "orders")
NOON = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
WHOLE_MS = NOON.replace(microsecond=123_000)
BUCKETS = {BucketKey(None, 0): 5, BucketKey(3, 1): 7}
IN_MS = ("last_tiered_time", "last_error_time")


def status(**absent: None) -> TableStatus:
    """A status in which no field is empty, but for those that are `absent`."""
    samples: dict[Any, Any] = {str: "text", int: 7, bool: True, float: 0.5, datetime: NOON}
    values = {name: samples[kind] for name, (kind, _) in status_types().items()}
    return TableStatus(**(values | dict.fromkeys(IN_MS, WHOLE_MS) | absent))


def status_types() -> dict[str, tuple[Any, bool]]:
    """By field of TableStatus its type, and whether it may be None."""
    hints = typing.get_type_hints(TableStatus)
    types = {}
    for name, hint in hints.items():
        kinds = [kind for kind in typing.get_args(hint) or (hint,) if kind is not type(None)]
        types[name] = (kinds[0], type(None) in typing.get_args(hint))
    return types


def read_back(*statuses: TableStatus) -> list[TableStatus]:
    return statuses_from_pb(ListTieringStatusesResponse(tiering_statuses=map(status_to_pb, statuses), observed_time=time_to_pb(NOON)))


def test_a_status_survives_with_every_field_set_and_with_every_field_absent_that_may_be() -> None:
    empty = status(**{name: None for name, (_, nullable) in status_types().items() if nullable})
    assert read_back(status(), empty) == [status(), empty]


def test_what_the_proposal_requires_is_always_on_the_wire() -> None:
    message = PbTableTieringStatus.FromString(status_to_pb(status()).SerializeToString())
    assert all(message.HasField(name) for name in ("table_path", "status", "tiering_epoch"))
    zero = status_to_pb(TableStatus(**{field.name: getattr(status(), field.name) for field in fields(TableStatus)} | {"tiering_epoch": 0}))
    assert PbTableTieringStatus.FromString(zero.SerializeToString()).HasField("tiering_epoch")


def test_a_status_has_0_where_the_message_has_nothing() -> None:
    message = PbTableTieringStatus(table_path=PATH.to_pb(ORDERS))
    (read,) = statuses_from_pb(ListTieringStatusesResponse(tiering_statuses=[message], observed_time=time_to_pb(NOON)))
    assert (read.status, read.tiering_epoch, read.last_tiered_time, read.error_count) == ("", 0, None, 0)


@pytest.mark.parametrize("time", [NOON, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)])
def test_times_survive(time: datetime) -> None:
    assert time_from_pb(time_to_pb(time)) == time
    assert timedelta(0) <= time - from_milliseconds(to_milliseconds(time)) < timedelta(milliseconds=1)


def test_paths_buckets_and_offsets_survive() -> None:
    assert PATH.from_pb(PATH.to_pb(ORDERS)) == ORDERS
    assert [BUCKET.from_pb(BUCKET.to_pb(bucket)) for bucket in BUCKETS] == list(BUCKETS)
    assert OFFSETS.from_pb(OFFSETS.to_pb(BUCKETS)) == BUCKETS
    assert OFFSETS.to_pb(BUCKETS) == OFFSETS.to_pb(dict(reversed(BUCKETS.items())))


@pytest.mark.parametrize(
    "assignment",
    [
        Assignment(1, ORDERS, 2, 3, "r1"),
        Assignment(1, ORDERS, 2, 3, "r1", "uuid", 9, RecordedLakeSnapshot(8, BUCKETS), 1_000),
        Assignment(1, ORDERS, 2, 3, "r1", "uuid", 0, RecordedLakeSnapshot(0, {}), 0),
        Assignment(1, ORDERS, 2, 3, "r1", upkeep=UpkeepOrder()),
        Assignment(1, ORDERS, 2, 3, "r1", upkeep_paused=True),
        Assignment(1, ORDERS, 2, 3, "r1", moved_back=BUCKETS, backlog=AssignedBacklog(BUCKETS, True, frozenset(BUCKETS))),
        Assignment(1, ORDERS, 2, 3, "r1", backlog=AssignedBacklog(begins=True, touched=frozenset())),
        Assignment(1, ORDERS, 2, 3, "r1", upkeep=UpkeepOrder(False, True, frozenset(), True, ExpiryOrder(), 0)),
        Assignment(1, ORDERS, 2, 3, "r1", upkeep=UpkeepOrder(partitions=frozenset({"a", "b"}), expiry=ExpiryOrder(NOON, 0))),
        Assignment(1, ORDERS, 2, 3, "r1", skipped={bucket: {3: None, 70 + number: "5f"} for number, bucket in enumerate(BUCKETS)}),
    ],
)
def test_an_assignment_survives(assignment: Assignment) -> None:
    assert ASSIGNMENT.from_pb(ASSIGNMENT.to_pb(assignment), coordinator_epoch=3) == assignment


def test_statistics_survive_and_are_never_negative() -> None:
    times = PhaseTimes(**{part.name: number for number, part in enumerate(fields(PhaseTimes))})
    counts = range(1, len(fields(RoundStats)) - 2)
    for place in (None, IN_THE_TIERER, RoundPlace(RanOn.SPARK, "app-1", 0), RoundPlace(RanOn.SPARK, "app-1")):
        stats = RoundStats(*counts, times, place)
        assert stats_from_pb(ROUND_STATS.to_pb(stats)) == stats
    assert stats_from_pb(PbRoundStats(splits=-1, deletes_written=-5)) == RoundStats()
    assert stats_from_pb(PbRoundStats(place=PbRoundPlace(ran_on="A_NEWER_PLACE"))) == RoundStats()
    hostile = stats_from_pb(PbRoundStats(place=PbRoundPlace(ran_on="SPARK", spark_application_id="a\x1b[2J\n" + "b" * 5_000))).place
    assert hostile is not None
    assert hostile.spark_application_id is not None
    assert (hostile.spark_application_id.isprintable(), len(hostile.spark_application_id) <= NAME_TEXT_LIMIT) == (True, True)


def test_what_upkeep_did_survives_and_is_never_negative() -> None:
    complete = UpkeepStats(**{count.name: number for number, count in enumerate(fields(UpkeepStats), start=1)})
    for upkeep in (UpkeepStats(), UpkeepStats(manifests_before=0, bytes_left=0), complete):
        stats = RoundStats(upkeep=upkeep)
        assert stats_from_pb(ROUND_STATS.to_pb(stats)) == stats
    assert stats_from_pb(PbRoundStats(upkeep=PbUpkeepStats(files_after=-1, bytes_left=-5))).upkeep == UpkeepStats(bytes_left=0)


@pytest.mark.parametrize("position", [SplitPosition(), SplitPosition(SplitState.DONE, 2, "executor", 0, 7)])
@pytest.mark.parametrize(
    "split",
    [
        TieringLogSplit(ORDERS, BucketKey(3, 1), "eu", 5, 7, 6),
        TieringLogSplit(ORDERS, BucketKey(None, 0), None, 0, 0, None),
        TieringSnapshotSplit(ORDERS, BucketKey(3, 1), "eu", 5, 7, 0),
        TieringSnapshotSplit(ORDERS, BucketKey(None, 0), None, 0, 0, None),
    ],
)
def test_a_split_survives(split: TieringSplit, position: SplitPosition) -> None:
    message = split_to_pb(4, SplitProgress(split, position))
    assert (message.number, split_from_pb(message, ORDERS)) == (4, SplitProgress(split, position))


def test_leases_survive() -> None:
    keys = {TableBucket(table_id, bucket): number for table_id in (1, 2) for number, bucket in enumerate(BUCKETS)}
    assert SNAPSHOTS_TO_LEASE.from_pb(SNAPSHOTS_TO_LEASE.to_pb(keys)) == keys
    assert [TABLE_BUCKET.from_pb(TABLE_BUCKET.to_pb(key)) for key in keys] == list(keys)
    leased = tuple(LeasedSnapshot(key, number, 10, (True, False, None)[number % 3]) for number, key in enumerate(keys))
    leases = [KvSnapshotLease("a", NOON, NOON, NOON, 5, leased, "me"), KvSnapshotLease("b", NOON, NOON, NOON, 5, (), None)]
    assert [LEASE.from_pb(LEASE.to_pb(lease)) for lease in leases] == leases
