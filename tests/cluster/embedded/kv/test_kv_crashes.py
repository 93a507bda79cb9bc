"""A KV state is a copy of its log: whenever the process dies, and whatever happens to the copy, it becomes that again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.clusters.changelog import changes, rows_of
from support.clusters.embedded import PATH, ManualClock, cities, make_table, order_ids, scan_all
from tiering import crash_points
from tiering.cluster.embedded.kv.primary_key_tables import PrimaryKeyTables
from tiering.cluster.embedded.kv.state import KvState, state_file
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import ClusterUnavailable, DataCorrupt

WRITE = """
import sys
from pathlib import Path
from support.clusters.embedded import PATH, cities
from tiering.cluster.embedded.storage import EmbeddedStorage
with EmbeddedStorage(Path(sys.argv[1])) as storage:
    storage.upsert(PATH, cities((2, "new"), (3, "new")), "writer", 1)
    storage.take_kv_snapshots(PATH)
    storage.upsert(PATH, cities((4, "newest")), "writer", 2)
    storage.take_kv_snapshots(PATH)
    storage.upsert(PATH, cities((4, "newest of all")), "writer", 3)
    storage.take_kv_snapshots(PATH)
"""


def state(storage: EmbeddedStorage) -> dict[int, str | None]:
    """Returns the contents of the KV state, as a write reads them."""
    table = storage.table(PATH)
    rows: dict[int, str | None] = {}

    def read(kv: KvState) -> None:
        for bucket in storage.offsets(table):
            for batch in kv.rows(bucket):
                rows.update(zip(*batch.to_pydict().values(), strict=True))

    with storage.primary_key_tables.exclusive(table.table_id):
        storage.primary_key_tables._using(table, read)
    return rows


def assert_like_its_log(storage: EmbeddedStorage) -> dict[int, str | None]:
    rows = rows_of(scan_all(storage, storage.table(PATH)))
    assert state(storage) == rows
    return rows


@pytest.mark.parametrize("point", [*crash_points.IN_KV[:-1], f"{crash_points.KV_SNAPSHOT_PUBLISHED}@4"])
def test_a_process_that_dies_in_a_write_or_a_snapshot_leaves_state_and_log_that_agree(tmp_path: Path, point: str) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        table = make_table(storage, bucket_count=2, primary_key=("id",))
        storage.upsert(PATH, cities((1, "old"), (2, "old")), "writer", 0)

    environment = os.environ | {crash_points.VARIABLE: point, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", WRITE, str(tmp_path)], env=environment, check=False)

    assert ended.returncode == -signal.SIGKILL
    with EmbeddedStorage(tmp_path) as storage:
        rows = assert_like_its_log(storage)
        assert rows.items() >= {1: "old", 2: "new", 3: "new"}.items()
        on_disk = {str(file.relative_to(tmp_path)) for file in (tmp_path / "kv-snapshots").glob("*/*")}
        named = {
            file.path
            for bucket in storage.offsets(table)
            for stored in storage.primary_key_tables._snapshots(table.table_id, bucket)
            for file in stored.files
        }
        assert on_disk == named
        before = storage.offsets(table)
        storage.upsert(PATH, cities((2, "new"), (3, "new")), "writer", 1)
        assert storage.offsets(table) == before
        storage.delete(PATH, order_ids(2), "other", 0)
        assert 2 not in assert_like_its_log(storage)


def _lost(file: Path) -> None:
    file.unlink()


def _no_database(file: Path) -> None:
    file.write_bytes(b"nothing" * 10_000)


def _torn(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for at in range(12_288, len(content), 997):
        content[at] ^= 0xFF
    file.write_bytes(bytes(content))


def _of_another_table(file: Path) -> None:
    with EmbeddedStorage(file.parent / "other") as other:
        make_table(other)
        table = make_table(other, primary_key=("id",), path=PATH.__class__("sales", "other"))
        other.upsert(table.path, cities((9, "foreign")), "w", 0)
        assert table.table_id == 2
    (file.parent / "other" / "kv" / "2.duckdb").rename(file)


@pytest.mark.parametrize("damage", [_lost, _no_database, _torn, _of_another_table])
@pytest.mark.parametrize("snapshots", [True, False])
def test_a_state_that_is_lost_or_damaged_is_made_anew(tmp_path: Path, damage: Callable[[Path], None], snapshots: bool) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        table = make_table(storage, bucket_count=2, primary_key=("id",))
        storage.upsert(PATH, cities(*((number, f"city {number}") for number in range(5_000))), "writer", 0)
        if snapshots:
            storage.take_kv_snapshots(PATH)
        storage.delete(PATH, order_ids(*range(0, 5_000, 3)), "writer", 1)
    damage(state_file(tmp_path, table.table_id))

    with EmbeddedStorage(tmp_path) as storage:
        storage.upsert(PATH, cities((0, "back"), (1, "changed")), "writer", 2)
        rows = assert_like_its_log(storage)
        assert (rows[0], rows[1], 3 in rows, 9 in rows) == ("back", "changed", False, False)


def test_a_state_is_made_anew_from_the_older_snapshot_when_the_newest_is_damaged(storage: EmbeddedStorage, tmp_path: Path) -> None:
    table = make_table(storage, primary_key=("id",))
    files = []
    for sequence in range(2):
        storage.upsert(PATH, cities((sequence, "a"), (7, f"{sequence}")), "writer", sequence)
        storage.take_kv_snapshots(PATH)
        files = [*(tmp_path / "cluster" / "kv-snapshots").glob("*/*")]
    newest = max(files, key=lambda file: file.stat().st_mtime_ns)
    newest.write_bytes(b"damaged")
    storage.close()
    state_file(tmp_path / "cluster", table.table_id).unlink()
    with EmbeddedStorage(tmp_path / "cluster") as again:
        assert assert_like_its_log(again) == {0: "a", 1: "a", 7: "1"}


def test_a_state_ahead_of_its_log_is_made_anew(tmp_path: Path) -> None:
    """The metadata alone was restored from a backup."""
    with EmbeddedStorage(tmp_path) as storage:
        table = make_table(storage, primary_key=("id",))
        storage.upsert(PATH, cities((1, "a")), "writer", 0)
        (bucket,) = storage.offsets(table)
        with storage.primary_key_tables.exclusive(table.table_id):
            storage.primary_key_tables._using(table, lambda kv: kv.load(bucket, [cities((1, "x"), (2, "never"))], 17))
        assert assert_like_its_log(storage) == {1: "a"}


def test_a_write_whose_state_cannot_be_changed_is_there_all_the_same(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(storage, primary_key=("id",))
    storage.upsert(PATH, cities((1, "a")), "writer", 0)

    def unusable(*_: object) -> None:
        raise ClusterUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        apply = PrimaryKeyTables._apply
        patch.setattr(
            PrimaryKeyTables, "_apply", lambda tables, info: patch.setattr(PrimaryKeyTables, "_using", unusable) or apply(tables, info)
        )
        assert len(storage.upsert(PATH, cities((1, "b")), "writer", 1)) == 1
        with pytest.raises(ClusterUnavailable):
            storage.upsert(PATH, cities((1, "c")), "writer", 2)
    storage.upsert(PATH, cities((1, "c")), "writer", 2)
    assert changes(storage, table) == [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-U", 1, "b"), ("+U", 1, "c")]


def test_a_damaged_segment_stops_writes_that_need_it_and_says_where(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        table = make_table(storage, primary_key=("id",))
        storage.upsert(PATH, cities((1, "a")), "writer", 0)
    state_file(tmp_path, table.table_id).unlink()
    (segment,) = (tmp_path / "log").glob("*/*.arrow")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(bytes(content))
    with EmbeddedStorage(tmp_path, clock) as storage, pytest.raises(DataCorrupt, match=segment.name):
        storage.upsert(PATH, cities((1, "b")), "writer", 1)
