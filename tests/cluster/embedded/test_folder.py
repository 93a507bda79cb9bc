"""The embedded cluster's folder: what survives a restart or a crash, and what damage is found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from support.clusters.embedded import PATH, LoopbackServer, ManualClock, cities, make_table, orders, scan, scan_all, served, split_of
from support.repository import ROOT
from tiering.cluster.base import ClusterOwner
from tiering.cluster.embedded.log.segments import Segment
from tiering.cluster.embedded.metadata.database import FILE_NAME, FORMAT_VERSION, segments
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import ClusterUnavailable, DataCorrupt, ServiceUnreachable, SetupError
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo
from tiering.rpc.v1 import embedded_pb2

B0 = BucketKey(None, 0)


def files(root: Path) -> set[str]:
    return {path.name for path in (root / "log").rglob("*") if path.is_file()}


def test_everything_is_there_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        cluster_id, table = storage.cluster_id, make_table(storage)
        answer = storage.append(PATH, orders(0, 10), "writer", 0)
        storage.record_lake_snapshot(table, RecordedLakeSnapshot(3, {B0: 4}))
        bounds, rows = storage.offsets(table), scan_all(storage, table)

    with EmbeddedStorage(tmp_path, clock) as storage:
        assert storage.cluster_id == cluster_id
        assert storage.table(PATH) == table
        assert storage.offsets(table) == bounds
        assert storage.lake_snapshot(table) == RecordedLakeSnapshot(3, {B0: 4})
        assert list(storage.append(PATH, orders(0, 10), "writer", 0)) == list(answer)
        assert scan_all(storage, table) == rows


def test_table_ids_are_not_used_again_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        first = make_table(storage).table_id
        storage.drop_table(PATH)
    with EmbeddedStorage(tmp_path) as storage:
        assert make_table(storage).table_id > first


@pytest.mark.parametrize("name", ["a", "a?b", "a%41", "a%3Fb?c"])
def test_rows_without_their_metadata_are_kept_and_its_former_place_is_named(tmp_path: Path, name: str) -> None:
    """Older versions opened the file by an unquoted URL: for some names of folders it is elsewhere."""
    root, clock = tmp_path / name, ManualClock()
    with EmbeddedStorage(root, clock) as storage:
        make_table(storage)
        storage.append(PATH, orders(0, 10), "writer", 0)
    kept, metadata = files(root), root / FILE_NAME
    former = Path(str(sa.make_url(f"sqlite:///{metadata}").database))
    elsewhere = former if former != metadata else tmp_path / "elsewhere"
    elsewhere.parent.mkdir(exist_ok=True)
    metadata.rename(elsewhere)
    with pytest.raises(SetupError, match=r"has rows of tables, but the file meta\.db") as refused:
        EmbeddedStorage(root, clock)
    assert (f"An older version wrote the file to {former}:" in refused.value.hint) == (former != metadata)
    assert files(root) == kept
    elsewhere.rename(metadata)
    with EmbeddedStorage(root, clock) as storage:
        assert sum(bounds.log_end for bounds in storage.offsets(storage.table(PATH)).values()) == 10


def test_two_folders_are_two_clusters(tmp_path: Path) -> None:
    with EmbeddedStorage(tmp_path / "a") as a, EmbeddedStorage(tmp_path / "b") as b:
        assert a.cluster_id != b.cluster_id


def test_a_folder_in_use_is_refused_and_free_after_the_owner_closed(storage: EmbeddedStorage) -> None:
    with pytest.raises(SetupError, match="in use by process"):
        EmbeddedStorage(storage.root)
    storage.close()
    EmbeddedStorage(storage.root).close()


def test_another_process_frees_the_folder_when_it_is_killed(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from tiering.cluster.embedded.storage import EmbeddedStorage
storage = EmbeddedStorage(Path({str(tmp_path)!r}))
print("open", flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        with pytest.raises(SetupError, match=f"in use by process {owner.pid}"):
            EmbeddedStorage(tmp_path)
        owner.kill()
        owner.wait(30)
    EmbeddedStorage(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="file/cluster"):
        EmbeddedStorage(tmp_path / "file" / "cluster")


def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    EmbeddedStorage(tmp_path).close()
    engine = sa.create_engine(f"sqlite:///{tmp_path / FILE_NAME}")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE facts SET value = :version WHERE name = 'format_version'"), {"version": FORMAT_VERSION + 1})
    engine.dispose()

    with pytest.raises(SetupError, match="newer version"):
        EmbeddedStorage(tmp_path)
    with pytest.raises(SetupError, match="newer version"):  # and the lock is free again
        EmbeddedStorage(tmp_path)


def test_metadata_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database" * 100)
    with pytest.raises(SetupError, match=FILE_NAME):
        EmbeddedStorage(tmp_path)


def test_files_that_a_crash_left_are_swept_at_the_start(tmp_path: Path) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        table = make_table(storage)
        storage.append(PATH, orders(0, 10), "writer", 0)
        published = files(tmp_path)
        folder = tmp_path / "log" / str(table.table_id)
    (folder / "half.arrow.tmp").write_bytes(b"torn")
    (folder / "unpublished.arrow").write_bytes(b"whole, but the crash came before the metadata")
    (tmp_path / "log" / "999").mkdir()
    (tmp_path / "log" / "999" / "gone.arrow").write_bytes(b"of a dropped table")

    with EmbeddedStorage(tmp_path) as storage:
        assert files(tmp_path) == published
        assert scan_all(storage, table).num_rows == 10
        assert not (tmp_path / "log" / "999").exists()


def test_an_append_whose_publishing_fails_is_not_there_and_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        table = make_table(storage)

        def fail(*_: object) -> None:
            raise sa.exc.OperationalError("INSERT", {}, Exception("disk I/O error"))

        with monkeypatch.context() as patch:
            patch.setattr("tiering.cluster.embedded.log.appends._bucket_rows", fail)
            with pytest.raises(ClusterUnavailable, match="disk I/O error"):
                storage.append(PATH, orders(0, 10), "writer", 0)
        assert scan_all(storage, table).num_rows == 0

        storage.append(PATH, orders(0, 10), "writer", 0)
        assert scan_all(storage, table)["id"].to_pylist() == list(range(10))
    with EmbeddedStorage(tmp_path):
        assert len(files(tmp_path)) == 1


def test_an_append_that_cannot_be_written_takes_no_offsets(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(storage)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(ClusterUnavailable, match="No space left"):
            storage.append(PATH, orders(0, 10), "writer", 0)
    assert storage.offsets(table)[B0].log_end == 0
    storage.append(PATH, orders(0, 10), "writer", 0)
    assert scan_all(storage, table).num_rows == 10


APPEND_FOR_EVER = """
import sys
from itertools import count
from pathlib import Path

