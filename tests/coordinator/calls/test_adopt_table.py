"""`CALL sys.adopt_table`: lake tables that an earlier pipeline wrote, and rounds that continue them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform

from support.background import tick
from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN, LakeKind, in_lakes
from support.stories.killed_calls import killed
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering import crash_points, errors
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity
from tiering.cluster.log_writer import LogWriter
from tiering.lake.base import FLUSS_COMMIT_USER, FLUSS_COMMIT_USER_KEY
from tiering.lake.rules.base_check import tiered_offsets
from tiering.lake.table_options import ENABLED
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.adopt_table import AdoptTable, AdoptTableResult
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.resume_tiering import ResumeTiering
from tiering.procedures.set_table_option import SetTableOption
from tiering.procedures.validate_table import ValidateTable

OFFSETS = {"0": 10, "1": 10}
"""Half of the 40 rows of `source`."""
IN_PLACE = [point for point in crash_points.IN_ADOPTION if point != crash_points.ADOPT_RENAMED]
"""The points of an adoption that renames nothing."""


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    kind: LakeKind = getattr(request, "param", ICEBERG_CLEAN)
    world = LakeWorld(tmp_path, kind=kind)
    yield world
    world.close()


def source(world: LakeWorld) -> TableInfo:
    """A paused table with the rows 0 to 39 in two buckets of its log, and no lake table."""
    table = world.table("orders")
    perform(world, PauseTiering(table.path, caller="ann"))
    world.append(table, 0, 20)
    world.append(table, 20, 20)
    return table


def perform(world: LakeWorld, request: Any) -> Any:
    return asyncio.run(world.coordinator.control.perform(request))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "text": [f"row {number}" for number in ids]}, schema=SCHEMA)


def pipeline(world: LakeWorld, name: str, *parts: pa.Table, spec: tuple[str, Transform[Any, Any], str] | None = None) -> None:
    """An earlier pipeline's lake table: a snapshot per part."""
    catalog = world.iceberg_catalog()
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    with catalog.create_table_transaction(name, parts[0].schema) as creation:
        if spec is not None:
            creation.update_spec().add_field(*spec).commit()
    table = catalog.load_table(name)
    for part in parts:
        table.append(part)


def adopt(
    world: LakeWorld, table: TableInfo, lake_table: str = "sales.orders", offsets: Mapping[str, int] | None = OFFSETS, **more: Any
) -> AdoptTableResult:
    result: AdoptTableResult = perform(world, AdoptTable(table.path, lake_table, offsets, caller="ann", **more))
    return result


def go_on(world: LakeWorld, table: TableInfo) -> None:
    """The pause ends, and a round tiers the rest of the log."""
    perform(world, ResumeTiering(table.path, caller="ann"))
    assert world.tier(table).state is RoundState.SUCCEEDED


def ids(world: LakeWorld, table: TableInfo) -> list[int]:
    return sorted(world.by_hand.rows(table.path)["id"].to_pylist())


def test_rounds_continue_a_lake_table_that_a_pipeline_wrote(world: LakeWorld) -> None:
    table = source(world)
    pipeline(world, "sales.orders", rows(*range(0, 15)), rows(*range(15, 20)))
    tried = adopt(world, table, dry_run=True)
    assert (tried.outcome, tried.rows_adopted, tried.rows_unproved) == ("would_adopt", 20, 0)
    assert world.view(table).marker is None
    result = adopt(world, table)
    view = world.view(table)
    assert (result.outcome, result.rows_adopted, result.rows_unproved) == ("adopted", 20, 0)
    assert (result.lake_snapshot_id, dict(result.offsets)) == (view.head, OFFSETS)
    assert {str(bucket): offset for bucket, offset in tiered_offsets(view.marker).items()} == OFFSETS
    go_on(world, table)
    assert ids(world, table) == list(range(40))
    assert proved(world, table) == [True]


def proved(world: LakeWorld, table: TableInfo) -> list[bool | None]:
    """Returns the distinct results of all checks of a validation at level rows, in order."""
    results = {check.ok for check in world.validate(ValidateTable(table.path, level="rows"))}
    return sorted(results, key=str)


