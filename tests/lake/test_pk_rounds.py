"""Rounds of a primary-key table: the lake equals the table at the tiered offsets, whatever changed, and counts what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestContent

from support.keyed_table import KEYED, Change, KeyedTable, keyed_info, with_columns
from support.lake_kit import LakeKit
from tiering.lake.base import WriterInitContext
from tiering.lake.iceberg import manifests
from tiering.lake.iceberg.data_files import decode_files
from tiering.lake.iceberg.keyed import keys, rewrite_rule, spool
from tiering.model import BucketKey, ChangeType

names = count()


@pytest.fixture
def table(kit: Any) -> KeyedTable:
    return KeyedTable(kit, keyed_info("orders"))


@pytest.fixture(params=["in memory", "by duckdb"])
def any_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways of few and of many keys."""
    if request.param == "by duckdb":
        monkeypatch.setattr(keys, "MANY_KEYS", 0)
        monkeypatch.setattr(spool, "MEMORY_BYTES", 1_000)


def summary(table: KeyedTable) -> dict[str, str]:
    snapshot = table.kit.catalog().load_table(str(table.info.path)).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


# --- what a round writes


def test_a_first_round_only_appends_the_last_row_of_each_key(table: KeyedTable) -> None:
    table.put(*table.rows(300))
    table.put(*table.rows(100, name="again"))
    table.delete(*table.rows(20))
    table.tier("r1")
    table.check()
    assert summary(table)["operation"] == "append"
    assert summary(table)["total-records"] == "280"


@pytest.mark.usefixtures("any_size")
def test_later_rounds_delete_by_position_what_changed(table: KeyedTable) -> None:
    table.put(*table.rows(300))
    table.tier("r1")
    table.put(*table.rows(40, start=100, name="new"), *table.rows(10, start=1_000))
    table.delete(*table.rows(5, start=200))
    prepared = table.prepare("r2")
    assert sum(result.deletes for result in prepared.committable.results) == 45
    assert sum(result.records for result in prepared.committable.results) == 50
    prepared.commit()
    table.check()
    found = summary(table)
    assert found["operation"] == "overwrite"
    assert {name: found[name] for name in found if "delete" in name or "records" in name} == {
        "added-records": "50",
        "added-delete-files": "2",
        "added-position-delete-files": "2",
        "added-position-deletes": "45",
        "total-records": "350",
        "total-delete-files": "2",
        "total-position-deletes": "45",
        "total-equality-deletes": "0",
    }


def test_rows_that_are_dead_already_are_not_deleted_again(table: KeyedTable) -> None:
    table.put(*table.rows(300))
    table.tier("r1")
    for number in range(2, 6):
        table.put(*table.rows(10, name=f"round {number}"))
        prepared = table.prepare(f"r{number}")
        assert sum(result.deletes for result in prepared.committable.results) == 10
        prepared.commit()
        table.check()
    assert summary(table)["total-position-deletes"] == "40"


def test_a_deleted_key_can_come_back_and_deleting_what_is_not_there_is_nothing(table: KeyedTable) -> None:
    table.put(*table.rows(50))
    table.tier("r1")
    table.delete(*table.rows(5))
    table.put(*table.rows(3, name="again"), *table.rows(1, start=900))
    table.delete(*table.rows(1, start=900))
    table.tier("r2")
    table.check()
    table.delete(*table.rows(3))
    table.tier("r3")
    table.put(*table.rows(5, name="third"))
    table.tier("r4")
    table.check()


def test_a_round_whose_changes_leave_nothing_writes_no_file(table: KeyedTable) -> None:
    table.put(*table.rows(20))
    table.tier("r1")
    table.put(*table.rows(5, start=100))
    table.delete(*table.rows(5, start=100))
    prepared = table.prepare("r2")
    assert [result.files for result in prepared.committable.results] == [0] * len(table.logs)
    prepared.commit()
    table.check()


def test_batches_may_be_as_small_as_one_record(kit: Any) -> None:
    """Then some hold nothing but a row as it was before."""
    table = KeyedTable(kit, keyed_info("orders", bucket_count=1), batch_rows=1)
    table.put(*table.rows(5))
    table.tier("r1")
    table.put(*table.rows(3, name="new"))
    table.tier("r2")
    table.check()


