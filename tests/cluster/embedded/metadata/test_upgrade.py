"""A folder that an earlier version wrote is opened as it is: nothing lost, nothing read twice."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from support.clusters.embedded import PATH, ManualClock, cities, make_table, order_ids, orders, scan, scan_all
from tiering.clock import RandomIds
from tiering.cluster.embedded.kv.primary_key_tables import KV_STATE_RECREATED
from tiering.cluster.embedded.kv.state import state_file
from tiering.cluster.embedded.metadata import database
from tiering.cluster.embedded.metadata.database import FILE_NAME, FIRST_SCHEMA, FORMAT_VERSION
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import AppendedRange
from tiering.errors import SetupError
from tiering.model.schema.changes import After, MoveColumn, RenameColumn, additions
from tiering.model.schema.field_ids import field_id, without_metadata
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import BucketKey

FORMAT_5 = """
ALTER TABLE tables ADD COLUMN schema BLOB NOT NULL DEFAULT '';
ALTER TABLE tables DROP COLUMN schema_id;
DROP TABLE table_schemas;
ALTER TABLE segments DROP COLUMN schema_id;
ALTER TABLE appends DROP COLUMN schema_id;
ALTER TABLE kv_snapshots DROP COLUMN schema_id;
UPDATE facts SET value = '5' WHERE name = 'format_version';
"""
"""Back to the version before field ids. The test puts the columns into `tables.schema`."""

FORMAT_4 = """
ALTER TABLE appends DROP COLUMN sha256;
UPDATE facts SET value = '4' WHERE name = 'format_version';
"""
"""From there, back to what the version before SHA-256 of writes wrote."""

FORMAT_3 = """
DROP TABLE refused_records;
UPDATE facts SET value = '3' WHERE name = 'format_version';
"""
"""From there, back to what the version before refused records wrote."""

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

BACK = ((5, FORMAT_5), (4, FORMAT_4), (3, FORMAT_3), (2, FORMAT_2), (1, FORMAT_1))
"""The scripts, one after the other, that lead from the present format to an older one."""
OLDER_FORMATS = range(1, FORMAT_VERSION)


@pytest.fixture
def old_folder(tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest) -> Path:
    """A folder of format 1, unless a test asks for a newer one."""
    with EmbeddedStorage(tmp_path, clock) as storage:
        schema = make_table(storage, bucket_count=2, bucket_keys=("id",)).schema
        storage.append(PATH, orders(0, 10), "writer", 0)
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    version = getattr(request, "param", 1)
    for older, script in BACK:
        if version <= older:
            connection.executescript(script)
    connection.execute("UPDATE tables SET schema = ?", (without_metadata(schema).serialize().to_pybytes(),))
    if version == 1:
        (ranges,) = connection.execute("SELECT ranges FROM appends").fetchone()
        connection.execute("UPDATE appends SET ranges = ?", (ranges.replace(", null]", "]"),))
    connection.commit()
    assert connection.execute("SELECT value FROM facts WHERE name = 'format_version'").fetchone() == (str(version),)
    connection.close()
    return tmp_path


@pytest.mark.parametrize("old_folder", OLDER_FORMATS, indirect=True)
def test_a_folder_of_an_older_format_is_brought_up_to_date(old_folder: Path, clock: ManualClock) -> None:
    for _ in range(2):
        with EmbeddedStorage(old_folder, clock) as storage:
            table = storage.table(PATH)
            assert (table.bucket_keys, table.partition_keys) == (("id",), ())
            assert ([field_id(field) for field in table.schema], table.schema_id) == ([1, 2], FIRST_SCHEMA)
            assert table.added_columns == ()
            assert sorted(scan_all(storage, table)["id"].to_pylist()) == list(range(10))
            assert sum(r.stopping_offset - r.starting_offset for r in storage.append(PATH, orders(0, 10), "writer", 0)) == 10
            assert sum(ends.log_end for ends in storage.offsets(table).values()) == 10
    with EmbeddedStorage(old_folder, clock) as storage:
        storage.append(PATH, orders(10, 10), "writer", 1)
        assert sorted(scan_all(storage, storage.table(PATH))["id"].to_pylist()) == list(range(20))


@pytest.mark.parametrize("old_folder", OLDER_FORMATS, indirect=True)
def test_an_upgraded_folder_has_the_columns_of_a_new_one(old_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    new_folder = tmp_path_factory.mktemp("new")
    for folder in (old_folder, new_folder):
        EmbeddedStorage(folder).close()
    assert columns(old_folder) == columns(new_folder)


def columns(folder: Path) -> dict[str, set[tuple[str, ...]]]:
    """Each table's columns: name, type, NOT NULL, and place in the primary key. The order of columns may differ."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: {(r[1], r[2], r[3], r[5]) for r in connection.execute(f"PRAGMA table_info({name})")} for name in names}


