"""The commit: one compare-and-set that lands once or not at all, and an outcome that only the lake knows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import SnapshotRefType

from support.repository import ROOT
from tiering.errors import CommitOutcomeUnknown, Fenced, LakewardError
from tiering.lake import marker as codec
from tiering.lake.iceberg.commit import staging
from tiering.lake.iceberg.commit.manifests import SMALL_MANIFESTS
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.marker import TieredRange
from tiering.lake.rules.base_check import Base, CommitOutcome, check_same_base, resolve_commit
from tiering.model.tables import BucketKey

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


def dense(stops: dict[BucketKey, int]) -> list[tuple[int, int]]:
    return sorted((key.bucket_id, offset) for key, stop in stops.items() for offset in range(stop))


# --- it lands


def test_rounds_append_each_offset_once_and_move_the_tag_with_the_head(kit: Any) -> None:
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10, B1: 4})
    second = kit.tier(table, "r2", {B0: 25})
    assert kit.offsets_in_lake(table) == dense({B0: 25, B1: 4})
    assert first.head == first.tiered
    assert second.head == second.tiered != first.tiered
    assert second.marker.base_round_id == "r1"
    assert second.marker.buckets == {B0: TieredRange(0, 25), B1: TieredRange(0, 4)}
    assert (second.records, second.files) == (29, 3)
    assert second.snapshots[second.head].parent_id == first.head


def test_the_tag_is_kept_for_ever_and_the_branchs_retention_is_left_alone(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    iceberg = kit.catalog().load_table(str(table.path))
    head = iceberg.current_snapshot().snapshot_id
    iceberg.manage_snapshots().create_branch(head, "main", max_snapshot_age_ms=5, min_snapshots_to_keep=3).commit()
    refs = kit.tier(table, "r2", {B0: 12}).handle.metadata.refs
    assert refs[TAG].snapshot_ref_type is SnapshotRefType.TAG
    assert refs[TAG].max_ref_age_ms == 2**63 - 1
    assert (refs["main"].max_snapshot_age_ms, refs["main"].min_snapshots_to_keep) == (5, 3)


def test_a_snapshot_has_properties_for_others_beside_its_marker_and_never_in_its_place(kit: Any) -> None:
    table = kit.table()
    prepared = kit.prepare(table, "r1", {B0: 10})
    properties = {"fluss-offsets": "/remote/1.offsets", "commit-user": "__fluss_lake_tiering", codec.ROUND_ID_KEY: "another"}
    prepared.committer().commit(prepared.committable, prepared.base, prepared.marker, properties)
    after = kit.view(table)
    summary = after.handle.current_snapshot().summary
    assert (summary["fluss-offsets"], summary["commit-user"]) == ("/remote/1.offsets", "__fluss_lake_tiering")
    assert after.marker == prepared.marker
    kit.tier(table, "r2", {B0: 20})
    assert "fluss-offsets" not in kit.view(table).handle.current_snapshot().summary.additional_properties


def test_a_round_without_files_moves_offsets(kit: Any) -> None:
    """Log offsets without records (control batches) still have to be passed."""
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {})
    marker = replace(prepared.marker, buckets={B0: TieredRange(0, 15)})
    replace(prepared, marker=marker).commit()
    after = kit.view(table)
    assert after.marker == marker
    assert after.records == 10
    assert kit.offsets_in_lake(table) == dense({B0: 10})


def test_an_empty_split_passes_offsets_too(kit: Any) -> None:
    table = kit.table()
    view = kit.lake.ensure_table(table)
    prepared = kit.prepare(table, "r1", {B0: 0}, view=view)
    assert [result.files for result in prepared.committable.results] == [0]
    prepared.commit()
    assert kit.view(table).marker.buckets == {B0: TieredRange(0, 0)}


def test_a_very_long_marker_lies_beside_the_table_and_is_read_back(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "PLAIN_LIMIT_BYTES", 10)
    monkeypatch.setattr(codec, "SUMMARY_LIMIT_BYTES", 10)
    table = kit.table()
    prepared = kit.prepare(table, "r1", {B0: 10})
    prepared.commit()
    view = kit.view(table)
    assert view.marker == prepared.marker
    files = list((kit.folder / "lake" / ".lakeward" / view.table_uuid).iterdir())
    assert [path.suffix for path in files] == [".marker"]
    files[0].unlink()
    with pytest.raises(LakewardError, match="is missing"):
        kit.lake.view(table.path)


def test_many_small_commits_end_in_few_manifests_and_lose_nothing(kit: Any) -> None:
    table = kit.table(bucket_count=1)
    rounds = 2 * SMALL_MANIFESTS + 5
    view = kit.lake.ensure_table(table)
    for number in range(1, rounds + 1):
        kit.prepare(table, f"r{number}", {B0: number}, view=view).commit()
        view = kit.view(table)
    iceberg = view.handle
    assert len(iceberg.current_snapshot().manifests(iceberg.io)) <= SMALL_MANIFESTS + 1
    assert kit.offsets_in_lake(table) == dense({B0: rounds})
    assert view.records == view.files == rounds
    entries = iceberg.inspect.entries().to_pylist()
    assert {entry["sequence_number"] for entry in entries} == set(range(1, rounds + 1))
    assert {entry["snapshot_id"] for entry in entries} == set(view.snapshots)  # readers of changes see nothing as added twice


# --- it does not land


def test_of_two_stale_writers_exactly_one_lands(kit: Any) -> None:
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    other = IcebergLake(kit.properties)
    other.ensure_table(table)
    late, early = kit.prepare(table, "late", {B0: 20}, view=base), kit.prepare(table, "early", {B0: 30}, lake=other, view=base)
    early.commit()
    with pytest.raises(CommitOutcomeUnknown):
        late.commit()
    assert resolve_commit(kit.view(table), "late", Base(base, base.marker, False)).outcome is CommitOutcome.OTHER_ROUND
    with pytest.raises(Fenced):
        check_same_base(Base(base, base.marker, False), kit.view(table), kit.known(table))
    assert kit.offsets_in_lake(table) == dense({B0: 30})


def test_of_two_first_rounds_exactly_one_lands(kit: Any) -> None:
    table = kit.table()
    base = kit.lake.ensure_table(table)
    rounds = [kit.prepare(table, name, {B0: 10}, view=base) for name in ("a", "b")]
    rounds[0].commit()
    with pytest.raises(CommitOutcomeUnknown):
        rounds[1].commit()
    assert resolve_commit(kit.view(table), "b", Base(base, None, False)).outcome is CommitOutcome.OTHER_ROUND
    assert kit.offsets_in_lake(table) == dense({B0: 10})


def test_writers_that_commit_at_the_same_moment_land_once(kit: Any) -> None:
    table = kit.table()
    base = kit.tier(table, "r0", {B0: 1})
    rounds = [kit.prepare(table, f"racer{number}", {B0: 10}, lake=IcebergLake(kit.properties), view=base) for number in range(4)]
    gate = threading.Barrier(len(rounds))
    outcomes: list[str] = []

    def race(prepared: Any) -> None:
        gate.wait()
        try:
            prepared.commit()
            outcomes.append("landed")
        except CommitOutcomeUnknown:
            outcomes.append("unknown")

    threads = [threading.Thread(target=race, args=(prepared,)) for prepared in rounds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = kit.view(table)
    stale = Base(base, base.marker, False)
    resolved = {prepared.marker.round_id: resolve_commit(after, prepared.marker.round_id, stale).outcome for prepared in rounds}
    landed = [name for name, outcome in resolved.items() if outcome is CommitOutcome.OURS]
    assert outcomes.count("landed") == 1
    assert landed == [after.marker.round_id]
    assert kit.offsets_in_lake(table) == dense({B0: 10})


STALE_PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
from support.lakes.lake_kit import LakeKit, bucket
from pathlib import Path
from tiering.errors import CommitOutcomeUnknown
kit = LakeKit(Path(sys.argv[2]))
prepared = kit.prepare(kit.table(), sys.argv[3], {bucket(0): 40})
print("ready", flush=True)
sys.stdin.readline()
try:
    prepared.commit()
    print("landed", flush=True)
except CommitOutcomeUnknown:
    print("unknown", flush=True)
"""