from support.clusters.embedded import PATH, make_table, orders
from tiering.cluster.embedded.storage import EmbeddedStorage

with EmbeddedStorage(Path(sys.argv[1])) as storage:
    make_table(storage, bucket_count=3, bucket_keys=("id",))
    for sequence in count():
        storage.append(PATH, orders(sequence * 10, 10), "writer", sequence)
        print(sequence, flush=True)
"""


@pytest.mark.parametrize("acknowledged", [1, 4, 13])
def test_a_kill_in_the_middle_of_appends_loses_and_doubles_nothing(tmp_path: Path, acknowledged: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-c", APPEND_FOR_EVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            assert writer.stdout.readline()
        writer.kill()
        last = max([acknowledged - 1, *map(int, writer.stdout.read().split())])

    with EmbeddedStorage(tmp_path) as storage:
        table = storage.table(PATH)
        kept = sorted(scan_all(storage, table)["id"].to_pylist())
        assert kept in (list(range((last + 1) * 10)), list(range((last + 2) * 10)))  # the last may have landed unanswered
        for sequence in range(last + 4):
            storage.append(PATH, orders(sequence * 10, 10), "writer", sequence)
        assert sorted(scan_all(storage, table)["id"].to_pylist()) == list(range((last + 4) * 10))
        every = [storage.log.segments(table.table_id, key, 0, bounds.log_end) for key, bounds in storage.offsets(table).items()]
        assert files(tmp_path) == {Path(segment.path).name for bucket_segments in every for segment in bucket_segments}


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def tear(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def swap_for_another(file: Path) -> None:
    """Replaces the file by one of the same size with other rows."""
    other = next(path for path in file.parent.iterdir() if path != file and path.stat().st_size == file.stat().st_size)
    file.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [flip_a_byte, tear, empty, Path.unlink, swap_for_another])
def test_a_damaged_segment_is_named_and_nothing_past_it_is_read(storage: EmbeddedStorage, damage: Callable[[Path], None]) -> None:
    table = make_table(storage)
    for number in range(3):
        storage.append(PATH, orders(number * 40_000, 40_000), "writer", number)
    broken = segment_at(storage, table, 40_000)
    damage(storage.root / broken.path)

    batches = storage.reader(table, split_of(table, 0, 0, 120_000)).read()

    assert next(batches)["__offset"][-1].as_py() == 39_999
    with pytest.raises(DataCorrupt) as error:
        next(batches)
    for named in (broken.path, "bucket 0", "[40000, 80000)"):
        assert named in error.value.message
    assert list(batches) == []
    assert scan(storage, table, 0, 80_000, 120_000).num_rows == 40_000


def segment_at(storage: EmbeddedStorage, table: TableInfo, offset: int) -> Segment:
    return storage.log.segments(table.table_id, B0, offset, offset + 1)[0]


def test_a_file_that_holds_other_rows_than_recorded_is_corrupt(storage: EmbeddedStorage) -> None:
    """The checksum fits, the content does not: as after a restore of the metadata alone."""
    table = make_table(storage)
    storage.append(PATH, orders(0, 10), "writer", 0)
    reader = storage.reader(table, split_of(table, 0, 0, 10))
    with storage.metadata.write() as connection:
        connection.execute(sa.update(segments).values(stopping_offset=9))
    assert next(iter(reader.read())).num_rows == 10

    with pytest.raises(DataCorrupt, match=r"no segment for offsets \[9, 10\)") as gap:
        storage.reader(table, split_of(table, 0, 0, 10))
    assert "Restore meta.db" in (gap.value.hint or "")
    with pytest.raises(DataCorrupt, match="does not contain the expected rows"):
        scan(storage, table, 0, 0, 9)


def test_the_oldest_timestamp_after_a_gap_is_that_of_the_next_record(storage: EmbeddedStorage) -> None:
    table = make_table(storage)
    for number in range(3):
        storage.append(PATH, orders(number * 10, 10), "writer", number)
    with storage.metadata.write() as connection:
        connection.execute(sa.delete(segments).where(segments.c.starting_offset == 10))

    times = [storage.log.oldest_timestamps(table.table_id, {B0: offset}) for offset in (10, 20)]

    assert times[0] == times[1] != {}


def test_a_reader_without_the_folder_says_so(storage: EmbeddedStorage, tmp_path: Path) -> None:
    table = make_table(storage)
    storage.append(PATH, orders(0, 10), "writer", 0)
    reader = storage.reader(table, split_of(table, 0, 0, 10))
    storage.root.rename(tmp_path / "elsewhere")
    with pytest.raises(ClusterUnavailable, match="does not exist") as error:
        next(reader.read())
    assert "same path" in error.value.hint


def test_a_client_waits_out_a_restart_of_the_service(storage: EmbeddedStorage) -> None:
    table = make_table(storage)
    server = LoopbackServer(storage)
    with RemoteEmbeddedCluster(server.uri) as remote:
        first = remote.append(PATH, orders(0, 5), "writer", 0)
        server.stop()
        servers: list[LoopbackServer] = []

        def start_again(_: object) -> None:
            if not servers:  # a port is one server's alone
                servers.append(LoopbackServer(storage, server.port))

        remote._retrying = remote._retrying.copy(before_sleep=start_again)
        try:
            assert list(remote.append(PATH, orders(0, 5), "writer", 0)) == list(first)
            remote.append(PATH, orders(5, 5), "writer", 1)
        finally:
            for started in servers:
                started.stop()
    assert len(servers) >= 1
    assert scan_all(storage, table)["id"].to_pylist() == list(range(10))


def test_a_service_that_never_answered_is_reported_at_once() -> None:
    with RemoteEmbeddedCluster("127.0.0.1:1", patience_ms=3_600_000) as remote, pytest.raises(ServiceUnreachable, match=r"127\.0\.0\.1:1"):
        remote.databases()


def test_a_call_is_given_up_when_patience_ends(storage: EmbeddedStorage) -> None:
    server = LoopbackServer(storage)
    with RemoteEmbeddedCluster(server.uri, patience_ms=1) as remote:
        assert remote.cluster_id == storage.cluster_id
        server.stop()
        with pytest.raises(ServiceUnreachable):
            remote.databases()


def test_only_the_coordinators_process_records_the_lake(storage: EmbeddedStorage) -> None:
    """Neither the client nor the service has such a call."""
    with served(storage) as remote:
        assert not isinstance(remote, ClusterOwner)
    methods = embedded_pb2.DESCRIPTOR.services_by_name["EmbeddedCluster"].methods_by_name
    assert [name for name in methods if ("Lake" in name and not name.startswith("Get")) or "Lease" in name] == []


FOREIGN = ("log", "log/1", "kv-snapshots", "kv-snapshots/1", "kv")
"""Every folder of a cluster that is listed at a start."""


@pytest.mark.parametrize("name", [".DS_Store", "notes.txt", "1.bak", "x.arrow.orig"])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_not_of_the_cluster_stops_no_start_and_stays(tmp_path: Path, name: str, kind: str) -> None:
    root, elsewhere = tmp_path / "cluster", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with EmbeddedStorage(root) as storage:
        make_table(storage, primary_key=("id",))
        storage.upsert(PATH, cities((1, "Oslo")), "writer", 0)
        storage.take_kv_snapshots(PATH)
    strays = [root / folder / name for folder in FOREIGN] + [root / name]
    for stray in strays:
        match kind:
            case "file":
                stray.write_bytes(b"Bud1")
            case "folder":
                (stray / "inside").mkdir(parents=True)
            case _:
                stray.symlink_to(elsewhere)
    for _ in range(2):
        with EmbeddedStorage(root) as storage:
            storage.upsert(PATH, cities((2, "Lima")), "writer", 1)
            assert scan_all(storage, storage.table(PATH)).num_rows == 2
            storage.take_kv_snapshots(PATH)
    with EmbeddedStorage(root) as storage:
        storage.drop_table(PATH)
    with EmbeddedStorage(root) as storage:
        assert storage.tables() == []
    assert all(stray.exists() for stray in strays if stray.parent.name != "1")
    assert elsewhere.is_dir()


def test_a_link_in_the_place_of_a_table_is_not_followed(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "cluster", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious.arrow").write_bytes(b"mine")
    with EmbeddedStorage(root):
        pass
    (root / "kv-snapshots").mkdir()
    for folder in ("log", "kv-snapshots"):
        (root / folder / "77").symlink_to(elsewhere)
    with EmbeddedStorage(root):
        assert (elsewhere / "precious.arrow").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "path", ["../precious.arrow", "/etc/passwd", "log/../../precious.arrow", "log/1/../../../precious.arrow", "meta.db"]
)
def test_a_path_that_leaves_the_folder_is_neither_read_nor_removed(tmp_path: Path, clock: ManualClock, path: str) -> None:
    root, precious = tmp_path / "cluster", tmp_path / "precious.arrow"
    precious.write_bytes(b"mine")
    with EmbeddedStorage(root, clock) as storage:
        table = make_table(storage, properties={"table.log.ttl": "1 s"})
        storage.append(PATH, orders(0, 10), "writer", 0)
        storage.append(PATH, orders(10, 10), "writer", 1)
        with storage.metadata.write() as connection:
            connection.execute(sa.update(segments).where(segments.c.starting_offset == 0).values(path=path, size_bytes=4))
        with pytest.raises(DataCorrupt, match="does not belong to it"):
            scan(storage, table, 0, 0, 20)
        clock.advance(3_600)
        storage.maintenance.run()
    assert precious.read_bytes() == b"mine"
    assert (root / "meta.db").exists()
