"""A record that an older version logged and the KV state cannot take stops its bucket alone, and can be skipped for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.changelog import SIGNS
from support.clusters.embedded import ManualClock, make_table, scan, scan_all, served
from support.clusters.older_version import TWICE, older_write
from tiering import crash_points
from tiering.clock import RandomIds
from tiering.cluster.capabilities import SkipOutcome, SkipRequest
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.embedded.stored_cluster import ReadOnlyEmbeddedCluster
from tiering.errors import BucketStopped, InvalidArgument, UnknownPartition, UnknownTable
from tiering.model.refused_records import RECORD_ID
from tiering.model.tables import BucketKey, ChangeType, TablePath

PATH = TablePath("sales", "orders")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("city", pa.string()),
        pa.field("tags", pa.map_(pa.string(), pa.int32())),
        pa.field("more", pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.int32()))])), nullable=False),
    ]
)
BUCKETS = 4


def rows(*values: tuple[int, str, list[tuple[str, int]]], day: int = 1) -> pa.RecordBatch:
    """Rows of (id, city, tags); `more` has the tags, too."""
    listed = [{"id": number, "day": day, "city": city, "tags": tags, "more": [{"m": tags}]} for number, city, tags in values]
    return pa.RecordBatch.from_pylist(listed, schema=SCHEMA)


def make(storage: EmbeddedStorage, **options: Any) -> None:
    make_table(storage, schema=SCHEMA, path=PATH, **{"primary_key": ("id",), "bucket_count": BUCKETS, **options})


def bucket_of(storage: EmbeddedStorage, number: int) -> BucketKey:
    """Where a key is, by its first record in the log."""
    table = storage.table(PATH)
    for bucket, ends in storage.offsets(table).items():
        for segment in storage.log.segments(table.table_id, bucket, 0, ends.log_end):
            with pa.memory_map(str(storage.root / segment.path)) as file, pa.ipc.open_file(file) as reader:
                if number in reader.read_all().column("id").to_pylist():
                    return bucket
    raise AssertionError(number)


def request(bucket: BucketKey, offset: int, **more: Any) -> SkipRequest:
    return SkipRequest(PATH, more.pop("partition_name", None), bucket.bucket_id, offset, "ann", "a test", **more)


def present(storage: EmbeddedStorage) -> dict[int, str | None]:
    """The rows by the log, as readers have it: the last change of each key that is no `-U`."""
    last = {
        row["id"]: row for row in scan_all(storage, storage.table(PATH)).to_pylist() if row["__change_type"] != ChangeType.UPDATE_BEFORE
    }
    return {number: row["city"] for number, row in last.items() if row["__change_type"] != ChangeType.DELETE}


def held(storage: EmbeddedStorage) -> dict[int, str | None]:
    """The rows in the KV state."""
    table, rows = storage.table(PATH), {}
    with storage.primary_key_tables.exclusive(table.table_id):
        for bucket in storage.offsets(table):
            for batch in storage.primary_key_tables._using(table, lambda kv, bucket=bucket: list(kv.rows(bucket))):
                rows |= dict(zip(batch.column("id").to_pylist(), batch.column("city").to_pylist(), strict=True))
    return rows


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock) -> Any:
    with EmbeddedStorage(tmp_path / "cluster", clock, RandomIds()) as opened:
        yield opened


def keys_apart(storage: EmbeddedStorage) -> tuple[int, int]:
    """A key of the bucket of key 1, and one of another bucket; all of 1 to 20 are written."""
    storage.upsert(PATH, rows(*((number, "old", []) for number in range(1, 21))), "writer", 0)
    mine = bucket_of(storage, 1)
    with_it = next(number for number in range(2, 21) if bucket_of(storage, number) == mine)
    return with_it, next(number for number in range(2, 21) if bucket_of(storage, number) != mine)


def test_the_bucket_alone_stops_and_says_where_and_why(storage: EmbeddedStorage) -> None:
    make(storage)
    neighbour, stranger = keys_apart(storage)
    bucket = bucket_of(storage, 1)
    end = storage.offsets(storage.table(PATH))[bucket].log_end
    older_write(storage, PATH, rows((1, "poison", TWICE)), 1)

    for key in (1, neighbour):
        with pytest.raises(BucketStopped, match=f"bucket {bucket.bucket_id} of sales.orders stands at offset {end + 1}") as caught:
            storage.upsert(PATH, rows((key, "new", [])), "writer", key)
        assert "poison" not in caught.value.message
        assert "city='poison'" in caught.value.ids[RECORD_ID]
        assert "duplicate key" in caught.value.ids[RECORD_ID]
        assert f"CALL sys.skip_record('sales.orders', {bucket.bucket_id}, {end + 1}, reason => '...')" in caught.value.hint
        assert "on-bad-record" not in caught.value.hint, "no round can put aside what the KV state refuses"
    with pytest.raises(BucketStopped):
        storage.delete(PATH, rows((neighbour, "", [])).select(["id"]), "writer", 50)
    with pytest.raises(BucketStopped):
        storage.upsert(PATH, rows((stranger, "new", []), (1, "new", [])), "writer", 51)
    storage.upsert(PATH, rows((stranger, "new", [])), "writer", 52)
    assert held(storage)[stranger] == "new"
    assert set(storage.take_kv_snapshots(PATH)) == set(storage.offsets(storage.table(PATH))) - {bucket}


def test_who_would_read_the_record_is_told_and_others_are_not(storage: EmbeddedStorage) -> None:
    make(storage)
    keys_apart(storage)
    table, bucket = storage.table(PATH), bucket_of(storage, 1)
    end = storage.offsets(table)[bucket].log_end
    older_write(storage, PATH, rows((1, "poison", TWICE)), 1)
    with served(storage) as remote:
        for cluster in (storage, remote, ReadOnlyEmbeddedCluster(storage.root)):
            with pytest.raises(BucketStopped, match=f"offset {end + 1}"):
                scan(cluster, table, bucket, 0, end + 2)
            assert scan(cluster, table, bucket, 0, end + 1).num_rows == end + 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_skipped_record_changes_nothing_for_any_reader(tmp_path: Path, restart: bool) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        make(storage)
        neighbour, _ = keys_apart(storage)
        table, bucket = storage.table(PATH), bucket_of(storage, 1)
        end = storage.offsets(table)[bucket].log_end
        older_write(storage, PATH, rows((1, "poison", TWICE)), 1)
        if not restart:
            answer = storage.skip_record(request(bucket, end + 1))
    with EmbeddedStorage(tmp_path) as storage:
        if restart:
            answer = storage.skip_record(request(bucket, end + 1))
        assert (answer.outcome, "city='poison'" in answer.value) == (SkipOutcome.SKIPPED, True)
        assert storage.skip_record(request(bucket, end + 1)).outcome is SkipOutcome.ALREADY_SKIPPED
        old = dict.fromkeys(range(1, 21), "old")
        assert held(storage) == present(storage) == old
        with served(storage) as remote:
            for cluster in (storage, remote, ReadOnlyEmbeddedCluster(tmp_path)):
                logged = scan(cluster, table, bucket, end, end + 4)
                assert logged.column("__offset").to_pylist() == [end, end + 1, end + 2, end + 3]
                assert [SIGNS[kind] for kind in logged.column("__change_type").to_pylist()] == ["-U", "-U", "-U", "+U"]
                assert logged.column("tags").to_pylist() == [[], None, [], []]
                assert logged.column("more").to_pylist()[1] == []
        storage.upsert(PATH, rows((1, "mended", []), (neighbour, "new", [])), "writer", 9)
        storage.primary_key_tables.forget(table.table_id)
        assert held(storage) == present(storage) == old | {1: "mended", neighbour: "new"}
        assert bucket in storage.take_kv_snapshots(PATH)


def test_a_skipped_insert_leaves_no_row_also_where_it_went_already(storage: EmbeddedStorage) -> None:
    make(storage)
    older_write(storage, PATH, rows((1, "poison", TWICE)), 1)
    table, bucket = storage.table(PATH), bucket_of(storage, 1)
    storage.skip_record(request(bucket, 0))
    assert held(storage) == present(storage) == {}
    kinds = scan(storage, table, bucket, 0, 2).column("__change_type").to_pylist()
    assert [SIGNS[kind] for kind in kinds] == ["-U", "-D"], "a lake that has the row gets it out"


def test_records_that_stand_one_after_the_other_are_skipped_in_turn(storage: EmbeddedStorage) -> None:
    make(storage, bucket_count=1)
    older_write(storage, PATH, rows((1, "fine", []), (2, "poison", TWICE), (3, "fine", []), (4, "poison", TWICE), (5, "fine", [])), 1)
    bucket = BucketKey(None, 0)
    for wrong in (0, 2, 3, 99):
        with pytest.raises(InvalidArgument, match=f"stands at offset 1, not at {wrong}"):
            storage.skip_record(request(bucket, wrong))
    assert storage.skip_record(request(bucket, 1, dry_run=True)).outcome is SkipOutcome.WOULD_SKIP
    assert held(storage) == {1: "fine"}
    storage.skip_record(request(bucket, 1))
    with pytest.raises(BucketStopped, match="offset 3"):
        storage.upsert(PATH, rows((9, "new", [])), "writer", 0)
    storage.skip_record(request(bucket, 3))
    storage.upsert(PATH, rows((9, "new", [])), "writer", 0)
    assert held(storage) == present(storage) == {1: "fine", 3: "fine", 5: "fine", 9: "new"}
    with pytest.raises(InvalidArgument, match="is not stopped at a record"):
        storage.skip_record(request(bucket, 2))


def test_what_is_named_wrongly_is_refused(storage: EmbeddedStorage) -> None:
    make(storage)
    with pytest.raises(InvalidArgument, match="buckets 0 to 3"):
        storage.skip_record(request(BucketKey(None, 4), 0))
    with pytest.raises(InvalidArgument, match="has no partitions"):
        storage.skip_record(request(BucketKey(None, 0), 0, partition_name="1"))
    with pytest.raises(UnknownTable):
        storage.skip_record(SkipRequest(TablePath("sales", "nothing"), None, 0, 0, "ann"))
    storage.drop_table(PATH)
    make(storage, primary_key=())
    with pytest.raises(InvalidArgument, match="log table"):
        storage.skip_record(request(BucketKey(None, 0), 0))


def test_a_partition_stands_alone_and_takes_what_is_noted_with_it(storage: EmbeddedStorage) -> None:
    make(storage, primary_key=("id", "day"), partition_keys=("day",), bucket_count=1)
    storage.upsert(PATH, rows((1, "old", []), day=2), "writer", 0)
    older_write(storage, PATH, rows((1, "poison", TWICE), day=1), 1)
    with pytest.raises(BucketStopped, match=r"bucket 0 of partition 1 of sales\.orders") as caught:
        storage.upsert(PATH, rows((2, "new", []), day=1), "writer", 1)
    assert "partition => '1'" in caught.value.hint
    storage.upsert(PATH, rows((2, "new", []), day=2), "writer", 2)
    with pytest.raises(InvalidArgument, match="is partitioned"):
        storage.skip_record(request(BucketKey(None, 0), 0))
    with pytest.raises(UnknownPartition):
        storage.skip_record(request(BucketKey(None, 0), 0, partition_name="3"))
    storage.skip_record(request(BucketKey(None, 0), 0, partition_name="1"))
    storage.upsert(PATH, rows((2, "new", []), day=1), "writer", 3)
    older_write(storage, PATH, rows((1, "poison", TWICE), day=1), 4)
    storage.drop_partition(PATH, "1")
    storage.upsert(PATH, rows((3, "new", []), day=1), "writer", 5)
    assert held(storage) == {1: "old", 2: "new", 3: "new"}


SKIP = """
import sys
from pathlib import Path
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.capabilities import SkipRequest
from tiering.model.tables import TablePath
with EmbeddedStorage(Path(sys.argv[1])) as storage:
    print(storage.skip_record(SkipRequest(TablePath("sales", "orders"), None, 0, int(sys.argv[2]), "ann")).outcome.value)
