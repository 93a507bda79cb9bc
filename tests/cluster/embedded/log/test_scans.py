"""Scans of the embedded log: exactly the range that was asked for, however it is cut into segments and pages."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.clusters.embedded import PATH, SCHEMA, EmbeddedCluster, make_table, orders, scan, served, split_of
from support.depth import examples
from tiering.cluster.base import SplitReader
from tiering.cluster.capabilities import read_columns
from tiering.cluster.embedded.log.split_reader import TARGET_BATCH_ROWS, open_reader
from tiering.cluster.embedded.rpc.service import SEGMENTS_PER_PAGE
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.errors import InvalidArgument, LogTruncated
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo, TableType

B0 = BucketKey(None, 0)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends become segments of three rows or so; thousands of them need not be synced here."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("tiering.cluster.embedded.log.segments.MAX_SEGMENT_BYTES", 48)


@pytest.mark.parametrize(("start", "stop"), [(0, 11), (-1, 3), (5, 4)])
def test_a_range_outside_of_the_log_is_refused(cluster: EmbeddedCluster, start: int, stop: int) -> None:
    table = make_table(cluster)
    cluster.append(PATH, orders(0, 10), "writer", 0)
    with pytest.raises(InvalidArgument, match="ends at 10"):
        cluster.reader(table, split_of(table, 0, start, stop))


def test_a_bucket_that_is_not_there_is_refused(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    with pytest.raises(InvalidArgument, match="bucket 4, which does not exist"):
        cluster.reader(table, split_of(table, 4, 0, 0))


def test_a_log_that_starts_later_is_truncated_not_skipped() -> None:
    table = TableInfo(1, PATH, TableType.LOG, SCHEMA, 1, datetime(2024, 1, 1, tzinfo=UTC))
    with pytest.raises(LogTruncated, match="starts at offset 5, after 3"):
        open_reader(table, split_of(table, 0, 3, 9), BucketOffsets(5, 10), lambda *_: ("", ()), lambda _: SCHEMA)


def test_readers_pickle_and_need_no_cluster(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    cluster.append(PATH, orders(0, 10), "writer", 0)

    reader = pickle.loads(pickle.dumps(cluster.reader(table, split_of(table, 0, 2, 7))))

    assert isinstance(reader, SplitReader)
    assert reader.split == split_of(table, 0, 2, 7)
    assert pa.Table.from_batches(reader.read())["id"].to_pylist() == [2, 3, 4, 5, 6]
    assert [batch.num_rows for batch in reader.read()] == [5]


@pytest.mark.usefixtures("small_segments")
def test_two_thousand_small_segments_become_few_batches(cluster: EmbeddedCluster, storage: EmbeddedStorage) -> None:
    table = make_table(cluster)
    cluster.append(PATH, orders(0, 6_000), "writer", 0)
    assert len(storage.log.segments(table.table_id, B0, 0, 6_000)) >= 2_000

    batches = list(cluster.reader(table, split_of(table, 0, 1, 5_999)).read())

    assert len(batches) == 1
    assert batches[0]["__offset"].to_pylist() == batches[0]["id"].to_pylist() == list(range(1, 5_999))


@pytest.mark.usefixtures("small_segments")
def test_more_segments_than_one_message_holds(cluster: EmbeddedCluster, storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(cluster)
    monkeypatch.setattr("tiering.cluster.embedded.rpc.service.SEGMENTS_PER_PAGE", 7)
    cluster.append(PATH, orders(0, 90), "writer", 0)
    assert len(storage.log.segments(table.table_id, B0, 0, 90)) >= 30

    assert scan(cluster, table, 0, 2, 89)["id"].to_pylist() == list(range(2, 89))
    assert SEGMENTS_PER_PAGE * 150 < 4 * 1024 * 1024


def test_large_appends_are_cut_and_read_in_large_batches(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    writer = LogWriter(cluster, PATH, "writer")
    rows = orders(0, 400_000)

    ranges = writer.append(rows)

    assert writer.sequence == len(ranges) > 1
    batches = list(cluster.reader(table, split_of(table, 0, 0, 400_000)).read())
    assert pa.Table.from_batches(batches).select(["id", "city"]) == pa.Table.from_batches([rows])
    assert all(batch.num_rows >= TARGET_BATCH_ROWS // 2 for batch in batches[:-1])


@settings(max_examples=examples(10))
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    repeats=st.lists(st.integers(0, 11), max_size=8),
    data=st.data(),
)
def test_any_scan_is_the_rows_appended(storage: EmbeddedStorage, sizes: list[int], repeats: list[int], data: st.DataObject) -> None:
    if PATH in [table.path for table in storage.tables()]:
        storage.drop_table(PATH)
    table = make_table(storage)
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    answers = {}
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        answers[number] = storage.append(PATH, orders(start, size), "writer", number)
        for repeat in repeats:
            if repeat <= number:
                assert storage.append(PATH, orders(starts[repeat], sizes[repeat]), "writer", repeat) == answers[repeat]

    total = sum(sizes)
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    rows = scan(storage, table, 0, start, stop)
    assert rows["id"].to_pylist() == rows["__offset"].to_pylist() == list(range(start, stop))

    columns = data.draw(st.permutations(rows.schema.names).flatmap(lambda names: st.integers(1, len(names)).map(lambda n: names[:n])))
    batches = list(read_columns(storage.reader(table, split_of(table, 0, start, stop)), columns))
    selected = rows.select(columns)
    assert pa.Table.from_batches(batches, selected.schema) == selected


def test_a_reader_costs_one_question(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(storage) as remote:
        table = make_table(remote)
        remote.append(PATH, orders(0, 10), "writer", 0)
        requests: list[str] = []
        ask = remote._repeatable

        def counted(*call: Any) -> Any:
            answer = ask(*call)
            requests.append(type(answer).__name__)
            return answer

        monkeypatch.setattr(remote, "_repeatable", counted)
        reader = remote.reader(table, split_of(table, 0, 2, 7))
        assert requests == ["ListSegmentsResponse"]
        assert [batch.num_rows for batch in reader.read()] == [5]
        with pytest.raises(InvalidArgument, match="whose log ends at 10"):
            remote.reader(table, split_of(table, 0, 2, 11))
