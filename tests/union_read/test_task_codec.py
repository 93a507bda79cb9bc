"""The bytes of tasks: whole and in pieces, of this version alone, and nothing but the values of a task."""

from __future__ import annotations

import os
import pickle
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from tiering.errors import InvalidAnswer, PeerTooOld
from tiering.union_read import task_codec
from tiering.union_read.task_codec import PIECE_BYTES, TaskJoiner, decode, encode, pieces
from tiering.union_read.tasks import ReadTask


@dataclass(frozen=True)
class BytesReader:
    """A reader of some size in bytes."""

    content: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from ()


class Command:
    """An object whose pickle would run a command where it is read back."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("true",)


def with_body(task: ReadTask, body: object) -> bytes:
    """The bytes of a task, with another pickle."""
    data = encode(task)
    start = data.index(zlib.compress(pickle.dumps(task, protocol=5), 1))
    return data[:start] + zlib.compress(pickle.dumps(body, protocol=5), 1)


EMPTY = ReadTask((), ("id",))


def test_a_task_is_read_back() -> None:
    assert decode(encode(EMPTY)) == EMPTY


@pytest.mark.parametrize(
    "body", [Command(), os.path.join, random.Random(1), ReadTask((BytesReader(b""),), ())], ids=lambda body: type(body).__name__
)
def test_a_pickle_that_names_anything_else_is_refused(body: object) -> None:
    with pytest.raises(InvalidAnswer, match="is no part of a task"):
        decode(with_body(EMPTY, body))


def test_a_value_that_is_no_task_is_refused() -> None:
    with pytest.raises(InvalidAnswer, match="hold a dict"):
        decode(with_body(EMPTY, {}))


def test_a_task_of_another_version_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(EMPTY)
    monkeypatch.setattr(task_codec, "lakeward_version", lambda: "99.1")
    with pytest.raises(PeerTooOld, match=r"planned by Lakeward .* this Python has Lakeward 99\.1"):
        decode(data)


def test_bytes_that_are_cut_are_refused() -> None:
    data = encode(EMPTY)
    for length in range(len(data)):
        with pytest.raises((InvalidAnswer, PeerTooOld)):
            decode(data[:length])


@pytest.mark.parametrize("seed", range(20))
def test_tasks_of_any_size_travel_in_pieces_and_are_joined(seed: int) -> None:
    """A task may be larger than a piece: a large file with many deleted rows, or a bucket with many files."""
    generator = random.Random(seed)
    sizes = [generator.choice([0, 10, PIECE_BYTES // 3, PIECE_BYTES - 200, PIECE_BYTES, 3 * PIECE_BYTES]) for _ in range(6)]
    tasks = [ReadTask((BytesReader(generator.randbytes(size)),), (str(number),)) for number, size in enumerate(sizes)]
    joiner = TaskJoiner()

    for piece, continues in pieces(tasks):
        assert 0 < sum(map(len, piece)) <= PIECE_BYTES
        joiner.add(piece, continues)

    assert joiner.tasks == [encode(task) for task in tasks]
