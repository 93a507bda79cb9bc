"""Lake tables without system columns: how they look, what their files say, and what is done by footers instead of by columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.lakes.paimon_kit import B0, CLUSTER_ID, COLUMNS, CREATED, KeyedRounds, PaimonKit
from tiering.errors import RoundFailed, SchemaDrift
from tiering.lake.base import Committable, LakeView, WriteResult, WriterInitContext
from tiering.lake.maintenance import Removal
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.proof.file_footer import FileFooter, decode_footer
from tiering.lake.proof.row_checksum import row_checksum
from tiering.lake.rules.reconcile import kept_proofs
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TablePath, TableType

CLEAN = {"table.datalake.layout": "clean"}
B1 = BucketKey(None, 1)
PLACES = {B0: (None, 0), B1: (None, 1)}


@pytest.fixture
def table(kit: PaimonKit) -> TableInfo:
    return kit.log_table(properties=CLEAN)


def keyed(**changes: Any) -> TableInfo:
    info = TableInfo(8, TablePath("sales", "customers"), TableType.PRIMARY_KEY, COLUMNS, 1, CREATED, primary_key=("id",), properties=CLEAN)
    return replace(info, **changes)


def footers(kit: PaimonKit, table: TableInfo) -> list[FileFooter]:
    """Returns the footers of the data files, by bucket and offsets."""
    decoded = []
    for file in files(kit, table):
        texts = {key.decode(): value.decode() for key, value in (pq.read_metadata(file).metadata or {}).items()}
        footer = decode_footer(texts)
        assert footer is not None
        decoded.append(footer)
    return sorted(decoded, key=lambda footer: (footer.bucket.bucket_id, footer.runs, footer.changes))


def files(kit: PaimonKit, table: TableInfo) -> list[Path]:
    splits = kit.by_pypaimon(table).new_read_builder().new_scan().plan().splits()
    return [Path(file.file_path) for split in splits for file in split.files]


def test_a_sorted_file_is_refused_because_no_paimon_writer_of_lakeward_makes_one(kit: PaimonKit, table: TableInfo) -> None:
    kit.tier(table, "r1", [1, 2])
    [file] = files(kit, table)
    rows = pq.read_table(file)
    sorted_footer = {b"lakeward.footer": b"2", b"lakeward.order": b"sorted"}
    pq.write_table(rows.replace_schema_metadata({**(pq.read_metadata(file).metadata or {}), **sorted_footer}), file)
    with pytest.raises(SchemaDrift, match="which Lakeward did not write"):
        kit.lake.row_offsets(table, kit.view(table), {})


def test_a_new_table_looks_as_fluss_1_0_makes_it_and_added_columns_come_last(kit: PaimonKit, table: TableInfo) -> None:
    kit.tier(table, "r1", [1])
    schema = json.loads((kit.folder(table) / "schema" / "schema-0").read_text())
    assert [(field["id"], field["name"], field["type"]) for field in schema["fields"]] == [
        (0, "id", "BIGINT NOT NULL"),
        (1, "name", "STRING"),
    ]
    assert schema["options"].items() >= {"bucket": "-1", "partition.legacy-name": "false", "fluss.table.datalake.layout": "clean"}.items()
    wider = replace(table, schema=COLUMNS.append(pa.field("note", pa.string())))
    kit.prepare(wider, "r2", {"id": [2], "name": ["2"], "note": ["new"]}).commit()
    rows = kit.read(wider).sort_by("id")
    assert rows.to_pylist() == [{"id": 1, "name": "1", "note": None}, {"id": 2, "name": "2", "note": "new"}]


def test_a_lake_table_that_is_there_keeps_its_layout(kit: PaimonKit, table: TableInfo) -> None:
    kit.tier(table, "r1", [1])
    kit.tier(replace(table, properties={}), "r2", [2])
    assert kit.read(table).column_names == ["id", "name"]
    other = kit.log_table(name="other")
    kit.tier(other, "r1", [1])
    kit.tier(replace(other, properties=CLEAN), "r2", [2])
    assert kit.read(other).column_names == ["id", "name", "__bucket", "__offset", "__timestamp"]


def test_a_table_whose_system_columns_were_dropped_is_no_clean_one(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", [1])
    folder = kit.folder(table) / "schema"
    schema = json.loads((folder / "schema-0").read_text())
    fields = [field for field in schema["fields"] if not field["name"].startswith("__")]
    (folder / "schema-1").write_text(json.dumps({**schema, "id": 1, "fields": fields}))
    with pytest.raises(SchemaDrift, match="lacks the column '__bucket'"):
        kit.lake.ensure_table(table)


def test_footer_manifest_and_marker_agree(kit: PaimonKit, table: TableInfo) -> None:
    base = kit.lake.ensure_table(table)
    factory = kit.lake.tiering_factory(table)
    writer = factory.create_writer(WriterInitContext(table, base.table_uuid, B1, None, "r1", "nonce"))
    for start, ids in ((0, [5, 6]), (4, [7])):  # offsets 2 and 3 have no row
        writer.write(kit.rows(table, B1, start, {"id": ids, "name": ["x"] * len(ids)}))
    result = writer.complete(0, 6)
    rows = pa.table({"id": [5, 6, 7], "name": ["x"] * 3})
    assert (result.checksum, result.empty) == (row_checksum(rows), ((2, 4), (5, 6)))
    untrue = Marker(CLUSTER_ID, table.table_id, base.table_uuid, "r1", 1, None, {B1: TieredRange(0, 6)})
    with pytest.raises(RoundFailed, match="the checksums of the files of bucket 1 do not lead from the base's chain to the marker's"):
        factory.create_committer().commit(Committable("r1", (result,)), base, untrue)
    true = replace(untrue, proofs=advanced({}, {}, untrue.buckets, [result], "r1"))
    factory.create_committer().commit(Committable("r1", (result,)), base, true)
    [footer] = footers(kit, table)
    assert footer == FileFooter(7, base.table_uuid, "r1", B1, 3, row_checksum(rows), ((0, 2), (4, 5)))
    [split] = kit.by_pypaimon(table).new_read_builder().new_scan().plan().splits()
    assert [(file.min_sequence_number, file.max_sequence_number, file.row_count) for file in split.files] == [(0, 4, 3)]
    marker = kit.view(table).marker
    assert marker is not None
    assert (marker.proofs[B1].rows, marker.proofs[B1].checksum) == (3, row_checksum(rows))


def test_the_checksum_of_a_primary_key_round_is_the_same_on_another_base(kit: PaimonKit) -> None:
    """A round that is written anew on a new head has other sequence numbers, and has to bring the very same marker."""
    rounds = KeyedRounds(kit, keyed())
    changes = [(ChangeType.INSERT, {"id": 1, "name": "a"}), (ChangeType.DELETE, {"id": 2, "name": None})]
    _, first, _, _ = rounds.prepare("r1", changes)
    rounds.tier("r0", [(ChangeType.INSERT, {"id": number, "name": "x"}) for number in range(9)])
    _, again, _, _ = rounds.prepare("r2", changes)
    assert first.results[0].checksum == again.results[0].checksum is not None
    assert first.results[0].payload != again.results[0].payload
    _, other, _, _ = rounds.prepare("r3", [changes[0], (ChangeType.INSERT, {"id": 2, "name": None})])
    assert other.results[0].checksum != again.results[0].checksum


def mend(kit: PaimonKit, table: TableInfo, base: LakeView, results: Sequence[WriteResult], ends: dict[BucketKey, int]) -> None:
    """Repairs the table as `reconcile_lake` does."""
    survey = kit.lake.survey(table.path)
    assert survey is not None
    ranges = {bucket: TieredRange(0, end) for bucket, end in ends.items()}
    before = {bucket: tiered.tiered for bucket, tiered in base.ranges.items()}
    moved = [replace(result, starting_offset=before[result.bucket], reached_offset=ends[result.bucket]) for result in results]
    proofs = kept_proofs(survey, ranges)
    base_round = None if base.marker is None else base.marker.round_id
    marker = Marker(CLUSTER_ID, table.table_id, base.table_uuid, "mend", 2, base_round, ranges, proofs=proofs)
    kit.lake.tiering_factory(table).create_committer().commit(Committable("mend", tuple(moved)), base, marker)


def both_buckets(kit: PaimonKit, table: TableInfo) -> None:
    for round_id, bucket, ids in (("r1", B0, range(6)), ("r2", B1, range(10, 14)), ("r3", B0, range(6, 9))):
        kit.prepare(table, round_id, {"id": ids, "name": ["x"] * len(ids)}, bucket).commit()


def test_offsets_of_rows_are_known_without_reading_them(kit: PaimonKit, table: TableInfo) -> None:
    both_buckets(kit, table)
    assert kit.lake.row_offsets(table, kit.view(table), {}).ranges() == {(None, 0): (0, 9), (None, 1): (0, 4)}


def test_rows_from_an_offset_on_are_removed_by_footers_and_what_stays_has_footers_again(kit: PaimonKit, table: TableInfo) -> None:
    both_buckets(kit, table)
    base = kit.view(table)
    results = kit.lake.remove_rows(table, base, "mend", Removal(PLACES, {B0: 4}))
    assert {result.bucket: result.deletes for result in results} == {B0: 5}
    mend(kit, table, base, results, {B0: 4, B1: 4})
    assert sorted(kit.read(table)["id"].to_pylist()) == [0, 1, 2, 3, 10, 11, 12, 13]
    rows = pa.table({"id": range(4), "name": ["x"] * 4})
    assert [(footer.round_id, footer.bucket, footer.runs) for footer in footers(kit, table)] == [
        ("mend", B0, ((0, 4),)),
        ("r2", B1, ((0, 4),)),
    ]
    assert footers(kit, table)[0].checksum == row_checksum(rows)
    marker = kit.view(table).marker
    assert marker is not None
    assert set(marker.proofs) == {B1}  # that of bucket 0 begins anew with its next round
    kit.tier(table, "r4", [4, 5])
    newest = kit.view(table).marker
    assert newest is not None
    assert (newest.proofs[B0].since, newest.proofs[B0].rows) == (4, 2)


def test_a_file_of_another_program_is_named_with_the_next_step(kit: PaimonKit, table: TableInfo) -> None:
    both_buckets(kit, table)
    builder = kit.by_pypaimon(table).new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow(pa.table({"id": [99], "name": ["theirs"]}, schema=COLUMNS))
    builder.new_commit().commit(writer.prepare_commit())
    view = kit.view(table)
    for look in (
        lambda: kit.lake.row_offsets(table, view, {}),
        lambda: kit.lake.remove_rows(table, view, "mend", Removal(PLACES, {B0: 4})),
    ):
        with pytest.raises(
            SchemaDrift, match="which Lakeward did not write: the layout is clean, and the rows of the file have no offsets"
        ) as refusal:
            look()
        assert refusal.value.hint.startswith("CALL sys.reconcile_lake('sales.orders', 'accept') continues from the recorded offsets")
    assert kit.lake.foreign_snapshot(table, view, view.head or 0, {}).has_clean_rows


def test_a_bucket_of_a_primary_key_table_is_emptied(kit: PaimonKit) -> None:
    table = keyed()
    KeyedRounds(kit, table).tier("r1", [(ChangeType.INSERT, {"id": key, "name": "x"}) for key in range(3)])
    base = kit.view(table)
    results = kit.lake.remove_rows(table, base, "mend", Removal({B0: (None, 0)}, emptied=frozenset({B0})))
    assert [(result.bucket, result.deletes) for result in results] == [(B0, 3)]


def test_rows_of_a_former_partition_of_the_same_name_are_left_alone(kit: PaimonKit) -> None:
    columns = COLUMNS.append(pa.field("day", pa.string(), nullable=False))
    table = kit.log_table(columns, partition_keys=("day",), properties=CLEAN)
    for number in (3, 4):
        kit.prepare(table, f"r{number}", {"id": range(5), "name": ["x"] * 5, "day": ["d0"] * 5}, BucketKey(number, 0), "d0").commit()
    anew = BucketKey(4, 0)
    results = kit.lake.remove_rows(table, kit.view(table), "mend", Removal({anew: ("d0", 4)}, {anew: 3}))
    assert [(result.bucket, result.deletes) for result in results] == [(anew, 2)]
