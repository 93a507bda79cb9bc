"""A log with record batches of all versions: every reader of it reads them alike, and stops at those of a later version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest

from support.clusters.fluss_log import MAGIC_PLACE, record_batch
from support.clusters.memory_cluster import log_table
from support.scripted.source import scripted_source
from tiering.cluster.capabilities import ProjectingReader
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.wire.api import FETCH_LOG, LIST_OFFSETS
from tiering.errors import UnsupportedLogVersion
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TableType
from tiering.rpc.fluss import fluss_pb2 as pb

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
B0 = BucketKey(None, 0)
ROWS = 100
VERSIONS = (0, 1, 0, 2, 1, 2)
COMMIT_MS = 1_700_000_000_000


def rows(first: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + ROWS)
    return pa.record_batch({"id": numbers, "text": [f"row {number}" for number in numbers]}, SCHEMA)


def batches(change_types: Sequence[int] | None = None) -> list[bytes]:
    """Returns one record batch of each of VERSIONS; those of the versions 1 and 2 have statistics of different lengths."""
    return [
        record_batch(
            rows(place * ROWS),
            place * ROWS,
            change_types=change_types,
            commit_ms=COMMIT_MS + place,
            version=version,
            statistics=b"\1\2\3" * place if version else b"",
        )
        for place, version in enumerate(VERSIONS)
    ]


@contextmanager
def served(table: TableInfo, log: Sequence[bytes]) -> Iterator[FlussSource]:
    """A server whose log consists of these record batches of ROWS records."""
    starts = [0, *accumulate(map(len, log))]

    def fetch(request: pb.FetchLogRequest) -> pb.FetchLogResponse:
        (bucket_request,) = request.tables_req[0].buckets_req
        answer = pb.FetchLogResponse()
        of_table = answer.tables_resp.add(table_id=table.table_id)
        start = starts[bucket_request.fetch_offset // ROWS]
        of_table.buckets_resp.add(bucket_id=0, records=b"".join(log)[start : start + bucket_request.max_fetch_bytes])
        return answer

    def list_offsets(request: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        answer = pb.ListOffsetsResponse()
        answer.buckets_resp.add(bucket_id=0, offset=len(log) * ROWS if request.offset_type else 0)
        return answer

    with scripted_source(table, {FETCH_LOG: fetch, LIST_OFFSETS: list_offsets}) as source:
        yield source


LOG_TABLE = replace(log_table(buckets=1), schema=SCHEMA)
KEY_TABLE = replace(LOG_TABLE, table_type=TableType.PRIMARY_KEY, primary_key=("id",))
END = ROWS * len(VERSIONS)


@pytest.mark.parametrize(("start", "stop"), [(0, END), (150, 350), (399, 401), (500, 501)])
def test_any_range_over_record_batches_of_all_versions_is_read(start: int, stop: int) -> None:
    with served(LOG_TABLE, batches()) as source:
        reader = source.reader(LOG_TABLE, TieringLogSplit(LOG_TABLE.path, B0, None, start, stop, stop))
        assert isinstance(reader, ProjectingReader)
        whole, some = pa.Table.from_batches(reader.read()), pa.Table.from_batches(reader.read_columns(["text", "__offset"]))
    assert whole["id"].to_pylist() == whole["__offset"].to_pylist() == list(range(start, stop))
    assert whole["__timestamp"].to_pylist() == [
        datetime.fromtimestamp((COMMIT_MS + offset // ROWS) / 1_000, UTC) for offset in range(start, stop)
    ]
    assert some.to_pydict() == {"text": [f"row {number}" for number in range(start, stop)], "__offset": list(range(start, stop))}


def test_a_changelog_of_all_versions_is_read() -> None:
    kinds = [int(ChangeType.INSERT), int(ChangeType.UPDATE_BEFORE), int(ChangeType.UPDATE_AFTER), int(ChangeType.DELETE)] * (ROWS // 4)
    with served(KEY_TABLE, batches(kinds)) as source:
        reader = source.reader(KEY_TABLE, TieringLogSplit(KEY_TABLE.path, B0, None, 0, END, END))
        whole = pa.Table.from_batches(reader.read())
    assert whole["__change_type"].to_pylist() == kinds * len(VERSIONS)
    assert whole["id"].to_pylist() == list(range(END))


def test_sizes_times_and_traces_come_from_headers_of_all_versions() -> None:
    log = batches()
    with served(LOG_TABLE, log) as source:
        for place in range(len(log)):
            (time,) = source.oldest_timestamps(LOG_TABLE, {B0: place * ROWS + 1}).values()
            assert time == datetime.fromtimestamp((COMMIT_MS + place) / 1_000, UTC)
        (sampled,) = source.offsets(LOG_TABLE).values()
        # The first call above noted the record batch of the log's start, and the last one that of its end.
        assert sampled.bytes_per_record == (len(log[-1]) + len(log[-2])) / (2 * ROWS)
        traces = [source.record_traces(LOG_TABLE, {B0: offset})[B0] for offset in range(1, END + 1, ROWS)]
    assert len(set(traces)) == len(VERSIONS)


def test_the_records_before_a_later_version_are_read_and_the_rest_is_named() -> None:
    log = batches()
    later = bytearray(log[3])
    later[MAGIC_PLACE] = 3
    log[3] = bytes(later)
    with served(LOG_TABLE, log) as source:
        (bounds,) = source.offsets(LOG_TABLE).values()
        assert bounds.log_end == END
        before = source.reader(LOG_TABLE, TieringLogSplit(LOG_TABLE.path, B0, None, 0, 3 * ROWS, 3 * ROWS))
        assert pa.Table.from_batches(before.read())["id"].to_pylist() == list(range(3 * ROWS))
        beyond = source.reader(LOG_TABLE, TieringLogSplit(LOG_TABLE.path, B0, None, 0, END, END))
        with pytest.raises(UnsupportedLogVersion, match=r"the version 3, .* bucket 0 of .*, from offset 300 on") as caught:
            list(beyond.read())
        assert source.record_traces(LOG_TABLE, {B0: 3 * ROWS + 1}) == {}
    assert (caught.value.ids["bucket"], caught.value.ids["starting_offset"]) == ("0", "300")