def refused(world: LakeWorld, table: TableInfo, match: str, *args: Any, **more: Any) -> str:
    """The call is refused and changes neither lake nor records. Returns the hint."""
    before, lake = world.record(table), world.lake.view(table.path)
    with pytest.raises(errors.CannotReconcile, match=match) as refusal:
        adopt(world, table, *args, **more)
    assert world.record(table) == before
    assert world.lake.view(table.path) == lake
    return refusal.value.hint


@pytest.mark.parametrize(
    ("lacking", "message"),
    [(rows(*range(19)), "19 rows"), (rows(*range(19), 18), "20 rows"), (rows(*range(21)), "21 rows")],
    ids=["a row is missing", "another row", "a row too many"],
)
def test_rows_that_are_not_those_of_the_log_are_refused_with_both_numbers(world: LakeWorld, lacking: pa.Table, message: str) -> None:
    table = source(world)
    pipeline(world, "sales.orders", lacking)
    for more in ({}, {"accept_unproved": True}, {"dry_run": True}):
        refused(world, table, f"has {message} with the checksum [0-9a-f]+; below the stated offsets the log has 20 rows with", **more)


@pytest.mark.parametrize(
    ("offsets", "match"),
    [
        ({"0": 10}, "bucket 1 is missing"),
        ({"0": 10, "1": 10, "7": 0}, "no bucket 7"),
        ({"0": 10, "1/1": 10}, "no bucket 1/1"),
        ({"0": 10, "one": 10}, "'one' is not the name of a bucket"),
        ({"0": 10, "1": -1}, "offset -1 is stated"),
    ],
)
def test_offsets_of_other_buckets_are_named(world: LakeWorld, offsets: Mapping[str, int], match: str) -> None:
    table = source(world)
    pipeline(world, "sales.orders", rows(*range(20)))
    with pytest.raises(errors.InvalidArgument, match=match):
        adopt(world, table, offsets=offsets)


def test_offsets_beyond_the_log_are_refused(world: LakeWorld) -> None:
    table = source(world)
    pipeline(world, "sales.orders", rows(*range(20)))
    refused(world, table, "offset 21 is stated, but the log of sales.orders ends at 20", offsets={"0": 21, "1": 10})


@pytest.mark.parametrize("gaps", [(20,), (1, 1, 2, 16), (7, 13)])
def test_offsets_are_found_by_the_time_of_commits(world: LakeWorld, gaps: tuple[int, ...]) -> None:
    table = world.table("orders", 1)
    perform(world, PauseTiering(table.path, caller="ann"))
    writer, start, times = LogWriter(world.storage, table.path, "ann"), 0, []
    for count in gaps:
        world.clock.advance(10)
        times.append((world.clock.wall, start))
        writer.append(rows(*range(start, start + count)))
        start += count
    pipeline(world, "sales.orders", rows(*range(20)))
    for time, offset in [*times, (world.clock.wall + timedelta(seconds=1), 20)]:
        if offset == 20:
            tried = adopt(world, table, dry_run=True, offsets=None, timestamp=time)
            assert dict(tried.offsets) == {"0": 20}
        else:
            refused(world, table, f"has 20 rows .* the log has {offset} rows? with", offsets=None, timestamp=time)


@pytest.mark.parametrize("more", [{"offsets": None}, {"timestamp": datetime(2026, 1, 1, tzinfo=UTC)}], ids=["neither", "both"])
def test_either_offsets_or_a_timestamp_is_required(world: LakeWorld, more: dict[str, Any]) -> None:
    table = source(world)
    pipeline(world, "sales.orders", rows(*range(20)))
    with pytest.raises(errors.InvalidArgument, match="either offsets or a timestamp"):
        adopt(world, table, **more)


def test_a_time_before_the_log_is_refused(world: LakeWorld) -> None:
    table = with_a_cut_log(world)
    time = datetime(2020, 1, 1, tzinfo=UTC)
    assert "State offsets" in refused(world, table, "no record from before 2020-01-01", offsets=None, timestamp=time, accept_unproved=True)