@pytest.mark.parametrize("old_folder", OLDER_FORMATS, indirect=True)
def test_an_upgrade_that_fails_at_any_statement_leaves_the_folder_as_it_was(old_folder: Path, clock: ManualClock) -> None:
    before = columns(old_folder)
    failures = 0
    while fails_at(failures, old_folder, clock):
        assert columns(old_folder) == before
        failures += 1
    assert failures > 5, "an upgrade has several statements"
    with EmbeddedStorage(old_folder, clock) as storage:
        assert sorted(scan_all(storage, storage.table(PATH))["id"].to_pylist()) == list(range(10))


def fails_at(number: int, folder: Path, clock: ManualClock) -> bool:
    """Opens the folder on a disk that fails at one statement of the upgrade. Returns False if the upgrade has fewer statements."""
    statements = itertools.count()

    def fail(connection: sa.Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
        if FILE_NAME in str(connection.engine.url) and not statement.startswith("PRAGMA") and next(statements) == number:
            raise sa.exc.OperationalError(statement, {}, Exception("disk I/O error"))

    sa.event.listen(sa.Engine, "before_cursor_execute", fail)
    try:
        database.Metadata.open(folder, RandomIds()).close()
    except SetupError:
        return True
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", fail)
    return False


def test_a_primary_key_table_of_format_5_keeps_its_rows_snapshots_and_state(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        table = make_table(storage, primary_key=("id",))
        storage.upsert(PATH, cities((1, "a"), (2, "b")), "writer", 0)
        storage.take_kv_snapshots(PATH)
        schema = storage.alter_table(PATH, {}, additions([pa.field("tip", pa.float64())])).schema
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript(FORMAT_5)
        connection.execute("UPDATE tables SET schema = ?", (without_metadata(schema).serialize().to_pybytes(),))
        connection.commit()
    with duckdb.connect(str(state_file(tmp_path, table.table_id))) as state:
        state.execute("ALTER TABLE identity DROP COLUMN schema_id")
        state.execute("UPDATE identity SET format = 1")

    with EmbeddedStorage(tmp_path, clock) as storage, capture_logs() as logs:
        table = storage.alter_table(PATH, {}, [RenameColumn(("city",), "town"), MoveColumn(("tip",), After(None))])
        assert table.added_columns == ("tip",)
        assert storage.upsert(PATH, cities((1, "a"), (2, "b")), "writer", 0) == [AppendedRange(BucketKey(None, 0), 0, 2)]
        storage.delete(PATH, order_ids(1, 2), "writer", 1)
        assert scan(storage, table, 0, 2, 4).select(["tip", "id", "town"]).to_pylist() == [
            {"tip": None, "id": 1, "town": "a"},
            {"tip": None, "id": 2, "town": "b"},
        ]
        (snapshot,) = storage.kv_snapshots(table).values()
        split = TieringSnapshotSplit(PATH, BucketKey(None, 0), None, snapshot.snapshot_id, snapshot.log_offset, snapshot.log_offset)
        assert [batch["town"].to_pylist() for batch in storage.reader(table, split).read()] == [["a", "b"]]
    assert KV_STATE_RECREATED not in [line["event"] for line in logs]
