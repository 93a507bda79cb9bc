"""Rounds of log tables merge small files: a snapshot of the kind COMPACT follows the round's own, and changes no row."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.lakes.paimon_kit import B0, CLUSTER_ID, COLUMNS, PaimonKit, PreparedRound
from tiering.errors import CommitOutcomeUnknown, DataCorrupt, MarkerCorrupt
from tiering.lake.base import Committable, LakeView
from tiering.lake.paimon.commit import committer
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.reading.data_files import known_footer
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.storage.local import LocalTableFolder
from tiering.lake.paimon.upkeep import planning
from tiering.lake.proof.file_footer import Run, merged
from tiering.lake.rules.base_check import ExpectedLake, check_base
from tiering.lake.rules.upkeep.small_files import SMALL_FILES
from tiering.model.tables import BucketKey, TableInfo
from tiering.model.upkeep import UpkeepOrder

MANY = 64 << 20
CLEAN = {"table.datalake.layout": "clean"}
LAYOUTS = pytest.mark.parametrize("properties", [CLEAN, {}], ids=["clean", "system-columns"])


class MergingRounds:
    """Rounds of one row each that merge small files as the steps of a round do."""

    def __init__(self, kit: PaimonKit, table: TableInfo, bucket: BucketKey = B0, partition: str | None = None) -> None:
        self.kit, self.table, self.bucket, self.partition = kit, table, bucket, partition
        self._numbers = itertools.count(1)
        self.ids: list[int] = []

    def prepare(self, **values: Any) -> PreparedRound:
        number = next(self._numbers)
        columns = {"id": [number], "name": [str(number)], **{name: [value] for name, value in values.items()}}
        prepared = self.kit.prepare(self.table, f"r{number}", columns, self.bucket, self.partition)
        nonces = (f"m{index}" for index in itertools.count())
        rewrites = self.kit.lake.merge_small_files(
            self.table, prepared.base, {self.bucket: self.partition}, f"r{number}", lambda: next(nonces), MANY
        )
        self.ids.append(number)
        return replace(prepared, committable=replace(prepared.committable, rewrites=tuple(rewrites)))

    def run(self, count: int, **values: Any) -> None:
        for _ in range(count):
            self.prepare(**values).commit()


def kinds(view: LakeView) -> list[str]:
    return [view.snapshots[number].operation for number in sorted(view.snapshots)]


def live_files(view: LakeView) -> list[Any]:
    loaded = cast(LoadedTable, view.handle)
    assert loaded.head is not None
    return Manifests(loaded).live_entries(loaded.head)


@LAYOUTS
def test_small_files_stay_few_and_rows_stay_as_they_are(kit: PaimonKit, properties: dict[str, str]) -> None:
    table = kit.log_table(properties=properties)
    rounds = MergingRounds(kit, table)
    rounds.run(40)

    view = kit.view(table)
    assert len(live_files(view)) <= SMALL_FILES + 1
    assert "COMPACT" in kinds(view)
    assert sorted(kit.read(table)["id"].to_pylist()) == rounds.ids
    assert view.records == 40
    assert kit.lake.row_offsets(table, kit.view(table), {}).ranges() == {(None, 0): (0, 40)}


@LAYOUTS
def test_a_reader_that_follows_the_table_gets_each_row_once(kit: PaimonKit, properties: dict[str, str]) -> None:
    """The reader takes the files that each snapshot of the kind APPEND adds (Paimon's `DeltaFollowUpScanner`)."""
    table = kit.log_table(properties=properties)
    rounds = MergingRounds(kit, table)
    rounds.run(25)

    loaded = cast(LoadedTable, kit.view(table).handle)
    manifests = Manifests(loaded)
    followed = 0
    for snapshot in loaded.chain:
        changes = manifests.changes(snapshot)
        if snapshot.document["commitKind"] == "APPEND":
            assert not changes.removed
            followed += sum(int(entry.file.row_count) for entry in changes.added)
        else:
            added, removed = ([int(entry.file.row_count) for entry in entries] for entries in (changes.added, changes.removed))
            assert sum(added) == sum(removed)
            assert (snapshot.document["deltaRecordCount"], snapshot.document["commitUser"]) == (0, "lakeward")
            assert "lakeward.round-id" not in snapshot.properties
    assert followed == 25


@LAYOUTS
def test_each_bucket_and_partition_is_merged_by_itself(kit: PaimonKit, properties: dict[str, str]) -> None:
    """Buckets of a table without a bucket key share one of Paimon's; a partition that is made anew has another id."""
    columns = pa.schema([*COLUMNS, pa.field("region", pa.string())])
    table = kit.log_table(columns, partition_keys=("region",), properties=properties)
    buckets = [BucketKey(1, 0), BucketKey(1, 1), BucketKey(21, 1)]
    all_rounds = [MergingRounds(kit, table, bucket, "south" if bucket.partition_id == 21 else "north") for bucket in buckets]
    for number, rounds in enumerate(all_rounds):
        rounds._numbers = itertools.count(1 + 100 * number)
    for _ in range(14):
        for rounds in all_rounds:
            rounds.run(1, region=rounds.partition)
    view = kit.view(table)
    for bucket in buckets:
        suffix = f"-{bucket.partition_id}-{bucket.bucket_id}"
        mine = [
            entry for entry in live_files(view) if str(entry.file.file_name).removesuffix(".parquet").rpartition("-")[0].endswith(suffix)
        ]
        assert 2 <= len(mine) <= SMALL_FILES + 1
    offsets = kit.lake.row_offsets(table, view, {"north": 1, "south": 21})
    assert offsets.ranges() == {("north", 0): (0, 14), ("north", 1): (0, 14), ("south", 1): (0, 14)}
    assert sorted(kit.read(table, region="north")["id"].to_pylist()) == sorted(all_rounds[0].ids + all_rounds[1].ids)


@LAYOUTS
def test_files_from_before_a_column_was_added_are_merged_with_newer_ones(kit: PaimonKit, properties: dict[str, str]) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=properties))
    rounds.run(6)
    rounds.table = kit.log_table(pa.schema([*COLUMNS, pa.field("note", pa.string())]), properties=properties)
    rounds.run(8, note="new")
    assert "COMPACT" in kinds(kit.view(rounds.table))
    rows = kit.read(rounds.table).sort_by("id")
    assert rows["note"].to_pylist() == [None] * 6 + ["new"] * 8


