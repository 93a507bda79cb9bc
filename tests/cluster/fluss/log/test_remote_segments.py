"""Segments in remote storage: read in blocks from the right place on, and damage or absence named with the file."""

from __future__ import annotations

from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest

from support.clusters.fluss_log import record_batch, schema_json
from tiering.cluster.fluss.log import remote_segments
from tiering.cluster.fluss.log.batches import LogPlace
from tiering.cluster.fluss.log.remote_segments import RemoteLog, RemoteSegment, RemoteSegmentMissing, remote_chunks, remote_header
from tiering.cluster.fluss.log.rows import RowFormat, rows_of
from tiering.errors import DataCorrupt
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TablePath

PATH, BUCKET = TablePath("sales", "orders"), BucketKey(None, 0)
PLACE = LogPlace(PATH, BUCKET, "tablet-1:9123")
SCHEMA = pa.schema({"n": pa.int64()})
BATCH = 100
SEGMENT = 1_000


def segment_bytes(start: int, stop: int, version: int = 0) -> bytes:
    batches = [pa.record_batch([pa.array(np.arange(first, first + BATCH))], schema=SCHEMA) for first in range(start, stop, BATCH)]
    return b"".join(
        record_batch(rows, start + index * BATCH, commit_ms=start + index, version=version, statistics=bytes(9 * version))
        for index, rows in enumerate(batches)
    )


def write_log(folder: Path, segments: int = 3, version: int = 0) -> RemoteLog:
    named = []
    for start in range(0, segments * SEGMENT, SEGMENT):
        segment = RemoteSegment(f"id-{start}", start, start + SEGMENT)
        file = Path(segment.path(str(folder)))
        file.parent.mkdir(parents=True)
        file.write_bytes(segment_bytes(start, start + SEGMENT, version))
        named.append(segment)
    return RemoteLog(str(folder), named, 0)


def batch_size(version: int = 0) -> int:
    return len(segment_bytes(0, BATCH, version))


def read(remote: RemoteLog, start: int, stop: int) -> list[int]:
    split = TieringLogSplit(PATH, BUCKET, None, start, stop, stop)
    rows = rows_of(remote_chunks(remote, start, stop, PLACE, {}), split, RowFormat(SCHEMA, False, {1: schema_json(SCHEMA)}))
    return [offset for batch in rows for offset in batch.column("__offset").to_pylist()]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("block_bytes", [60, 2_000, 1 << 20])
def test_any_range_over_segments_is_read_in_blocks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int, version: int
) -> None:
    monkeypatch.setattr(remote_segments, "BLOCK_BYTES", block_bytes)
    remote = write_log(tmp_path, version=version)
    for start, stop in [(0, 3_000), (0, 1), (999, 1_001), (150, 2_950)]:
        assert read(remote, start, stop) == list(range(start, stop))


def test_reading_begins_at_the_position_that_the_server_names(tmp_path: Path) -> None:
    """The index of a segment is coarse: the record batches there may end before the offset."""
    remote = write_log(tmp_path)
    later = RemoteLog(remote.folder, remote.segments[1:], 3 * batch_size())
    assert read(later, 1_777, 2_100) == list(range(1_777, 2_100))


def test_a_block_holds_no_more_than_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_segments, "BLOCK_BYTES", 4 * batch_size())
    chunks = list(remote_chunks(write_log(tmp_path, 1), 0, SEGMENT, PLACE, {}))
    assert [len(chunk.headers) for chunk in chunks] == [4, 4, 2]
    assert all(len(chunk.data) <= 4 * batch_size() for chunk in chunks)


def test_nothing_is_opened_behind_the_stop(tmp_path: Path) -> None:
    remote = write_log(tmp_path)
    Path(remote.segments[1].path(remote.folder)).unlink()
    assert read(remote, 0, SEGMENT) == list(range(SEGMENT))
    with pytest.raises(RemoteSegmentMissing, match=r"id-1000/00000000000000001000\.log"):
        read(remote, 0, SEGMENT + 1)


def test_a_flipped_bit_names_file_and_range(tmp_path: Path) -> None:
    remote = write_log(tmp_path)
    file = Path(remote.segments[1].path(remote.folder))
    data = bytearray(file.read_bytes())
    data[2 * batch_size() + 60] ^= 4
    file.write_bytes(data)
    with pytest.raises(DataCorrupt, match=r"00000000000000001000\.log, bucket 0 of sales\.orders, offsets \[1200, 1300\)"):
        read(remote, 0, 3_000)


@pytest.mark.parametrize("left", [0, 5, 60])
def test_a_file_that_was_cut_is_damage(tmp_path: Path, left: int) -> None:
    remote = write_log(tmp_path)
    file = Path(remote.segments[0].path(remote.folder))
    file.write_bytes(file.read_bytes()[: 9 * batch_size() + left])
    with pytest.raises(DataCorrupt, match=r"ends within its records: .* offsets \[900, 1000\)"):
        read(remote, 0, SEGMENT)


def test_a_hole_between_segments_is_damage(tmp_path: Path) -> None:
    remote = write_log(tmp_path)
    with pytest.raises(DataCorrupt, match=r"offset 1000 is not in the remote segments"):
        read(RemoteLog(remote.folder, [remote.segments[0], remote.segments[2]], 0), 0, 3_000)


def test_segments_of_any_file_system_are_read(tmp_path: Path) -> None:
    local = write_log(tmp_path, 1)
    content = Path(local.segments[0].path(local.folder)).read_bytes()
    fsspec.filesystem("memory").pipe(f"/bucket-0/{local.segments[0].segment_id}/{0:020d}.log", content)
    assert read(RemoteLog("memory://bucket-0", local.segments, 0), 0, SEGMENT) == list(range(SEGMENT))


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("window_bytes", [60, 1_000, 1 << 16])
def test_the_header_of_an_offset_is_found_without_reading_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window_bytes: int, version: int
) -> None:
    monkeypatch.setattr(remote_segments, "_INDEX_WINDOW_BYTES", window_bytes)
    remote = write_log(tmp_path, version=version)
    later = RemoteLog(remote.folder, remote.segments[1:], 3 * batch_size(version))
    header = remote_header(later, 1_777, PLACE, {})
    assert (header.starting_offset, header.commit_ms) == (1_700, 1_007)
    Path(remote.segments[1].path(remote.folder)).write_bytes(b"")
    with pytest.raises(DataCorrupt, match="ends before the offset"):
        remote_header(later, 1_777, PLACE, {})
