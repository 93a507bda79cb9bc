"""Yields a range of one bucket's log as chunks of record batches: from the leader's answers, and from the remote segments that these name.

The next chunk is fetched while the previous one is decoded, so at most two are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from tiering.cluster.fluss.log.batches import LogPlace, complete_batches
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.log.remote_segments import RemoteLog, RemoteSegment, RemoteSegmentMissing, remote_chunks
from tiering.cluster.fluss.log.rows import LogChunk
from tiering.errors import ClusterUnavailable, LogTruncated

FETCH_BYTES = 8 * 1024 * 1024
"""Maximum size of one answer. Larger ones are not faster; reading holds two of them in memory."""


def log_chunks(log: BucketLog, start: int, stop: int, remote_properties: Mapping[str, str]) -> Iterator[LogChunk]:
    """Yields the record batches of `[start, stop)`, complete, verified and without a gap; the last chunk may extend beyond `stop`.

    Raises DataCorrupt, LogTruncated, ClusterUnavailable, SourceChanged, SetupError.
    """
    offset, lowest = start, 0
    while offset < stop:
        server, answer = log.fetch(offset, stop, FETCH_BYTES)
        place = LogPlace(log.table_path, log.bucket, server)
        before = offset
        if answer.HasField("remote_log_fetch_info"):
            for chunk in _remote(log, remote_log(answer.remote_log_fetch_info), (offset, stop), place, remote_properties):
                yield chunk
                offset = max(offset, chunk.headers[-1].stopping_offset)
        else:
            data = pa.py_buffer(answer.records)
            headers = list(complete_batches(data, (lowest, offset), stop, place))
            if not headers:
                raise place.corrupt("the answer has no complete record batch", offset, stop)
            yield LogChunk(data, headers, place)
            offset = headers[-1].stopping_offset
        if offset <= before:
            raise place.corrupt(f"the log goes back from offset {before} to {offset}", before, stop)
        lowest = offset  # the next record batch begins exactly there


def _remote(
    log: BucketLog, remote: RemoteLog, offsets: tuple[int, int], place: LogPlace, properties: Mapping[str, str]
) -> Iterator[LogChunk]:
    start, stop = offsets
    try:
        for chunk in remote_chunks(remote, start, stop, place, properties):
            yield chunk
            start = max(start, chunk.headers[-1].stopping_offset)
    except RemoteSegmentMissing as error:
        raise segment_gone(log, error, start) from error


def segment_gone(log: BucketLog, error: RemoteSegmentMissing, offset: int) -> LogTruncated | ClusterUnavailable:
    """Returns the error for a missing segment: retention removed it, or this process sees another storage."""
    bounds = log.bounds()
    name = f"bucket {log.bucket} of {log.table_path}"
    if bounds.log_start > offset:
        message = f"the log of {name} starts at offset {bounds.log_start}, after {offset}: {error.path} was removed"
        return LogTruncated(message, table_id=log.table_id, bucket=log.bucket)
    return ClusterUnavailable(
        f"the remote log segment {error.path} of {name} does not exist",
        hint="Every executor, and the coordinator, must be able to read the cluster's remote.data.dir under the same path.",
        table_id=log.table_id,
        bucket=log.bucket,
    )


def remote_log(info: Any) -> RemoteLog:
    """Returns the content of a PbRemoteLogFetchInfo."""
    segments = [
        RemoteSegment(segment.remote_log_segment_id, segment.remote_log_start_offset, segment.remote_log_end_offset)
        for segment in info.remote_log_segments
    ]
    return RemoteLog(info.remote_log_tablet_dir, segments, info.first_start_pos)


def ahead(chunks: Iterator[LogChunk]) -> Iterator[LogChunk]:
    """Yields the same chunks; a thread fetches the next one while the caller works on one."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="fluss-fetch")
    try:
        following = pool.submit(next, chunks, None)
        while (chunk := following.result()) is not None:
            following = pool.submit(next, chunks, None)
            yield chunk
    finally:
        # A caller that stops early does not wait for the outstanding answer.
        pool.shutdown(wait=False, cancel_futures=True)