def with_a_cut_log(world: LakeWorld) -> TableInfo:
    """The log of a table has the records 10 to 19 of both buckets, and the lake table all rows."""
    table = world.table("orders", log_ttl="1 s")
    perform(world, PauseTiering(table.path, caller="ann"))
    world.storage.alter_table(table.path, {ENABLED.name: "false"})
    tick(world.coordinator)
    world.append(table, 0, 20)
    world.clock.advance(10)
    world.storage.maintenance.run()
    world.append(table, 20, 20)
    world.storage.alter_table(table.path, {ENABLED.name: "true"})
    tick(world.coordinator)
    assert {log.log_start for log in world.storage.offsets(table).values()} == {10}
    pipeline(world, "sales.orders", rows(*range(30)))
    return table


def test_rows_that_the_log_no_longer_has_are_adopted_only_if_they_are_accepted(world: LakeWorld) -> None:
    table = with_a_cut_log(world)
    offsets = {"0": 20, "1": 10}
    hint = refused(world, table, "30 rows of the lake table sales.orders cannot be compared with the log", offsets=offsets)
    assert hint == "accept_unproved => true takes them over as they are."
    refused(world, table, "offset 9 is stated, but the log of sales.orders begins at 10: records 9 to 9", offsets={"0": 20, "1": 9})
    match = "30 rows .* the log has 0 rows .*, and at most 20 records below its start"
    refused(world, table, match, offsets={"0": 10, "1": 10}, accept_unproved=True)
    result = adopt(world, table, offsets=offsets, accept_unproved=True)
    assert (result.outcome, result.rows_adopted, result.rows_unproved) == ("adopted", 30, 30)
    go_on(world, table)
    assert ids(world, table) == list(range(40))
    assert proved(world, table) == [None, True], "the validation says that it could not prove the adopted rows"


def test_a_lake_table_of_another_name_is_renamed(world: LakeWorld) -> None:
    table = source(world)
    pipeline(world, "legacy.events", rows(*range(20)))
    assert adopt(world, table, "legacy.events", dry_run=True).outcome == "would_adopt"
    assert world.by_hand.tables("legacy") == ["events"]
    result = adopt(world, table, "legacy.events", idempotency_key="once")
    assert (result.outcome, result.lake_table) == ("adopted", "legacy.events")
    assert world.by_hand.tables("legacy") == []
    assert adopt(world, table, "legacy.events", idempotency_key="once") == result
    assert adopt(world, table, "legacy.events").outcome == "already_adopted"
    go_on(world, table)
    assert adopt(world, table, "legacy.events").outcome == "already_adopted"
    assert ids(world, table) == list(range(40))
    assert proved(world, table) == [True]


def test_another_lake_table_than_the_adopted_one_is_refused(world: LakeWorld) -> None:
    table = source(world)
    for name in ("legacy.events", "legacy.other"):
        pipeline(world, name, rows(*range(20)))
    adopt(world, table, "legacy.events")
    with pytest.raises(errors.CannotReconcile, match=r"no row of the lake table legacy\.other") as refusal:
        adopt(world, table, "legacy.other")
    assert "CALL sys.backfill_table" in refusal.value.hint
    assert adopt(world, table, "legacy.events").outcome == "already_adopted"


@pytest.mark.parametrize(
    ("lake_table", "point"),
    [*(("legacy.events", point) for point in crash_points.IN_ADOPTION), *(("sales.orders", point) for point in IN_PLACE)],
)
@pytest.mark.parametrize("key", [None, "once"])
def test_wherever_an_adoption_dies_the_same_call_completes_it(
    world: LakeWorld, monkeypatch: pytest.MonkeyPatch, point: str, key: str | None, lake_table: str
) -> None:
    table = source(world)
    pipeline(world, lake_table, rows(*range(20)))
    killed(world, monkeypatch, point, lambda: adopt(world, table, lake_table, idempotency_key=key))
    assert adopt(world, table, lake_table, idempotency_key=key).outcome in ("adopted", "already_adopted")
    go_on(world, table)
    assert ids(world, table) == list(range(40))
    assert proved(world, table) == [True]


