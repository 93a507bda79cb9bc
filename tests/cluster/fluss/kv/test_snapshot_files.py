"""The RocksDB of a KV snapshot: fetched, read to its end, and damaged in every place."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from support.clusters.fluss_log import schema_json
from support.clusters.fluss_rows import encode_value, write_kv_snapshot
from tiering.cluster.fluss.kv import snapshot_files
from tiering.cluster.fluss.kv.snapshot_files import SnapshotFile, read_values
from tiering.cluster.fluss.kv.snapshot_reader import FlussSnapshotReader
from tiering.errors import ClusterUnavailable, DataCorrupt, KvSnapshotGone
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import CHANGE_TYPE_FIELD, SYSTEM_COLUMN_FIELDS, BucketKey, TablePath

SPLIT = TieringSnapshotSplit(TablePath("db", "t"), BucketKey(None, 3), None, 7, 500, 500)
VALUES = [f"{place:05d}".encode() * 20 for place in range(3_000)]


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Sequence[SnapshotFile]:
    return write_kv_snapshot(tmp_path / "remote", VALUES, flush_every=1_000)


def read(files: Sequence[SnapshotFile]) -> list[bytes]:
    return [value for chunk in read_values(tuple(files), {}, SPLIT) for value in chunk]


def table_file(files: Sequence[SnapshotFile]) -> Path:
    return Path(next(file.remote_path for file in files if file.local_name.endswith(".sst")))


def test_all_values_are_read_and_the_bytes_of_the_files_are_counted(files: Sequence[SnapshotFile]) -> None:
    assert read(files) == VALUES
    sizes: list[int] = []
    assert list(read_values(tuple(files), {}, SPLIT, sizes.append))
    assert sum(sizes) == sum(Path(file.remote_path).stat().st_size for file in files)


def test_files_have_the_names_that_the_database_knows(files: Sequence[SnapshotFile]) -> None:
    renamed = []
    for number, file in enumerate(files):
        path = Path(file.remote_path).with_name(f"uuid-{number}")
        Path(file.remote_path).rename(path)
        renamed.append(SnapshotFile(f"file://{path}", file.local_name))

    assert read(renamed) == VALUES


def test_an_empty_snapshot_has_no_values(tmp_path: Path) -> None:
    assert read(write_kv_snapshot(tmp_path / "remote", [])) == []


def test_files_are_copied_from_any_file_system(files: Sequence[SnapshotFile]) -> None:
    memory = fsspec.filesystem("memory")
    for file in files:
        memory.pipe_file(file.remote_path, Path(file.remote_path).read_bytes())

    remote = [SnapshotFile(f"memory://{file.remote_path}", file.local_name) for file in files]

    assert read(remote) == VALUES


def test_nothing_is_left_on_disk_while_it_is_read(files: Sequence[SnapshotFile], temporary_folder: Path) -> None:
    chunks = read_values(tuple(files), {}, SPLIT)

    assert next(chunks)[0] == VALUES[0]

    assert list(temporary_folder.iterdir()) == []


def test_a_snapshot_that_vanishes_while_it_is_read_is_read_to_its_end(
    files: Sequence[SnapshotFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_files, "CHUNK_ROWS", 1)
    chunks = read_values(tuple(files), {}, SPLIT)
    values = list(next(chunks))
    for file in files:
        Path(file.remote_path).unlink()

    assert values + [value for chunk in chunks for value in chunk] == VALUES


@pytest.mark.parametrize("bytes_at_once", [1, 150_000])
def test_wide_values_come_in_smaller_chunks(files: Sequence[SnapshotFile], monkeypatch: pytest.MonkeyPatch, bytes_at_once: int) -> None:
    monkeypatch.setattr(snapshot_files, "CHUNK_BYTES", bytes_at_once)

    chunks = list(read_values(tuple(files), {}, SPLIT))

    assert len(chunks) > 1
    assert [value for chunk in chunks for value in chunk] == VALUES


class TestDamage:
    def test_a_block_that_does_not_match_its_checksum(self, files: Sequence[SnapshotFile]) -> None:
        path = table_file(files)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)

        with pytest.raises(DataCorrupt, match=r"KV snapshot 7 of db\.t bucket 3 is damaged: .*checksum"):
            read(files)

    def test_a_file_that_was_cut(self, files: Sequence[SnapshotFile]) -> None:
        os.truncate(table_file(files), 1_000)

        with pytest.raises(DataCorrupt, match="damaged"):
            read(files)

    def test_a_manifest_that_was_cut(self, files: Sequence[SnapshotFile]) -> None:
        manifest = Path(next(file.remote_path for file in files if file.local_name.startswith("MANIFEST")))
        sizes = range(manifest.stat().st_size - 1, -1, -1)
        errors = 0
        for size in sizes:
            os.truncate(manifest, size)
            try:
                assert read(files) == VALUES  # what was cut off named no files
            except DataCorrupt:
                errors += 1
        assert errors > len(sizes) // 2

    def test_a_file_name_that_leads_elsewhere(self, files: Sequence[SnapshotFile]) -> None:
        with pytest.raises(DataCorrupt, match="name"):
            read([*files, SnapshotFile(files[0].remote_path, "../elsewhere")])

    def test_bytes_that_are_no_rows(self, tmp_path: Path) -> None:
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
        snapshot = write_kv_snapshot(tmp_path / "remote", [b"\1\0\0\xff\xff"])

        with pytest.raises(DataCorrupt, match=r"KV snapshot 7 of db\.t bucket 3 is damaged"):
            list(FlussSnapshotReader(SPLIT, schema, {1: schema_json(schema)}, snapshot, {}).read())


class TestMissingFiles:
    def test_a_snapshot_that_was_deleted(self, files: Sequence[SnapshotFile]) -> None:
        table_file(files).unlink()

        with pytest.raises(KvSnapshotGone, match="KV snapshot 7"):
            read(files)

    def test_a_table_that_was_deleted(self, files: Sequence[SnapshotFile], tmp_path: Path) -> None:
        (tmp_path / "remote" / "kv" / "db").rename(tmp_path / "elsewhere")

        with pytest.raises(KvSnapshotGone):
            read(files)

    def test_a_storage_that_this_machine_does_not_have(self, files: Sequence[SnapshotFile], tmp_path: Path) -> None:
        (tmp_path / "remote").rename(tmp_path / "elsewhere")

        with pytest.raises(ClusterUnavailable, match=r"remote\.data\.dir does not exist at") as raised:
            read(files)
        assert "every executor" in raised.value.hint.lower()

    def test_on_another_file_system(self, files: Sequence[SnapshotFile]) -> None:
        fsspec.filesystem("memory").pipe_file("/bucket/kv/db/other", b"")

        with pytest.raises(KvSnapshotGone):
            read([SnapshotFile("memory:///bucket/kv/db/t-1/0/snap-7/uuid", "CURRENT")])


class TestReader:
    SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])

    @pytest.fixture
    def reader(self, tmp_path: Path) -> FlussSnapshotReader:
        rows = [(number, None if number % 3 else f"name {number}") for number in range(100)]
        snapshot = write_kv_snapshot(tmp_path / "remote", [encode_value(1, self.SCHEMA.types, row) for row in rows])
        return FlussSnapshotReader(SPLIT, self.SCHEMA, {1: schema_json(self.SCHEMA)}, snapshot, {})

    def test_rows_are_inserts_without_an_offset(self, reader: FlussSnapshotReader) -> None:
        (batch,) = pickle.loads(pickle.dumps(reader)).read()

        assert batch.schema.equals(pa.schema([*self.SCHEMA, *SYSTEM_COLUMN_FIELDS, CHANGE_TYPE_FIELD]))
        assert batch.column("name").to_pylist()[:4] == ["name 0", None, None, "name 3"]
        system = batch.select(["__bucket", "__offset", "__timestamp", "__change_type"]).to_pylist()
        assert {(row["__bucket"], row["__offset"], row["__timestamp"].timestamp(), row["__change_type"]) for row in system} == {
            (3, -1, -0.001, 1)
        }

    def test_executors_import_it_ahead_of_work(self) -> None:
        program = "import sys; from tiering.cluster.registry import preload_readers; preload_readers(); print(*sys.modules)"
        modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
        assert FlussSnapshotReader.__module__ in modules
