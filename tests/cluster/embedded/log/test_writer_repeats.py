"""A repeated write is known by the principal, the writer and the sequence, and only with the very same bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.embedded import PATH, make_table, orders, scan_all
from tiering.access.identity import UNCHECKED, Authentication, Identity, acting_as
from tiering.cluster.embedded import stored_paths
from tiering.cluster.embedded.kv import primary_key_tables
from tiering.cluster.embedded.log import segments
from tiering.cluster.embedded.metadata.database import FILE_NAME
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import InvalidArgument

ANN, EVE = (Identity(name, Authentication.TOKEN) for name in ("ann", "eve"))
OWNER = Identity("owner", Authentication.TOKEN, is_owner=True)


@pytest.fixture(params=["log", "primary key"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedStorage]:
    with EmbeddedStorage(tmp_path) as storage:
        make_table(storage, bucket_count=2, **({"bucket_keys": ("id",)} if request.param == "log" else {"primary_key": ("id",)}))
        yield storage


def write(storage: EmbeddedStorage, rows: pa.RecordBatch | pa.Table, by: Identity = ANN) -> int:
    """How many records the write has in the log; always number 0 of the writer `w`."""
    is_log = not storage.table(PATH).primary_key
    with acting_as(by):
        ranges = (storage.append if is_log else storage.upsert)(PATH, rows, "w", 0)
    return sum(part.stopping_offset - part.starting_offset for part in ranges)


def ids(storage: EmbeddedStorage) -> list[int]:
    return sorted(scan_all(storage, storage.table(PATH))["id"].to_pylist())


def test_other_rows_with_the_same_checksum_are_no_repeat(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CRC-32 is forged at will: here every content has the same one."""

    class SameChecksum:
        @staticmethod
        def crc32(_content: bytes, _start: int = 0) -> int:
            return 7

    monkeypatch.setattr(segments, "crc32", SameChecksum.crc32)
    monkeypatch.setattr(stored_paths, "crc32", SameChecksum.crc32)
    monkeypatch.setattr(primary_key_tables, "zlib", SameChecksum)
    assert write(storage, orders(0, 5)) == 5
    assert write(storage, orders(0, 5)) == 5
    with pytest.raises(InvalidArgument, match="wrote other rows"):
        write(storage, orders(100, 5))
    assert ids(storage) == [*range(5)]


def test_a_write_of_another_principal_is_another_write(storage: EmbeddedStorage) -> None:
    """Neither is it taken for the true writer's, nor does it keep the true writer from writing."""
    assert write(storage, orders(100, 3), by=EVE) == 3
    assert write(storage, orders(0, 5), by=ANN) == 5
    assert write(storage, orders(0, 5), by=ANN) == 5
    assert ids(storage) == [*range(5), 100, 101, 102]


@pytest.mark.parametrize("by", [ANN, OWNER])
def test_a_write_that_an_older_version_stored_is_known_again(storage: EmbeddedStorage, by: Identity) -> None:
    """An older version stored only a CRC-32, and the writer's id as it was sent."""
    assert write(storage, orders(0, 5), by=OWNER) == 5
    with sqlite3.connect(storage.root / FILE_NAME) as connection:
        assert connection.execute("UPDATE appends SET sha256 = NULL").rowcount == 1
    assert write(storage, orders(0, 5), by=by) == 5
    assert ids(storage) == [*range(5)]


def test_a_repeat_is_known_again_where_callers_are_asked_who_they_are_since(storage: EmbeddedStorage) -> None:
    assert write(storage, orders(0, 5), by=UNCHECKED) == 5
    assert write(storage, orders(0, 5), by=ANN) == 5
    assert ids(storage) == [*range(5)]
    assert write(storage, orders(100, 2), by=EVE) == 2, "other rows are another write of a principal"
    assert ids(storage) == [*range(5), 100, 101]