def test_a_bucket_with_many_dead_rows_is_rewritten_and_its_delete_files_go(table: KeyedTable) -> None:
    table.put(*table.rows(400))
    table.tier("r1")
    table.put(*table.rows(60, name="second"))
    table.tier("r2")
    table.put(*table.rows(150, name="third"))
    rewritten = [decode_files(result.payload).change.rewritten for result in table.prepare("never").committable.results]  # type: ignore[union-attr]
    assert rewritten == [True, True]
    table.tier("r3")
    table.check()
    found = summary(table)
    assert found["operation"] == "overwrite"
    assert {name: found[name] for name in found if "delete" in name or "removed-p" in name} == {
        "deleted-data-files": "4",
        "deleted-records": "460",
        "removed-delete-files": "2",
        "removed-position-delete-files": "2",
        "removed-position-deletes": "60",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }
    assert (found["total-records"], found["total-data-files"]) == ("400", "2")
    table.put(*table.rows(30, name="fourth"))
    table.tier("r4")
    table.check()


def test_one_bucket_is_rewritten_while_others_get_deletes(table: KeyedTable) -> None:
    rows = table.rows(400)
    table.put(*rows)
    table.tier("r1")
    mine = [row for row in rows if table._hashed(row)[0] == BucketKey(None, 0)]
    other = [row for row in rows if table._hashed(row)[0] == BucketKey(None, 1)]
    table.put(*(row | {"name": "x"} for row in [*mine[:100], *other[:10]]))
    table.tier("r2")
    table.check()
    found = summary(table)
    assert (found["deleted-data-files"], found["added-position-deletes"], found["total-position-deletes"]) == ("1", "10", "10")


def test_many_delete_files_are_merged_into_one(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_rule, "MANY_DELETE_FILES", 3)
    table = KeyedTable(kit, keyed_info("orders", bucket_count=1))
    table.put(*table.rows(1_000))
    table.tier("r0")
    for number, files in enumerate(["1", "2", "3", "1", "2"]):
        table.put(*table.rows(5, start=number * 3, name=f"changed {number}"))
        table.tier(f"r{number + 1}")
        table.check()
        assert summary(table)["total-delete-files"] == files
        assert summary(table)["total-position-deletes"] == str(5 * number + 5)


def test_a_bucket_of_many_small_files_is_rewritten(table: KeyedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_rule, "MANY_FILES", 6)
    table.put(*table.rows(1_000))
    table.tier("r0")
    for number in range(5):
        table.put(*table.rows(3, start=number * 3, name="changed"))
        table.tier(f"r{number + 1}")
        table.check()
    assert int(summary(table)["total-data-files"]) <= 4


