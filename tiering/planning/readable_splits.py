"""Which of a plan's splits can be read: a bucket that stands at a record which its rows cannot take ends there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from tiering.errors import BucketStopped
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey

ReaderT = TypeVar("ReaderT")


@dataclass(frozen=True)
class ReadableSplits(Generic[ReaderT]):
    """The splits with their readers, and the buckets that cannot go on to the end of their log."""

    splits: Sequence[tuple[TieringLogSplit, ReaderT]]
    stopped: Mapping[BucketKey, BucketStopped]


def readable_splits(splits: Sequence[TieringLogSplit], reader: Callable[[TieringLogSplit], ReaderT]) -> ReadableSplits[ReaderT]:
    """Of a bucket that stands at a refused record the part before it, without its later splits. Raises what `reader` raises otherwise."""
    readable: list[tuple[TieringLogSplit, ReaderT]] = []
    stopped: dict[BucketKey, BucketStopped] = {}
    for split in splits:
        if split.bucket in stopped:
            continue
        try:
            readable.append((split, reader(split)))
        except BucketStopped as error:
            stopped[split.bucket] = error
            before = replace(split, stopping_offset=int(error.ids["offset"]))
            if before.stopping_offset > before.starting_offset:
                readable.append((before, reader(before)))
    return ReadableSplits(readable, stopped)
