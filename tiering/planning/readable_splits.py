"""Finds the splits of a plan that can be read. A bucket whose KV state refuses a record ends before that record. Pure."""

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
    """The splits with their readers, and the buckets that end before the end of their log."""

    splits: Sequence[tuple[TieringLogSplit, ReaderT]]
    stopped: Mapping[BucketKey, BucketStopped]


def readable_splits(splits: Sequence[TieringLogSplit], reader: Callable[[TieringLogSplit], ReaderT]) -> ReadableSplits[ReaderT]:
    """Returns the splits with their readers. Of a bucket with a refused record, it returns the part before the record and no later splits.
    Raises the errors of `reader`, except for refused records."""
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