def test_many_rounds_end_in_few_manifests_of_data_and_of_deletes(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MERGE_COUNT", 5)
    table = KeyedTable(kit, keyed_info("orders", bucket_count=1))
    table.put(*table.rows(1_000))
    view = table.tier("r0")
    for number in range(9):
        table.put(*table.rows(1, start=number, name="changed"))
        table.prepare(f"r{number + 1}", view=view).commit()
        view = kit.view(table.info)
    iceberg = view.handle
    found = iceberg.current_snapshot().manifests(iceberg.io)
    assert [sum(one.content is content for one in found) for content in ManifestContent] == [2, 5]
    table.check()
    entries = [(one["data_file"]["content"], one["sequence_number"]) for one in iceberg.inspect.entries().to_pylist()]
    assert sorted(entries) == [*((0, number) for number in range(1, 11)), *((1, number) for number in range(2, 11))]


# --- keys of every kind


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), list(range(-60, 60))),
        (pa.int32(), list(range(120))),
        (pa.int64(), [n * 2**40 for n in range(120)]),
        (pa.decimal128(38, 2), [Decimal(n - 50).scaleb(-2) for n in range(120)]),
        (pa.date32(), [date.fromordinal(719_100 + n) for n in range(120)]),
        (pa.timestamp("us"), [datetime.fromtimestamp(n * 7_919 + 0.5) for n in range(120)]),
        (pa.string(), [f"grün {n}" for n in range(119)] + [""]),
        (pa.binary(), [bytes([n, 255 - n]) for n in range(120)]),
    ],
    ids=["byte", "int", "long", "decimal", "date", "timestamp", "string", "binary"],
)
def test_a_key_of_every_type_is_found(kit: Any, kind: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([pa.field("k", kind, nullable=False), pa.field("v", pa.int64())])
    table = KeyedTable(kit, keyed_info("typed", schema, ("k",)))
    table.put(*({"k": value, "v": number} for number, value in enumerate(values)))
    table.tier("r1")
    table.put(*({"k": value, "v": -1} for value in values[10:30]))
    table.delete(*({"k": value} for value in values[-3:]))
    prepared = table.prepare("r2")
    assert sum(result.deletes for result in prepared.committable.results) == 23
    prepared.commit()
    table.check()


@pytest.mark.usefixtures("any_size")
def test_composite_keys_are_compared_column_by_column(kit: Any) -> None:
    schema = pa.schema([pa.field("a", pa.string(), nullable=False), pa.field("v", pa.int64()), pa.field("b", pa.int32(), nullable=False)])
    info = keyed_info("pairs", schema, ("b", "a"))
    table = KeyedTable(kit, info, lambda row: (BucketKey(None, row["b"] % 2), None))
    rows = [{"a": a, "b": b, "v": 0} for b in range(30) for a in ("", "x", "xy", "y")]
    table.put(*rows)
    table.tier("r1")
    table.put({"a": "x", "b": 3, "v": 1}, {"a": "y", "b": 4, "v": 1})
    table.delete({"a": "xy", "b": 3}, {"a": "", "b": 4})
    prepared = table.prepare("r2")
    assert sum(result.deletes for result in prepared.committable.results) == 4
    prepared.commit()
    table.check()


def test_partitions_and_buckets_keep_their_keys_apart(kit: Any) -> None:
    fields = [pa.field("day", pa.date32(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]
    info = keyed_info("by_day", pa.schema(fields), ("day", "id"), partition_keys=("day",), bucket_count=2)
    days = [date(2024, 2, 28), date(2024, 2, 29)]
    hashed = KeyedTable(kit, keyed_info("unused"))._hashed
    table = KeyedTable(kit, info, lambda row: (BucketKey(days.index(row["day"]) + 20, hashed(row)[0].bucket_id), row["day"].isoformat()))
    table.put(*({"day": day, "id": number, "v": "one"} for day in days for number in range(100)))
    table.tier("r1")
    table.put(*({"day": days[1], "id": number, "v": "two"} for number in range(5)))
    table.delete({"day": days[0], "id": 3})
    table.tier("r2")
    table.check()
    table.put(*({"day": days[1], "id": number, "v": "three"} for number in range(90)))
    table.tier("r3")  # rewrites the buckets of one day alone
    table.check()
    assert summary(table)["total-position-deletes"] == "1"


def test_a_column_added_later_is_null_in_older_rows_also_after_a_rewrite(table: KeyedTable) -> None:
    table.put(*table.rows(100))
    table.tier("r1")
    with_columns(table, pa.field("note", pa.string()))
    table.put(*(row | {"note": "n"} for row in table.rows(10, name="noted")))
    table.tier("r2")
    table.check()
    table.put(*(row | {"note": "m"} for row in table.rows(60, start=40, name="noted")))
    table.tier("r3")
    assert "deleted-data-files" in summary(table)
    table.check()


def test_nested_values_survive_a_rewrite(kit: Any) -> None:
    nested = pa.struct([("tags", pa.list_(pa.string())), ("size", pa.decimal128(10, 2))])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("more", nested), pa.field("flag", pa.bool_())])
    table = KeyedTable(kit, keyed_info("nested", schema))
    values = [None, {"tags": ["a", None], "size": Decimal("1.50")}, {"tags": None, "size": None}, {"tags": [], "size": Decimal("-2.25")}]
    table.put(*({"id": number, "more": values[number % 4], "flag": [True, None][number % 2]} for number in range(40)))
    table.tier("r1")
    table.put(*({"id": number, "more": values[(number + 1) % 4], "flag": False} for number in range(20)))
    table.tier("r2")
    assert "deleted-data-files" in summary(table)
    table.check()


def test_keys_outside_of_a_row_groups_bounds_cost_no_look_at_it(table: KeyedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(*table.rows(300))
    table.tier("r1")
    table.put(*table.rows(300, start=1_000))
    table.tier("r2")
    looked_at: list[int] = []
    found = keys.rows_with

    def watched(changed: Any, standing: Iterator[keys.KeyRows]) -> Any:
        def counted() -> Iterator[keys.KeyRows]:
            for rows in standing:
                looked_at.append(len(rows.keys[0]))
                yield rows

        return found(changed, counted())

    monkeypatch.setattr("tiering.lake.iceberg.keyed.writer.rows_with", watched)
    table.put(*table.rows(10, start=1_200, name="new"))
    table.tier("r3")
    assert sum(looked_at) == 300
    table.check()


# --- KV snapshots


def test_rows_of_a_kv_snapshot_come_before_the_changes(kit: Any) -> None:
    table = KeyedTable(kit, keyed_info("orders", bucket_count=1))
    bucket = BucketKey(None, 0)
    old = table.rows(50)
    table.logs[bucket] = [Change(ChangeType.INSERT, row) for row in old]  # gone from the log, in the snapshot
    table.partition_names[bucket] = None
    table._now = {(row["id"],): row for row in old}
    table.put(*table.rows(10, name="changed"))
    table.delete(*table.rows(3, start=20))
    view = kit.lake.ensure_table(table.info)
    factory = kit.lake.tiering_factory(table.info)
    writer = factory.create_writer(WriterInitContext(table.info, view.table_uuid, bucket, None, "r1", "n"))
    writer.write(table.snapshot_batch(bucket, old[:30]))
    writer.write(table.snapshot_batch(bucket, old[30:]))
    writer.write(table.batch(bucket, 50, len(table.logs[bucket])))
    result = writer.complete(50, len(table.logs[bucket]))
    assert (result.records, result.deletes) == (47, 0)
    (file,) = decode_files(result.payload).files
    offset = view.handle.schema().find_field("__offset").field_id
    assert file.lower_bounds[offset] == (-1).to_bytes(8, "little", signed=True)


# --- any story


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> LakeKit:
    return LakeKit(Path(tmp_path_factory.mktemp("stories")))


KEYS = st.integers(0, 24)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(KEYS, min_size=1, max_size=12), st.sampled_from([None, "a", "b"])),
    st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=8), st.none()),
    st.tuples(st.just("tier"), st.just([]), st.none()),
    st.tuples(st.just("stop early"), st.lists(st.integers(1, 9), min_size=2, max_size=2), st.none()),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(loaded=st.booleans(), many=st.booleans(), steps=st.lists(STEPS, min_size=3, max_size=14))