"""


@pytest.mark.parametrize("point", [*crash_points.IN_SKIP, crash_points.KV_APPLYING])
def test_a_process_that_dies_while_it_skips_has_skipped_or_not(tmp_path: Path, point: str) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        make(storage, bucket_count=1)
        storage.upsert(PATH, rows((1, "old", []), (2, "old", [])), "writer", 0)
        older_write(storage, PATH, rows((1, "poison", TWICE)), 1)

    def skip(**environment: str) -> subprocess.CompletedProcess[str]:
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), **environment}
        command = [sys.executable, "-c", SKIP, str(tmp_path), "3"]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    died = skip(**{crash_points.VARIABLE: point})
    assert died.returncode == -signal.SIGKILL, died.stderr
    with EmbeddedStorage(tmp_path) as storage:
        skipped = point != crash_points.KV_SKIPPING
        assert held(storage) == {1: "old", 2: "old"}
        if skipped:
            storage.upsert(PATH, rows((2, "new", [])), "writer", 2)
        else:
            with pytest.raises(BucketStopped):
                storage.upsert(PATH, rows((2, "new", [])), "writer", 2)
    assert skip().stdout.strip() == ("already_skipped" if skipped else "skipped")
    with EmbeddedStorage(tmp_path) as storage:
        storage.upsert(PATH, rows((2, "new", [])), "writer", 2)
        assert held(storage) == present(storage) == {1: "old", 2: "new"}
        assert len(list((tmp_path / "log" / "1").glob("*.arrow"))) == 4
