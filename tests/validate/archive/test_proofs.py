"""Proofs of tables of all kinds hold for a reader without Lakeward, and do not hold for a lake that was changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.lake_kinds.damages import COLUMNS, FIRST, SECOND, new_table, write_rows
from support.lake_kinds.kinds import LAKE_KINDS, PAIMON_CLEAN, in_lakes
from support.proofs.prover import Prover
from support.worlds.lake_world import LakeWorld
from tiering.cluster.log_writer import LogWriter
from tiering.model.tables import TableInfo, TableType
from tiering.validate.archive import verify
from tiering.validate.archive.sealing import sealed

READERS = {"iceberg": ("pyiceberg", "polars"), "paimon": ("pypaimon",)}
"""The readers of each format that are installed here."""


def files_of(world: LakeWorld, table: TableInfo) -> list[Path]:
    return sorted(world.by_hand.data_files(table.path))


@in_lakes(*LAKE_KINDS)
@pytest.mark.parametrize("table_type", TableType, ids=lambda table_type: table_type.value.lower())
def test_a_proof_holds_for_every_kind_of_table(world: LakeWorld, prover: Prover, table_type: TableType) -> None:
    table = new_table(world, table_type, "t")
    write_rows(world, table, FIRST, "row")
    world.tier_all()
    if table_type is TableType.PRIMARY_KEY:
        write_rows(world, table, SECOND, "row")
        world.tier_all()
    document = prover.document(table)
    assert [scope["verdict"] for scope in document["scopes"]] == ["equal"] * 4
    counts = {reader["reader"]: reader["rows"] for reader in document["readers"] if reader["rows"] is not None}
    assert counts.keys() == {"DuckDB", *READERS[world.lake_format]}
    assert len(set(counts.values())) == 1
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, "the lake table sales.t is equal to its log" in printed) == (0, True), printed


def test_what_a_proof_says(world: LakeWorld, prover: Prover, table: TableInfo) -> None:
    document = prover.document(table)
    assert document["verdict"] == "equal"
    assert [round_["base_round_id"] is None for round_ in document["chain"]] == [False, True]
    bucket = document["buckets"][0]
    assert bucket["log"] == {"from": 0, "to": 30, "records": 30, "checksum": document["scopes"][0]["lake"]["checksum"]}
    assert (bucket["start"], bucket["tiered"], bucket["offsets_in_footers"]) == (0, 30, True)
    assert sorted(file["location"].rpartition("/")[2] for file in document["files"]) == [file.name for file in files_of(world, table)]
    assert all(file["footer"]["lakeward.rows"] == str(file["records"]) for file in document["files"])
    _, printed = prover.verified(sealed(document, prover.key))
    assert "ok     chain     2 rounds" in printed
    assert "ok     offsets   2 buckets, each offset once" in printed
    assert "ok     reader    pyiceberg" in printed


def test_the_lakes_files_may_be_a_copy_elsewhere(world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    archive = prover.archive(table)
    shutil.move(tmp_path / "lake", tmp_path / "copy")
    status, printed = prover.verified(archive)
    assert (status, "is not there: --files DIR names a folder" in printed) == (1, True)
    assert prover.verified(archive, "--files", str(tmp_path / "copy"))[0] == 0
    status, printed = prover.verified(archive, "--archive-only")
    assert (status, "note   the lake's files were not read\n" in printed) == (0, True)


def test_an_unpacked_archive_can_be_checked_in_its_folder(prover: Prover, table: TableInfo) -> None:
    shutil.unpack_archive(prover.save(prover.archive(table)), prover.folder)
    assert prover.run()[0] == 0
    document = prover.folder / "proof.json"
    document.write_text(document.read_text().replace('"rows": 30', '"rows": 31'))
    assert prover.run() == (1, "WRONG  proof.json is not the file that was signed\n")


def test_the_key_may_be_named(prover: Prover, table: TableInfo) -> None:
    archive = prover.archive(table)
    for fingerprint in (prover.key.fingerprint, prover.key.fingerprint.removeprefix("SHA256:")):
        assert prover.verified(archive, "--fingerprint", fingerprint)[0] == 0
    status, printed = prover.verified(archive, "--fingerprint", "SHA256:another")
    assert (status, f"the key {prover.key.fingerprint} signed the archive, and not SHA256:another" in printed) == (1, True)


def _other_row(file: Path) -> None:
    rows = pq.read_table(file, partitioning=None)
    metadata = pq.read_metadata(file).metadata
    place = rows.schema.get_field_index("text")
    changed = rows.set_column(place, rows.schema.field("text"), pa.array(["wrong", *rows["text"].to_pylist()[1:]]))
    pq.write_table(changed.replace_schema_metadata(metadata), file)


@pytest.mark.parametrize("damage", [_other_row, Path.unlink], ids=["a changed row", "a missing file"])
def test_a_change_of_the_lake_after_the_proof_is_found(world: LakeWorld, prover: Prover, table: TableInfo, damage: Any) -> None:
    archive = prover.archive(table)
    file = files_of(world, table)[0]
    damage(file)
    status, printed = prover.verified(archive)
    assert status == 1
    assert f"the file {file} " in printed.splitlines()[-1]


@pytest.mark.parametrize("damage", [_other_row, Path.unlink], ids=["a changed row", "a missing file"])
def test_a_proof_of_a_wrong_lake_table_says_so(world: LakeWorld, prover: Prover, table: TableInfo, damage: Any) -> None:
    damage(files_of(world, table)[0])
    document = prover.document(table)
    assert document["verdict"] == "differs"
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, "the service found a difference" in printed) == (1, True)


def test_rows_that_are_in_the_lake_twice_are_found(world: LakeWorld, prover: Prover, table: TableInfo) -> None:
    world.by_hand.append(table.path, pq.read_table(files_of(world, table)[0], partitioning=None), {})
    document = prover.document(table)
    assert "differs" in {scope["verdict"] for scope in document["scopes"]}
    assert prover.verified(sealed(document, prover.key))[0] == 1


def _renumbered(document: dict[str, Any]) -> None:
    """The checksums of a lake with another row, and those that a service without a check of rows would sign."""
    for row in document["totals"]:
        row[3] = f"{int(row[3], 16) + 1:016x}"
    for scope in document["scopes"]:
        scope["lake"]["checksum"] = scope["log"]["checksum"] = f"{int(scope['lake']['checksum'], 16) + 1:016x}"


def _file_twice(document: dict[str, Any]) -> None:
    document["files"].append(document["files"][0])


def _copied_file(document: dict[str, Any]) -> None:
    document["files"].append({**document["files"][0], "location": document["files"][0]["location"] + ".copy"})


def _no_file(document: dict[str, Any]) -> None:
    del document["files"][0]


def _other_round(document: dict[str, Any]) -> None:
    document["chain"][1]["proofs"]["0"][2] = "0" * 16


def _better_verdict(document: dict[str, Any]) -> None:
    document["scopes"][0]["log"]["rows"] = 31


def _other_reader(document: dict[str, Any]) -> None:
    document["readers"][1]["rows"] += 1


def _other_footer(document: dict[str, Any]) -> None:
    document["files"][0]["footer"]["lakeward.round"] = "r-other"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_renumbered, "the lake's rows are not those of the proof"),
        (_file_twice, "two files have the offset"),
        (_copied_file, "two files have the offset"),
        (_no_file, "no file has the offset"),
        (_other_round, "does not continue that of round"),
        (_better_verdict, "the verdict on the scope 0 does not follow"),
        (_other_reader, "and from what readers counted"),
        (_other_footer, "is not the one of the proof"),
    ],
)
def test_each_part_is_checked_even_if_a_service_signs_what_is_wrong(prover: Prover, table: TableInfo, change: Any, message: str) -> None:
    document = json.loads(json.dumps(prover.document(table)))
    change(document)
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, message in printed) == (1, True), printed


@in_lakes(PAIMON_CLEAN)
def test_a_file_that_the_snapshot_has_twice_is_found_without_offsets(world: LakeWorld, prover: Prover) -> None:
    table = new_table(world, TableType.PRIMARY_KEY, "t")
    write_rows(world, table, FIRST, "row")
    world.tier_all()
    document = prover.document(table)
    _file_twice(document)
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, "has the file" in printed and "twice" in printed) == (1, True), printed


def test_statements_of_a_proof_read_no_other_file(prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    document = prover.document(table)
    document["sql"]["setup"].append([f"CREATE TABLE stolen AS SELECT * FROM read_text('{secret}')", {}])
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, "Permission Error" in printed) == (1, True), printed


def test_odd_names_and_values(world: LakeWorld, prover: Prover) -> None:
    columns = pa.schema([pa.field("select", pa.string()), pa.field("user-id", pa.list_(pa.string())), pa.field("filename", pa.float64())])
    table = world.table("odd", 1, schema=columns)
    rows = {
        "select": ["'", None, "lakeward-file:0"],
        "user-id": [["x, y"], None, ["x", "y"]],
        "filename": [float("nan"), -0.0, None],
    }
    LogWriter(world.storage, table.path, "odd").append(pa.table(rows, schema=columns))
    world.tier(table)
    status, printed = prover.verified(prover.archive(table))
    assert status == 0, printed


def test_a_path_is_put_in_the_place_of_literals_alone() -> None:
    sql = """SELECT "it's", 'lakeward-file:0', 'a''b', "lakeward-file:0" FROM read_parquet(['lakeward-file:1', 'lakeward-file:2'])"""
    assert verify.with_paths(sql, ["/x/o'clock", "/y"]) == (
        """SELECT "it's", '/x/o''clock', 'a''b', "lakeward-file:0" FROM read_parquet(['/y', 'lakeward-file:2'])"""
    )
    assert verify.with_paths({"paths": ["lakeward-file:1", 7]}, ["/x", "/y"]) == {"paths": ["/y", 7]}


@in_lakes(*LAKE_KINDS)
@pytest.mark.parametrize("table_type", TableType, ids=lambda table_type: table_type.value.lower())
def test_a_log_that_was_cut_is_proved_in_part(world: LakeWorld, prover: Prover, table_type: TableType) -> None:
    make = world.table if table_type is TableType.LOG else world.primary_key_table
    table = make("orders", buckets=1, schema=COLUMNS, log_ttl="1 s", **({} if table_type is TableType.LOG else {"key": ("id",)}))
    for start in (0, 40):
        _write_rows(world, table, range(start, start + 40))
        world.tier(table)
        if table_type is TableType.PRIMARY_KEY:
            world.storage.take_kv_snapshots(table.path)
        world.clock.advance(60)
    _write_rows(world, table, range(80, 85))
    world.tier(table)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(table).values()
    assert log.log_start > 0
    document = prover.document(table)
    [scope] = document["scopes"]
    assert (scope["verdict"], scope["why_not_compared"]) == ("partly", f"the log of bucket 0 begins at offset {log.log_start}")
    if table_type is TableType.LOG:
        assert scope["part"]["log"] == scope["part"]["lake"]
        assert scope["part"]["lake"]["rows"] == 85 - log.log_start
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, "ok     verdict   partly compared: the log of bucket 0 begins" in printed) == (0, True), printed


def _write_rows(world: LakeWorld, table: TableInfo, ids: range) -> None:
    writer = LogWriter(world.storage, table.path, f"rows-{ids.start}")
    rows = pa.table({"region": ["eu"] * len(ids), "id": ids, "text": [f"row {key}" for key in ids]}, schema=COLUMNS)
    writer.append(rows) if table.table_type is TableType.LOG else writer.upsert(rows)
