"""A proof has the numbers that readers count: a missing reader is named, and one that counts another number makes the verdict wrong."""

from __future__ import annotations

import pytest

from support.lake_kinds.kinds import LAKE_KINDS, in_lakes
from support.proofs.prover import Prover
from support.worlds.lake_world import LakeWorld
from tiering.cli.spark.lake_reader import spark_reader
from tiering.lake.proof.reader_counts import ReaderCount, counted_by
from tiering.model.tables import TableInfo
from tiering.validate.archive import verify
from tiering.validate.archive.sealing import sealed
from tiering.validate.archive.spark_reader import SparkReader


def test_spark_counts_the_rows_of_the_snapshot(world: LakeWorld, table: TableInfo) -> None:
    view = world.view(table)
    first, second = sorted(view.snapshots.values(), key=lambda snapshot: snapshot.committed_at)[-2:]
    reader = spark_reader(world.lake_properties)
    assert [reader.count(table.path, snapshot.snapshot_id).rows for snapshot in (first, second)] == [40, 60]
    failed = reader.count(table.path, 7)
    assert (failed.rows, failed.note.startswith("cannot read the snapshot: ")) == (None, True)


def test_a_spark_that_is_not_installed_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, world: LakeWorld, table: TableInfo) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    reader = spark_reader(world.lake_properties)
    assert reader.count(table.path, 7) == ReaderCount("Spark", None, None, "not installed: no Java was found (JAVA_HOME=/nowhere)")


def test_a_package_that_is_missing_or_cannot_read_is_named() -> None:
    def failing() -> int:
        raise ValueError("no such thing")

    class Panic(BaseException):
        pass

    def panicking() -> int:
        raise Panic("index out of range")

    assert counted_by("no-such-reader", failing) == ReaderCount("no-such-reader", None, None, "not installed")
    assert counted_by("polars", lambda: 3).rows == 3
    assert [(count.rows, count.note.partition(":")[0]) for count in (counted_by("polars", failing), counted_by("polars", panicking))] == [
        (None, "cannot read the snapshot"),
        (None, "cannot read the snapshot"),
    ]


@in_lakes(*LAKE_KINDS)
def test_a_reader_that_counts_another_number_makes_the_verdict_wrong(
    world: LakeWorld, prover: Prover, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(world.lake), "count_rows", lambda lake, view, snapshot_id: [ReaderCount("other", "1", 59)])
    document = prover.document(table)
    assert (document["verdict"], {scope["verdict"] for scope in document["scopes"]}) == ("differs", {"equal"})
    assert verify.reason_of(document) == "other counted 59 rows, and the files have 60"
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, "the service found a difference: other counted 59 rows, and the files have 60" in printed) == (1, True)


def test_a_reader_that_does_not_count_is_noted_and_changes_no_verdict(
    world: LakeWorld, prover: Prover, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(world.lake), "count_rows", lambda lake, view, snapshot_id: [counted_by("no-such-reader", lambda: 0)])
    document = prover.document(table)
    assert document["verdict"] == "equal"
    status, printed = prover.verified(sealed(document, prover.key))
    assert status == 0
    assert "note   no-such-reader: not installed\n" in printed
    assert "note   Spark: not asked\n" in printed


def test_the_process_of_spark_may_end_without_an_answer(world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    count = SparkReader("lake", {}).count(table.path, 7)
    assert count == ReaderCount("Spark", None, None, "cannot read the snapshot: the process of Spark ended without an answer")
