"""Values of the model survive the way through a message, each of them with everything set and with everything absent."""

from __future__ import annotations

import typing
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from tiering.instants import from_milliseconds, to_milliseconds
from tiering.model.call_results import Progress, SweepResult, TierTableResult
from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.rounds import IN_THE_TIERER, Assignment, PhaseTimes, RanOn, RecordedLakeSnapshot, RoundPlace, RoundStats
from tiering.model.status import TableStatus
from tiering.model.tables import BucketKey, TableBucket, TablePath
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder, UpkeepStats
from tiering.redaction.redact import NAME_TEXT_LIMIT
from tiering.rpc.v1.coordinator_pb2 import PbRoundStats, PbUpkeepStats
from tiering.rpc.v1.status_pb2 import ListTieringStatusesResponse, PbTableTieringStatus
from tiering.wire.calls import (
    sweep_result_from_pb,
    sweep_result_to_pb,
    table_name_to_pb,
    tier_table_result_from_pb,
    tier_table_result_to_pb,
    tier_table_step_to_pb,
)
from tiering.wire.common import (
    bucket_from_pb,
    bucket_to_pb,
    offsets_from_pb,
    offsets_to_pb,
    path_from_pb,
    path_to_pb,
    time_from_pb,
    time_to_pb,
)
from tiering.wire.leases import buckets_from_pb, buckets_to_pb, lease_to_pb, leases_from_pb, snapshots_from_pb, snapshots_to_pb
from tiering.wire.rounds import assignment_from_pb, assignment_to_pb, stats_from_pb, stats_to_pb
from tiering.wire.statuses import status_from_pb, status_to_pb, statuses_from_pb

PATH = TablePath("sales", "orders")
NOON = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
WHOLE_MS = NOON.replace(microsecond=123_000)
BUCKETS = {BucketKey(None, 0): 5, BucketKey(3, 1): 7}
IN_MS = ("last_tiered_time", "last_error_time")
TYPES = {str: "TYPE_STRING", int: "TYPE_INT64", bool: "TYPE_BOOL", float: "TYPE_DOUBLE", datetime: "TYPE_MESSAGE"}


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


def test_a_status_survives_with_every_field_set_and_with_every_field_absent_that_may_be() -> None:
    assert status_from_pb(status_to_pb(status()), NOON) == status()
    empty = status(**{name: None for name, (_, nullable) in status_types().items() if nullable})
    message = status_to_pb(empty)
    assert status_from_pb(message, NOON) == empty
    page = ListTieringStatusesResponse(tiering_statuses=[message], observed_time=time_to_pb(NOON))
    assert statuses_from_pb(page) == [empty]


def test_a_status_and_its_message_have_the_same_fields_with_the_same_types() -> None:
    elsewhere = {"database_name", "table_name", "observed_time"}
    descriptor = PbTableTieringStatus.DESCRIPTOR
    assert {field.name for field in descriptor.fields} == {field.name for field in fields(TableStatus)} - elsewhere | {"table_path"}
    for name, (kind, nullable) in status_types().items():
        if name in elsewhere:
            continue
        field = descriptor.fields_by_name[name]
        expected = {"TYPE_INT64"} if name in IN_MS else {TYPES[kind], "TYPE_INT32"} if kind is int else {TYPES[kind]}
        assert field.type in {getattr(FieldDescriptor, kind_name) for kind_name in expected}, name
        assert field.has_presence or not nullable, f"{name} may be None, which its message cannot say"


def test_what_the_proposal_requires_is_always_on_the_wire() -> None:
    message = PbTableTieringStatus.FromString(status_to_pb(status()).SerializeToString())
    assert all(message.HasField(name) for name in ("table_path", "status", "tiering_epoch"))
    zero = status_to_pb(TableStatus(**{field.name: getattr(status(), field.name) for field in fields(TableStatus)} | {"tiering_epoch": 0}))
    assert PbTableTieringStatus.FromString(zero.SerializeToString()).HasField("tiering_epoch")


def test_a_status_of_an_older_service_has_0_where_nothing_came() -> None:
    read = status_from_pb(PbTableTieringStatus(table_path=path_to_pb(PATH)), NOON)
    assert (read.status, read.tiering_epoch, read.last_tiered_time, read.error_count) == ("", 0, None, 0)


@pytest.mark.parametrize("time", [NOON, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)])
def test_times_survive(time: datetime) -> None:
    assert time_from_pb(time_to_pb(time)) == time
    assert timedelta(0) <= time - from_milliseconds(to_milliseconds(time)) < timedelta(milliseconds=1)


