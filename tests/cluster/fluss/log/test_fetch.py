"""The next chunk is fetched while one is worked on, and no more than that one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tiering.cluster.fluss.log.batches import LogPlace
from tiering.cluster.fluss.log.fetch import ahead
from tiering.cluster.fluss.log.rows import LogChunk
from tiering.errors import ClusterUnavailable
from tiering.model.tables import BucketKey, TablePath

PLACE = LogPlace(TablePath("sales", "orders"), BucketKey(None, 0), "127.0.0.1:9123")
WAIT_S = 20.0


class Source:
    """Chunks of some number of bytes; remembers which were fetched."""

    def __init__(self, count: int, fails: bool = False) -> None:
        self._count = count
        self._fails = fails
        self.fetched = [threading.Event() for _ in range(count)]

    def chunks(self) -> Iterator[LogChunk]:
        for number in range(self._count):
            self.fetched[number].set()
            yield LogChunk(pa.py_buffer(bytes(number)), [], PLACE)
        if self._fails:
            raise ClusterUnavailable("it went away")


def test_the_next_chunk_is_fetched_while_the_caller_has_one() -> None:
    source = Source(4)
    chunks = ahead(source.chunks())
    assert len(next(chunks).data) == 0
    assert source.fetched[1].wait(WAIT_S)
    assert not source.fetched[2].is_set()
    assert [len(chunk.data) for chunk in chunks] == [1, 2, 3]


def test_what_came_before_an_error_is_worked_on_first() -> None:
    chunks = ahead(Source(2, fails=True).chunks())
    assert [len(next(chunks).data), len(next(chunks).data)] == [0, 1]
    with pytest.raises(ClusterUnavailable, match="it went away"):
        next(chunks)


def test_nothing_more_is_fetched_for_a_caller_that_stopped() -> None:
    source = Source(4)
    chunks = ahead(source.chunks())
    next(chunks)
    assert source.fetched[1].wait(WAIT_S)
    chunks.close()  # type: ignore[attr-defined]  # a generator
    assert not source.fetched[2].is_set()


def test_nothing_to_fetch_is_nothing_to_read() -> None:
    assert list(ahead(Source(0).chunks())) == []