def test_of_two_processes_on_one_base_exactly_one_lands(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    arguments = [sys.executable, "-c", STALE_PROCESS, str(ROOT / "tests"), str(kit.folder)]
    writers = [subprocess.Popen([*arguments, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in ("p1", "p2")]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        ends = sorted(writer.communicate(timeout=60)[0].strip() for writer in writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert ends == ["landed", "unknown"]
    assert kit.offsets_in_lake(table) == dense({B0: 40})


def test_a_commit_that_landed_but_was_reported_failed_is_ours(kit: Any, observed: Any) -> None:
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base)
    broken = prepared.with_catalog(lambda catalog: observed(catalog, CommitFailedException("conflict, says the server")))
    with pytest.raises(CommitOutcomeUnknown) as caught:
        broken.commit()
    assert isinstance(caught.value.__cause__, CommitFailedException)
    assert len(broken.factory.catalog.requests) == 1
    resolved = resolve_commit(kit.view(table), "r2", Base(base, base.marker, False))
    assert (resolved.outcome, resolved.snapshot_id) == (CommitOutcome.OURS, kit.view(table).head)
    prepared.committer().abort(prepared.committable)
    assert kit.offsets_in_lake(table) == dense({B0: 20})


class Panic(BaseException):
    """A panic like those of libraries in Rust: no `Exception`."""


def test_a_panic_while_the_request_was_under_way_leaves_its_outcome_unknown(kit: Any, observed: Any) -> None:
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.with_catalog(lambda catalog: observed(catalog, Panic("not aligned"))).commit()
    prepared.committer().abort(prepared.committable)
    assert kit.offsets_in_lake(table) == dense({B0: 20})


def test_after_a_request_no_committer_of_the_process_deletes_the_rounds_files(kit: Any, observed: Any) -> None:
    table = kit.table()
    prepared = kit.prepare(table, "r1", {B0: 10})
    with pytest.raises(CommitOutcomeUnknown):
        prepared.with_catalog(lambda catalog: observed(catalog, TimeoutError(), lands=False)).commit()
    kit.lake.tiering_factory(table).create_committer().abort(prepared.committable)
    prepared.commit()
    assert kit.offsets_in_lake(table) == dense({B0: 10})


def test_before_a_request_an_abort_deletes_the_rounds_files(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    before = sorted(kit.folder.rglob("*.parquet"))
    prepared = kit.prepare(table, "r2", {B0: 20, B1: 3})
    assert len(list(kit.folder.rglob("*.parquet"))) == len(before) + 2
    prepared.committer().abort(prepared.committable)
    prepared.committer().abort(prepared.committable)
    assert sorted(kit.folder.rglob("*.parquet")) == before
    assert kit.offsets_in_lake(table) == dense({B0: 10})


def test_staging_that_fails_sends_nothing_and_can_be_aborted(kit: Any, observed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.table()
    prepared = kit.prepare(table, "r1", {B0: 10}).with_catalog(observed)
    committer = prepared.committer()

    def full(**arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(staging, "write_manifest_list", full)
    with pytest.raises(LakewardError, match="No space left") as caught:
        committer.commit(prepared.committable, prepared.base, prepared.marker)
    assert not isinstance(caught.value, CommitOutcomeUnknown)
    assert caught.value.retryable
    assert prepared.factory.catalog.requests == []
    assert not list(kit.folder.rglob("*.avro"))
    committer.abort(prepared.committable)
    assert not list(kit.folder.rglob("*.parquet"))


def test_every_file_of_a_local_lake_is_on_the_disk_before_it_is_committed(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    kit.tier(kit.table(), "r1", {B0: 10})
    written = [path for path in (kit.folder / "lake").rglob("*") if path.is_file()]
    assert {path.suffix for path in written} == {".parquet", ".avro", ".json"}
    assert set(written) <= set(synced)
    assert {path.parent for path in written} <= set(synced)
    folders = [path for path in (kit.folder / "lake").rglob("*") if path.is_dir()]
    assert {folder.parent for folder in [kit.folder / "lake", *folders]} <= set(synced)