def test_paths_buckets_and_offsets_survive() -> None:
    assert path_from_pb(path_to_pb(PATH)) == PATH
    assert table_name_to_pb("sales.orders") == table_name_to_pb(PATH) == path_to_pb(PATH)
    assert [bucket_from_pb(bucket_to_pb(bucket)) for bucket in BUCKETS] == list(BUCKETS)
    assert offsets_from_pb(offsets_to_pb(BUCKETS)) == BUCKETS
    assert offsets_to_pb(BUCKETS) == offsets_to_pb(dict(reversed(BUCKETS.items())))


@pytest.mark.parametrize(
    "assignment",
    [
        Assignment(1, PATH, 2, 3, "r1"),
        Assignment(1, PATH, 2, 3, "r1", "uuid", 9, RecordedLakeSnapshot(8, BUCKETS), 1_000),
        Assignment(1, PATH, 2, 3, "r1", "uuid", 0, RecordedLakeSnapshot(0, {}), 0),
        Assignment(1, PATH, 2, 3, "r1", upkeep=UpkeepOrder()),
        Assignment(1, PATH, 2, 3, "r1", upkeep_paused=True),
        Assignment(1, PATH, 2, 3, "r1", upkeep=UpkeepOrder(False, True, frozenset(), True, ExpiryOrder(), 0)),
        Assignment(1, PATH, 2, 3, "r1", upkeep=UpkeepOrder(partitions=frozenset({"a", "b"}), expiry=ExpiryOrder(NOON, 0))),
        Assignment(1, PATH, 2, 3, "r1", skipped={bucket: {3: None, 70 + number: "5f"} for number, bucket in enumerate(BUCKETS)}),
    ],
)
def test_an_assignment_survives(assignment: Assignment) -> None:
    assert assignment_from_pb(assignment_to_pb(assignment), 3) == assignment


def test_statistics_survive_and_are_never_negative() -> None:
    times = PhaseTimes(**{part.name: number for number, part in enumerate(fields(PhaseTimes))})
    counts = range(1, len(fields(RoundStats)) - 2)
    for place in (None, IN_THE_TIERER, RoundPlace(RanOn.SPARK, "app-1", 0), RoundPlace(RanOn.SPARK, "app-1")):
        stats = RoundStats(*counts, times, place)
        assert stats_from_pb(stats_to_pb(stats)) == stats
    assert stats_from_pb(PbRoundStats(splits=-1, deletes_written=-5)) == RoundStats()
    assert stats_from_pb(PbRoundStats(ran_on="A_NEWER_PLACE")) == RoundStats()
    hostile = stats_from_pb(PbRoundStats(ran_on="SPARK", spark_application_id="a\x1b[2J\n" + "b" * 5_000)).place
    assert hostile is not None
    assert hostile.spark_application_id is not None
    assert (hostile.spark_application_id.isprintable(), len(hostile.spark_application_id) <= NAME_TEXT_LIMIT) == (True, True)


def test_what_upkeep_did_survives_and_is_never_negative() -> None:
    complete = UpkeepStats(**{count.name: number for number, count in enumerate(fields(UpkeepStats), start=1)})
    for upkeep in (UpkeepStats(), UpkeepStats(manifests_before=0, bytes_left=0), complete):
        stats = RoundStats(upkeep=upkeep)
        assert stats_from_pb(stats_to_pb(stats)) == stats
    assert stats_from_pb(PbRoundStats(upkeep=PbUpkeepStats(files_after=-1, bytes_left=-5))).upkeep == UpkeepStats(bytes_left=0)


def test_leases_survive() -> None:
    keys = {TableBucket(table_id, bucket): number for table_id in (1, 2) for number, bucket in enumerate(BUCKETS)}
    assert snapshots_from_pb(snapshots_to_pb(keys)) == keys
    assert buckets_from_pb(buckets_to_pb(keys.keys())) == list(keys)
    leased = tuple(LeasedSnapshot(key, number, 10, (True, False, None)[number % 3]) for number, key in enumerate(keys))
    leases = [KvSnapshotLease("a", NOON, NOON, NOON, 5, leased, "me"), KvSnapshotLease("b", NOON, NOON, NOON, 5, (), None)]
    assert leases_from_pb(map(lease_to_pb, leases)) == leases


def test_results_of_calls_survive() -> None:
    whole = TierTableResult(PATH, "r1", "SUCCEEDED", 2, 3, 4, 5, 6, 7, 8, 9, 10)
    empty = TierTableResult(PATH, None, "EMPTY", 0, None, None, None, None, None, None, None, 0)
    for result in (whole, empty):
        assert tier_table_result_from_pb(tier_table_result_to_pb(result)) == result
        assert tier_table_result_from_pb(tier_table_step_to_pb(result).result) == result
    assert tier_table_step_to_pb(Progress("half")).progress == "half"
    for swept in (SweepResult(PATH, 1, 2, 3, {"young": 4}), SweepResult(PATH, 0, 0, 0, {}, "no lake")):
        assert sweep_result_from_pb(sweep_result_to_pb(swept)) == swept