def test_a_round_between_a_death_and_the_repeated_call_harms_nothing(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = source(world)
    pipeline(world, "legacy.events", rows(*range(20)))
    killed(world, monkeypatch, crash_points.ADOPT_RENAMED, lambda: adopt(world, table, "legacy.events"))
    perform(world, ResumeTiering(table.path, caller="ann"))
    assert isinstance(world.tier(table).error, errors.UntrackedLakeTable)
    assert adopt(world, table, "legacy.events").outcome == "adopted"
    assert world.begin(table).end().state is RoundState.SUCCEEDED
    assert ids(world, table) == list(range(40))


def test_a_lake_table_that_changes_meanwhile_is_not_adopted(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = source(world)
    pipeline(world, "sales.orders", rows(*range(20)))

    def write_more(reached: str) -> None:
        if reached == crash_points.RECONCILE_CLAIMED:
            world.iceberg(table).append(rows(99))

    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "reach", write_more)
        with pytest.raises(errors.CommitOutcomeUnknown):
            adopt(world, table)
    refused(world, table, "21 rows")


def test_a_table_with_a_lake_table_of_its_own_takes_no_other(world: LakeWorld) -> None:
    table = source(world)
    pipeline(world, "legacy.events", rows(*range(20)))
    world.by_hand.create(table.path, SCHEMA)
    hint = refused(world, table, "sales.orders has a lake table of its own, so legacy.events cannot take its name", "legacy.events")
    assert hint.startswith("Drop or rename the lake table sales.orders in the lake's catalog")
    world.by_hand.drop(table.path)
    assert adopt(world, table, "legacy.events").outcome == "adopted"


def test_a_table_that_was_tiered_adopts_nothing(world: LakeWorld) -> None:
    table = source(world)
    pipeline(world, "legacy.events", rows(*range(20)))
    go_on(world, table)
    for lake_table in ("sales.orders", "legacy.events"):
        refused(world, table, "sales.orders was tiered to a lake table before", lake_table)


def test_a_lake_table_that_does_not_exist_is_named(world: LakeWorld) -> None:
    refused(world, source(world), "there is no lake table legacy.other", "legacy.other")


def test_the_lake_table_of_another_source_is_not_taken(world: LakeWorld) -> None:
    table, other = source(world), world.table("other")
    world.append(other, 0, 20)
    perform(world, PauseTiering(other.path, caller="ann"))
    pipeline(world, "sales.other", rows(*range(20)))
    refused(world, table, "sales.other is the lake table of the table sales.other", "sales.other")


def test_a_lake_table_that_lakeward_tiered_from_another_table_is_refused(world: LakeWorld) -> None:
    table, former = source(world), world.table("former")
    world.append(former, 0, 20)
    assert world.tier(former).state is RoundState.SUCCEEDED
    world.storage.drop_table(former.path)
    tick(world.coordinator)
    hint = refused(world, table, "a Lakeward service tiered to the lake table sales.former from table 2", "sales.former")
    assert "CREATE TABLE ... AS SELECT" in hint


def test_rows_of_fluss_own_tiering_are_not_an_earlier_pipeline(world: LakeWorld) -> None:
    table = source(world)
    pipeline(world, "sales.orders", rows(*range(10)))
    world.by_hand.append(table.path, rows(*range(10, 20)), {FLUSS_COMMIT_USER_KEY: FLUSS_COMMIT_USER})
    assert "'adopt')" in refused(world, table, "another tiering service wrote snapshot")


def test_an_empty_lake_table_has_nothing_to_adopt(world: LakeWorld) -> None:
    table = source(world)
    world.by_hand.create(table.path, SCHEMA)
    refused(world, table, "has no snapshot", offsets={"0": 0, "1": 0})


def test_columns_that_do_not_fit_are_named_with_the_statement_that_helps(world: LakeWorld) -> None:
    table = source(world)
    pipeline(world, "sales.orders", rows(*range(20)).append_column("loaded_by", pa.array(["job"] * 20)))
    hint = refused(world, table, "has the column 'loaded_by', which the source table does not have; nothing was adopted")
    assert hint == (
        "First ALTER TABLE <lake catalog>.sales.orders DROP COLUMN loaded_by (which loses the values in it), then this CALL again."
    )
    world.by_hand.drop_column(table.path, "loaded_by")
    assert adopt(world, table).outcome == "adopted"
    go_on(world, table)
    assert ids(world, table) == list(range(40))


def test_a_type_that_does_not_fit_is_refused(world: LakeWorld) -> None:
    table = source(world)
    pipeline(world, "sales.orders", rows(*range(20)).set_column(0, "id", pa.array(map(str, range(20)))))
    assert "CREATE TABLE ... AS SELECT" in refused(world, table, "has the column 'id' as string; the source table has it as long")


def test_a_nullable_column_that_the_pipeline_did_not_know_is_added(world: LakeWorld) -> None:
    table = world.table("orders")
    perform(world, PauseTiering(table.path, caller="ann"))
    writer = LogWriter(world.storage, table.path, "ann")
    writer.append(pa.table({"id": range(4), "text": [None] * 4}, schema=SCHEMA))
    pipeline(world, "sales.orders", rows(*range(4)).select(["id"]))
    assert adopt(world, table, offsets=world_ends(world, table)).outcome == "adopted"
    writer.append(rows(4, 5))
    go_on(world, table)
    assert sorted(world.by_hand.rows(table.path).to_pylist(), key=lambda row: row["id"])[3:] == [
        {"id": 3, "text": None},
        {"id": 4, "text": "row 4"},
        {"id": 5, "text": "row 5"},
    ]


def world_ends(world: LakeWorld, table: TableInfo) -> dict[str, int]:
    return {str(bucket): log.log_end for bucket, log in world.storage.offsets(table).items()}


def test_buckets_by_key_are_compared_one_by_one(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), SCHEMA.field("text")])
    table = world.table("orders", 2, schema=schema, bucket_keys=("id",))
    perform(world, PauseTiering(table.path, caller="ann"))
    LogWriter(world.storage, table.path, "ann").append(rows(*range(20)).cast(schema))
    pipeline(world, "sales.orders", rows(*range(20)).cast(schema), spec=("id", BucketTransform(2), "id_bucket"))
    ends = world_ends(world, table)
    wrong = {**ends, "0": ends["0"] - 1}
    refused(
        world, table, f"bucket 0 of the lake table sales.orders has {ends['0']} rows .* the log has {ends['0'] - 1} rows", offsets=wrong
    )
    assert adopt(world, table, offsets=ends).rows_unproved == 0
    LogWriter(world.storage, table.path, "bob").append(rows(*range(20, 40)).cast(schema))
    go_on(world, table)
    assert ids(world, table) == list(range(40))
    assert proved(world, table) == [True]


