"""Rounds of a primary-key table: the lake equals the table at the tiered offsets, whatever changed, and counts what it holds."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.manifest import ManifestContent

from support.clusters.primary_key_table import Change, PrimaryKeyTable, primary_key_info
from tiering.lake.base import WriterInitContext
from tiering.lake.iceberg.commit import manifests
from tiering.lake.iceberg.primary_key import bucket_files as rewrite_rule
from tiering.lake.iceberg.writing.data_files import decode_files
from tiering.model.tables import BucketKey, ChangeType


@pytest.fixture
def table(kit: Any) -> PrimaryKeyTable:
    return PrimaryKeyTable(kit, primary_key_info("orders"))


def test_a_first_round_only_appends_the_last_row_of_each_key(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(300))
    table.put(*table.rows(100, name="again"))
    table.delete(*table.rows(20))
    table.tier("r1")
    table.check()
    assert table.summary()["operation"] == "append"
    assert table.summary()["total-records"] == "280"


@pytest.mark.usefixtures("any_size")
def test_later_rounds_delete_by_position_what_changed(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(300))
    table.tier("r1")
    table.put(*table.rows(40, start=100, name="new"), *table.rows(10, start=1_000))
    table.delete(*table.rows(5, start=200))
    prepared = table.prepare("r2")
    assert sum(result.deletes for result in prepared.committable.results) == 45
    assert sum(result.records for result in prepared.committable.results) == 50
    prepared.commit()
    table.check()
    summary = table.summary()
    assert summary["operation"] == "overwrite"
    assert {name: summary[name] for name in summary if "delete" in name or "records" in name} == {
        "added-records": "50",
        "added-delete-files": "2",
        "added-position-delete-files": "2",
        "added-position-deletes": "45",
        "total-records": "350",
        "total-delete-files": "2",
        "total-position-deletes": "45",
        "total-equality-deletes": "0",
    }


def test_rows_that_are_dead_already_are_not_deleted_again(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(300))
    table.tier("r1")
    for number in range(2, 6):
        table.put(*table.rows(10, name=f"round {number}"))
        prepared = table.prepare(f"r{number}")
        assert sum(result.deletes for result in prepared.committable.results) == 10
        prepared.commit()
        table.check()
    assert table.summary()["total-position-deletes"] == "40"


def test_a_deleted_key_can_come_back_and_deleting_what_is_not_there_is_nothing(table: PrimaryKeyTable) -> None:
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


def test_a_round_whose_changes_leave_nothing_writes_no_file(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(20))
    table.tier("r1")
    table.put(*table.rows(5, start=100))
    table.delete(*table.rows(5, start=100))
    prepared = table.prepare("r2")
    assert [result.files for result in prepared.committable.results] == [0] * len(table.logs)
    prepared.commit()
    table.check()


def test_batches_may_be_as_small_as_one_record(kit: Any) -> None:
    """Some batches then hold only the before-image of a row."""
    table = PrimaryKeyTable(kit, primary_key_info("orders", bucket_count=1), batch_rows=1)
    table.put(*table.rows(5))
    table.tier("r1")
    table.put(*table.rows(3, name="new"))
    table.tier("r2")
    table.check()


def test_a_bucket_with_many_dead_rows_is_rewritten_and_its_delete_files_go(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(400))
    table.tier("r1")
    table.put(*table.rows(60, name="second"))
    table.tier("r2")
    table.put(*table.rows(150, name="third"))
    rewritten = [decode_files(result.payload).change.rewritten for result in table.prepare("never").committable.results]  # type: ignore[union-attr]
    assert rewritten == [True, True]
    table.tier("r3")
    table.check()
    summary = table.summary()
    assert summary["operation"] == "overwrite"
    assert {name: summary[name] for name in summary if "delete" in name or "removed-p" in name} == {
        "deleted-data-files": "4",
        "deleted-records": "460",
        "removed-delete-files": "2",
        "removed-position-delete-files": "2",
        "removed-position-deletes": "60",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }
    assert (summary["total-records"], summary["total-data-files"]) == ("400", "2")
    table.put(*table.rows(30, name="fourth"))
    table.tier("r4")
    table.check()


def test_one_bucket_is_rewritten_while_others_get_deletes(table: PrimaryKeyTable) -> None:
    rows = table.rows(400)
    table.put(*rows)
    table.tier("r1")
    mine = [row for row in rows if table._hashed(row)[0] == BucketKey(None, 0)]
    other = [row for row in rows if table._hashed(row)[0] == BucketKey(None, 1)]
    table.put(*(row | {"name": "x"} for row in [*mine[:100], *other[:10]]))
    table.tier("r2")
    table.check()
    summary = table.summary()
    assert (summary["deleted-data-files"], summary["added-position-deletes"], summary["total-position-deletes"]) == ("1", "10", "10")


def test_many_delete_files_are_merged_into_one(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_rule, "MANY_DELETE_FILES", 3)
    table = PrimaryKeyTable(kit, primary_key_info("orders", bucket_count=1))
    table.put(*table.rows(1_000))
    table.tier("r0")
    for number, files in enumerate(["1", "2", "3", "1", "2"]):
        table.put(*table.rows(5, start=number * 3, name=f"changed {number}"))
        table.tier(f"r{number + 1}")
        table.check()
        assert table.summary()["total-delete-files"] == files
        assert table.summary()["total-position-deletes"] == str(5 * number + 5)


def test_a_bucket_of_many_small_files_is_rewritten(table: PrimaryKeyTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_rule, "MANY_FILES", 4)
    table.put(*table.rows(1_000))
    table.tier("r0")
    for number in range(5):
        table.put(*table.rows(3, start=number * 3, name="changed"))
        table.tier(f"r{number + 1}")
        table.check()
    assert int(table.summary()["total-data-files"]) <= 4


def test_many_rounds_end_in_few_manifests_of_data_and_of_deletes(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "SMALL_MANIFESTS", 5)
    monkeypatch.setattr(rewrite_rule, "MANY_DELETE_FILES", 100)
    table = PrimaryKeyTable(kit, primary_key_info("orders", bucket_count=1))
    table.put(*table.rows(1_000))
    view = table.tier("r0")
    for number in range(9):
        table.put(*table.rows(1, start=number, name="changed"))
        table.prepare(f"r{number + 1}", view=view).commit()
        view = kit.view(table.info)
    iceberg = view.handle
    contents = [manifest.content for manifest in iceberg.current_snapshot().manifests(iceberg.io)]
    assert all(1 <= contents.count(content) <= 5 + 1 for content in ManifestContent)  # and that of the last round
    table.check()
    entries = [(entry["data_file"]["content"], entry["sequence_number"]) for entry in iceberg.inspect.entries().to_pylist()]
    assert sorted(entries) == [*((0, number) for number in range(1, 11)), *((1, number) for number in range(2, 11))]


def test_rows_of_a_kv_snapshot_come_before_the_changes(kit: Any) -> None:
    table = PrimaryKeyTable(kit, primary_key_info("orders", bucket_count=1))
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


@pytest.mark.parametrize("count", [0, 3], ids=["empty", "rows"])
def test_a_bucket_that_begins_with_a_kv_snapshot_replaces_whatever_stands_in_it(table: PrimaryKeyTable, count: int) -> None:
    """Rows of keys that the snapshot lacks would stay else: another tiering service may have left them."""
    table.put(*table.rows(300))
    table.tier("r1")
    table.logs = {key: log[:count] for key, log in table.logs.items()}
    view = table.kit.lake.ensure_table(table.info)
    bases = table.kit.lake.bucket_files(table.info, view, dict.fromkeys(table.logs))
    results = [table.write(table.kit.lake, view, "r2", key, 0, count, bases[key], replaces=True) for key in table.logs]
    changes = [decode_files(result.payload).change for result in results]
    assert all(change is not None and change.rewritten for change in changes)
    assert sum(result.records for result in results) == count * len(table.logs)