def run_until_due(rounds: MergingRounds) -> PreparedRound:
    """The first round that merges files, with its commit not sent."""
    while True:
        prepared = rounds.prepare()
        if prepared.committable.rewrites:
            return prepared
        prepared.commit()


def between_snapshots(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """`happens` once, in the instant between a round's snapshot and the next one that is made."""
    create = LocalTableFolder.create

    def delayed(self: LocalTableFolder, folder: str, name: str, content: bytes) -> None:
        if folder == "snapshot" and json.loads(content)["commitKind"] == "COMPACT":
            monkeypatch.setattr(LocalTableFolder, "create", create)
            happens()
        create(self, folder, name, content)

    monkeypatch.setattr(LocalTableFolder, "create", delayed)


@LAYOUTS
def test_a_foreign_commit_between_the_two_snapshots_leaves_the_round_landed(
    kit: PaimonKit, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]
) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=properties))
    prepared = run_until_due(rounds)
    between_snapshots(monkeypatch, lambda: kit.foreign_commit(rounds.table))
    landed = prepared.commit()

    view = kit.view(rounds.table)
    assert (view.tiered, view.marker) == (landed, prepared.marker)
    assert kinds(view)[-2:] == ["APPEND", "APPEND"]  # the foreign commit, and no compaction on it
    check_base(view, ExpectedLake(CLUSTER_ID, rounds.table.table_id, None, None))
    rounds.run(12)
    assert sorted(kit.read(rounds.table)["id"].to_pylist()) == rounds.ids
    assert len(live_files(kit.view(rounds.table))) <= SMALL_FILES + 1