def test_partitions_are_compared_one_by_one_and_those_of_the_lake_alone_stay_unproved(world: LakeWorld) -> None:
    schema = pa.schema([SCHEMA.field("id"), pa.field("region", pa.string(), nullable=False)])
    table = world.table("orders", 1, ("region",), schema)
    perform(world, PauseTiering(table.path, caller="ann"))
    data = pa.table({"id": range(4), "region": ["eu", "eu", "us", "us"]}, schema=schema)
    LogWriter(world.storage, table.path, "ann").append(data)
    pipeline(world, "sales.orders", data, spec=("region", IdentityTransform(), "region"))
    ends = world_ends(world, table)
    assert adopt(world, table, offsets=ends, dry_run=True).rows_unproved == 0
    world.iceberg(table).append(pa.table({"id": [9], "region": ["asia"]}, schema=schema))
    refused(world, table, "1 row of the lake table sales.orders cannot be compared", offsets=ends)
    assert adopt(world, table, offsets=ends, accept_unproved=True).rows_unproved == 1
    LogWriter(world.storage, table.path, "bob").append(pa.table({"id": [4], "region": ["eu"]}, schema=schema))
    go_on(world, table)
    assert ids(world, table) == [0, 1, 2, 3, 4, 9]


def test_partitions_that_rounds_would_not_keep_are_refused_with_the_option_that_keeps_them(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("ts", pa.timestamp("us"))])
    table = world.table("orders", schema=schema)
    perform(world, PauseTiering(table.path, caller="ann"))
    data = pa.table({"id": [1, 2], "ts": [datetime(2026, 1, 1), datetime(2026, 1, 2)]}, schema=schema)
    LogWriter(world.storage, table.path, "ann").append(data)
    pipeline(world, "sales.orders", data, spec=("ts", DayTransform(), "day_of_ts"))
    hint = refused(world, table, r"is partitioned by day\(ts\), which is not the partition of sales\.orders", offsets={"0": 2})
    assert "CALL sys.set_table_option('sales.orders', 'table.datalake.partition', 'day(ts)')" in hint
    assert "CREATE TABLE ... AS SELECT" in hint
    perform(world, SetTableOption(table.path, "table.datalake.partition", "day(ts)", caller="ann"))
    assert adopt(world, table, offsets={"0": 2}).outcome == "adopted"
    LogWriter(world.storage, table.path, "bob").append(data.slice(0, 1))
    go_on(world, table)
    assert [field.name for field in world.iceberg(table).spec().fields] == ["day_of_ts"]
    assert proved(world, table) == [True]
    assert ids(world, table) == [1, 1, 2]