def test_after_every_round_the_lake_equals_the_table(shared: LakeKit, loaded: bool, many: bool, steps: list[Any]) -> None:
    table = KeyedTable(shared, keyed_info(f"story{next(names)}", KEYED))
    if loaded:  # so that changes are few, and nothing is rewritten for a while
        table.put(*table.rows(300))
        table.tier("load")
    with pytest.MonkeyPatch.context() as patch:
        if many:
            patch.setattr(keys, "MANY_KEYS", 3)
            patch.setattr(spool, "MEMORY_BYTES", 300)
        for number, (what, values, text) in enumerate([*steps, ("tier", [], None)]):
            rows = [{"id": value, "name": text, "small": number} for value in values]
            if what == "put":
                table.put(*rows)
            elif what == "delete":
                table.delete(*rows)
            elif table.logs:
                table.tier(f"r{number}", None if what == "tier" else early_stops(table, values))
                table.check()


def early_stops(table: KeyedTable, counts: list[int]) -> dict[BucketKey, int]:
    """A few records of each bucket beyond the marker, never between -U and +U."""
    view = table.kit.lake.ensure_table(table.info)
    stops = {}
    for (bucket, log), more in zip(sorted(table.logs.items(), key=lambda one: one[0].sort_key()), counts, strict=False):
        done = view.marker.buckets[bucket].tiered if view.marker is not None and bucket in view.marker.buckets else 0
        stop = min(len(log), done + more)
        stops[bucket] = stop + 1 if stop and log[stop - 1].kind is ChangeType.UPDATE_BEFORE else stop
    return stops