def test_a_process_that_dies_between_the_two_snapshots_loses_nothing(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    prepared = run_until_due(rounds)

    def dies() -> None:
        raise KeyboardInterrupt

    between_snapshots(monkeypatch, dies)
    with pytest.raises(KeyboardInterrupt):
        prepared.commit()
    view = kit.view(rounds.table)
    assert (view.tiered, view.head, view.marker) == (len(rounds.ids), len(rounds.ids), prepared.marker)
    rounds.run(10)
    assert kit.lake.row_offsets(rounds.table, kit.view(rounds.table), {}).ranges() == {(None, 0): (0, len(rounds.ids))}


def test_a_merge_that_cannot_be_published_does_not_cost_the_round(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    prepared = run_until_due(rounds)

    def refuses(*arguments: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(committer, "fitting_rewrites", refuses)
    landed = prepared.commit()
    assert (kit.view(rounds.table).head, kit.view(rounds.table).tiered) == (landed, landed)


def test_a_merge_is_left_out_once_a_user_has_removed_one_of_its_files(kit: PaimonKit) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    prepared = run_until_due(rounds)
    view = kit.view(rounds.table)
    removed = next(entry.file.file_name for entry in live_files(view) if int(entry.file.max_sequence_number) == 3)
    kit.without_file(rounds.table, removed)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    base = kit.view(rounds.table)
    prepared.factory.create_committer().commit(prepared.committable, base, prepared.marker)
    assert kinds(kit.view(rounds.table))[-2:] == ["OVERWRITE", "APPEND"]
    assert 4 not in kit.read(rounds.table)["id"].to_pylist()


def test_a_merge_is_left_out_once_another_writer_left_deletion_vectors(kit: PaimonKit) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    prepared = run_until_due(rounds)
    kit.foreign_commit(rounds.table)
    newest = max((kit.folder(rounds.table) / "snapshot").glob("snapshot-*"), key=lambda file: int(file.name.rpartition("-")[2]))
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "indexManifest": "index-manifest-1"}))
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    prepared.factory.create_committer().commit(prepared.committable, kit.view(rounds.table), prepared.marker)
    assert kinds(kit.view(rounds.table))[-2:] == ["APPEND", "APPEND"]


def test_a_round_without_time_left_merges_no_further_bucket(kit: PaimonKit) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    prepared = run_until_due(rounds)
    assert not kit.lake.merge_small_files(rounds.table, prepared.base, {B0: None}, "r", lambda: "n", MANY, lambda: True)