def test_a_primary_key_table_is_refused(world: LakeWorld) -> None:
    table = world.primary_key_table("orders")
    pipeline(world, "sales.orders", rows(*range(4)))
    assert "new lake table" in refused(world, table, "is a primary-key table", offsets={})


def paimon_pipeline(world: LakeWorld, table: TableInfo, *parts: pa.Table) -> None:
    world.by_hand.create(table.path, SCHEMA)
    for part in parts:
        world.by_hand.append(table.path, part, {})


@in_lakes(PAIMON_CLEAN)
def test_rounds_continue_a_paimon_table_that_a_pipeline_wrote(world: LakeWorld) -> None:
    table = source(world)
    paimon_pipeline(world, table, rows(*range(15)), rows(*range(15, 20)))
    refused(world, table, "has 20 rows .* the log has 19 rows", offsets={"0": 10, "1": 9})
    result = adopt(world, table)
    assert (result.outcome, result.rows_adopted, result.rows_unproved) == ("adopted", 20, 0)
    assert adopt(world, table).outcome == "already_adopted"
    go_on(world, table)
    assert ids(world, table) == list(range(40))
    assert proved(world, table) == [True]


@in_lakes(PAIMON_CLEAN)
@pytest.mark.parametrize("point", IN_PLACE)
def test_wherever_the_adoption_of_a_paimon_table_dies_the_same_call_completes_it(
    world: LakeWorld, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    table = source(world)
    paimon_pipeline(world, table, rows(*range(20)))
    killed(world, monkeypatch, point, lambda: adopt(world, table))
    assert adopt(world, table).outcome in ("adopted", "already_adopted")
    go_on(world, table)
    assert ids(world, table) == list(range(40))


@in_lakes(PAIMON_CLEAN)
def test_a_paimon_table_of_another_name_is_refused(world: LakeWorld) -> None:
    table = source(world)
    world.by_hand.create(TablePath("legacy", "events"), SCHEMA)
    world.by_hand.append(TablePath("legacy", "events"), rows(*range(20)), {})
    hint = refused(world, table, "the lake's catalog cannot rename legacy.events to sales.orders", "legacy.events")
    assert hint.startswith("Copy its rows with the lake's SQL into a lake table sales.orders")


def test_the_lake_table_of_another_name_needs_a_privilege_of_its_own(
    world: LakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, policies = source(world), tmp_path / "policies.cedar"
    pipeline(world, "legacy.events", rows(*range(20)))
    policies.write_text('permit (principal == User::"ann", action, resource == Table::"sales.orders");')
    access = Grants(policies).access_of(Identity("ann", Authentication.TOKEN))
    monkeypatch.setattr(Grants, "current", lambda grants: access)
    with pytest.raises(errors.AccessDenied, match=r"lacks OPERATE on .*legacy\.events"):
        adopt(world, table, "legacy.events")
    assert world.by_hand.tables("legacy") == ["events"]
