"""A folder that an earlier version wrote is opened as it is: nothing lost, nothing read twice."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from support.clusters.embedded import PATH, ManualClock, make_table, orders, scan_all
from tiering.cluster.embedded.metadata import database
from tiering.cluster.embedded.metadata.database import FILE_NAME
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import SetupError

FORMAT_4 = """
ALTER TABLE appends DROP COLUMN sha256;
UPDATE facts SET value = '4' WHERE name = 'format_version';
"""
"""Back to what the version before SHA-256 of writes wrote."""

FORMAT_2 = """
ALTER TABLE tables DROP COLUMN primary_key;
DROP TABLE leased_snapshots;
DROP TABLE leases;
DROP TABLE kv_snapshots;
UPDATE facts SET value = '2' WHERE name = 'format_version';
"""
"""From there, back to what the version before primary-key tables wrote."""

FORMAT_1 = """
ALTER TABLE tables DROP COLUMN partition_keys;
ALTER TABLE tables DROP COLUMN created_columns;
DROP TABLE partitions;
CREATE TABLE buckets_old (
    table_id INTEGER NOT NULL, bucket_id INTEGER NOT NULL, log_start BIGINT NOT NULL, log_end BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL, last_commit_us BIGINT NOT NULL,
    PRIMARY KEY (table_id, bucket_id), FOREIGN KEY(table_id) REFERENCES tables (table_id) ON DELETE CASCADE
);
INSERT INTO buckets_old SELECT table_id, bucket_id, log_start, log_end, size_bytes, last_commit_us FROM buckets;
DROP TABLE buckets;
ALTER TABLE buckets_old RENAME TO buckets;
CREATE TABLE segments_old (
    table_id INTEGER NOT NULL, bucket_id INTEGER NOT NULL, starting_offset BIGINT NOT NULL, stopping_offset BIGINT NOT NULL,
    path TEXT NOT NULL, size_bytes BIGINT NOT NULL, crc32 BIGINT NOT NULL, commit_us BIGINT NOT NULL,
    PRIMARY KEY (table_id, bucket_id, starting_offset), FOREIGN KEY(table_id) REFERENCES tables (table_id) ON DELETE CASCADE
) WITHOUT ROWID;
INSERT INTO segments_old
    SELECT table_id, bucket_id, starting_offset, stopping_offset, path, size_bytes, crc32, commit_us FROM segments;
DROP TABLE segments;
ALTER TABLE segments_old RENAME TO segments;
UPDATE facts SET value = '1' WHERE name = 'format_version';
"""
"""From there, back to what the first version wrote. Its answers to appends lack the partition id."""


@pytest.fixture
def old_folder(tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest) -> Path:
    """Of format 1, unless a test asks for 2 or 4."""
    with EmbeddedStorage(tmp_path, clock) as storage:
        make_table(storage, bucket_count=2, bucket_keys=("id",))
        storage.append(PATH, orders(0, 10), "writer", 0)
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    version = getattr(request, "param", 1)
    connection.executescript(FORMAT_4)
    if version < 4:
        connection.executescript(FORMAT_2)
    if version > 1:
        connection.close()
        return tmp_path
    connection.executescript(FORMAT_1)
    (ranges,) = connection.execute("SELECT ranges FROM appends").fetchone()
    connection.execute("UPDATE appends SET ranges = ?", (ranges.replace(", null]", "]"),))
    connection.commit()
    connection.close()
    return tmp_path


@pytest.mark.parametrize("old_folder", [1, 2, 4], indirect=True)
def test_a_folder_of_an_older_format_is_brought_up_to_date(old_folder: Path, clock: ManualClock) -> None:
    for _ in range(2):
        with EmbeddedStorage(old_folder, clock) as storage:
            table = storage.table(PATH)
            assert (table.bucket_keys, table.partition_keys) == (("id",), ())
            assert sorted(scan_all(storage, table)["id"].to_pylist()) == list(range(10))
            assert sum(r.stopping_offset - r.starting_offset for r in storage.append(PATH, orders(0, 10), "writer", 0)) == 10
            assert sum(ends.log_end for ends in storage.offsets(table).values()) == 10
    with EmbeddedStorage(old_folder, clock) as storage:
        storage.append(PATH, orders(10, 10), "writer", 1)
        assert sorted(scan_all(storage, storage.table(PATH))["id"].to_pylist()) == list(range(20))


def test_an_upgrade_that_fails_half_way_leaves_the_folder_as_it_was(
    old_folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(connection: sa.Connection, schema: sa.MetaData, version: int) -> None:
        connection.execute(sa.text("ALTER TABLE tables ADD COLUMN partition_keys JSON NOT NULL DEFAULT '[]'"))
        connection.execute(sa.text("ALTER TABLE buckets RENAME TO buckets_v1"))
        raise sa.exc.OperationalError("ALTER", {}, Exception("disk I/O error"))

    with monkeypatch.context() as patch:
        patch.setattr(database, "upgrade", half)
        with pytest.raises(SetupError):
            EmbeddedStorage(old_folder, clock)

    with EmbeddedStorage(old_folder, clock) as storage:
        assert sorted(scan_all(storage, storage.table(PATH))["id"].to_pylist()) == list(range(10))