def test_a_roll_back_between_the_two_snapshots_is_never_silent(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    prepared = run_until_due(rounds)

    def rolled_back() -> None:
        kit.roll_back(rounds.table, len(rounds.ids) - 1)
        kit.foreign_commit(rounds.table)

    between_snapshots(monkeypatch, rolled_back)
    prepared.commit()
    with pytest.raises(MarkerCorrupt, match="was not built on snapshot"):
        kit.view(rounds.table)


def test_files_of_other_writers_are_left_alone(kit: PaimonKit) -> None:
    table = kit.log_table(properties={})
    rounds = MergingRounds(kit, table)
    rounds.run(3)
    builder = kit.by_pypaimon(table).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(kit.read(table).slice(0, 1))
    commit.commit(writer.prepare_commit())
    rounds.run(12)
    names = [str(entry.file.file_name) for entry in live_files(kit.view(table))]
    assert sum(not name.startswith("lakeward-") for name in names) == 1
    assert kit.read(table).num_rows == 16


def test_a_file_whose_rows_were_changed_is_not_merged(kit: PaimonKit) -> None:
    """The footer of the file names another checksum. Nothing of the merge is left behind."""
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    rounds.run(SMALL_FILES)
    path = max(kit.folder(rounds.table).glob("bucket-0/*.parquet"))
    before = set(kit.folder(rounds.table).glob("bucket-0/*"))
    _with_other_rows(path)
    rounds.run(1)
    with pytest.raises(DataCorrupt, match="do not match"):
        rounds.prepare()
    assert len(set(kit.folder(rounds.table).glob("bucket-0/*")) - before) <= 3


def _with_other_rows(path: Path) -> None:
    with pq.ParquetFile(path) as file:
        table, metadata = file.read(), file.metadata.metadata
    column = pa.array([int(value) + 7 for value in table["id"].to_pylist()], pa.int64())
    changed = table.set_column(0, table.schema.field(0), column)
    writer = pq.ParquetWriter(path, changed.schema, store_schema=False)
    writer.write_table(changed)
    writer.add_key_value_metadata({key: value for key, value in metadata.items() if key.startswith(b"lakeward.")})
    writer.close()


def test_merged_files_name_all_offsets_in_their_footers(kit: PaimonKit) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    rounds.run(20)
    loaded = cast(LoadedTable, kit.view(rounds.table).handle)
    runs: list[Run] = []
    for entry in live_files(kit.view(rounds.table)):
        footer = known_footer(loaded.storage, loaded.root / Manifests(loaded).file_path(entry), int(entry.file.row_count))
        assert footer is not None
        runs += footer.runs
    assert merged(runs) == ((0, 20),)


def test_a_round_that_is_given_up_deletes_its_merged_files(kit: PaimonKit) -> None:
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    prepared = run_until_due(rounds)
    prepared.factory.create_committer().abort(prepared.committable)
    assert len(list(kit.folder(rounds.table).glob("bucket-0/*"))) == len(live_files(kit.view(rounds.table)))


def test_an_upkeep_round_is_one_snapshot_with_the_marker(kit: PaimonKit) -> None:
    """Rewrites without new rows: offsets are the same, epoch and round id are new."""
    rounds = MergingRounds(kit, kit.log_table(properties=CLEAN))
    prepared = run_until_due(rounds)
    base = kit.view(rounds.table)
    assert base.marker is not None
    marker = replace(base.marker, round_id="upkeep", base_round_id=base.marker.round_id)
    rewrites = [replace(rewrite) for rewrite in prepared.committable.rewrites]
    committed = prepared.factory.create_committer().commit(Committable("upkeep", (), tuple(rewrites)), base, marker)
    view = kit.view(rounds.table)
    assert (view.head, view.tiered, view.marker) == (committed, committed, marker)
    assert kinds(view)[-1] == "COMPACT"
    assert sorted(kit.read(rounds.table)["id"].to_pylist()) == rounds.ids[:-1]


def test_a_tables_option_says_how_large_files_become(kit: PaimonKit) -> None:
    table = kit.log_table(properties=CLEAN)
    rounds = MergingRounds(kit, table)
    rounds.run(8)
    rounds.table = replace(table, target_file_bytes=100)
    rounds.run(4)
    assert kit.lake.measure(rounds.table, kit.view(table)).files.target_bytes == 100
    assert len(live_files(kit.view(table))) == 12  # no file is small
    rounds.table = table
    rounds.run(1)
    assert len(live_files(kit.view(table))) < 12


@pytest.mark.parametrize(("bucket_keys", "lengths"), [((), [6]), (("id",), [3, 3])], ids=["without a bucket key", "with a bucket key"])
def test_files_on_both_sides_of_a_file_that_stays_are_merged_only_where_files_have_no_order(
    kit: PaimonKit, monkeypatch: pytest.MonkeyPatch, bucket_keys: tuple[str, ...], lengths: list[int]
) -> None:
    """In a table with a bucket key readers take the files of a bucket by sequence number."""
    table = kit.log_table(properties=CLEAN, bucket_count=1, bucket_keys=bucket_keys)
    MergingRounds(kit, table).run(7)
    name_of_bucket = planning.bucket_of_name
    monkeypatch.setattr(  # as if another writer had written the fourth file
        planning, "bucket_of_name", lambda name, **options: None if "-r4-" in name else name_of_bucket(name, **options)
    )
    plan = kit.lake.plan_upkeep(table, kit.view(table), UpkeepOrder(full=True), {})
    assert [task.files for task in plan.tasks] == lengths
