"""What stands in one bucket of a primary-key table: the live files of its partition, as the driver saw them at one head.

It travels to the bucket's writer as zstd-compressed JSON, version 1; no bytes = nothing stands there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import zstandard

VERSION = 1


@dataclass(frozen=True)
class StandingFile:
    """A live file. `records`: rows of a data file, dead ones included, or deletes of a delete file."""

    location: str
    records: int
    size_bytes: int


@dataclass(frozen=True)
class BucketBase:
    """The live files of one partition value at a snapshot. Equality deletes are those of others: they are only counted."""

    snapshot_id: int | None
    data: tuple[StandingFile, ...] = ()
    deletes: tuple[StandingFile, ...] = ()
    equality_deletes: tuple[StandingFile, ...] = ()

    def data_digest(self) -> str:
        """Names the set of data files: two bases have the same one if no data file came or went."""
        return _digest(self.data)

    def digest(self) -> str:
        """Names the set of all files."""
        return _digest((*self.data, *self.deletes, *self.equality_deletes))


NOTHING = BucketBase(None)


def encode_base(base: BucketBase) -> bytes:
    """`base` as bytes, deterministic."""
    document: dict[str, Any] = {"version": VERSION, "snapshot_id": base.snapshot_id}
    for name in ("data", "deletes", "equality_deletes"):
        document[name] = [(one.location, one.records, one.size_bytes) for one in getattr(base, name)]
    return zstandard.ZstdCompressor().compress(json.dumps(document, separators=(",", ":")).encode())


def decode_base(data: bytes) -> BucketBase:
    """The inverse; raises ValueError naming a version it does not know."""
    if not data:
        return NOTHING
    try:
        document = json.loads(zstandard.ZstdDecompressor().decompress(data))
    except zstandard.ZstdError as error:
        raise ValueError(f"the files of a bucket cannot be decompressed: {error}") from error
    if document["version"] != VERSION:
        raise ValueError(f"the files of a bucket have version {document['version']!r}; this Lakeward reads version {VERSION}")
    data_files, deletes, equality = (
        tuple(StandingFile(*one) for one in document[name]) for name in ("data", "deletes", "equality_deletes")
    )
    return BucketBase(document["snapshot_id"], data_files, deletes, equality)


def _digest(files: Iterable[StandingFile]) -> str:
    return hashlib.sha256("\n".join(sorted(one.location for one in files)).encode()).hexdigest()
