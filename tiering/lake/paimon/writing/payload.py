"""What an executor tells the driver of the files that it wrote: JSON compressed by zstd, version 1, some 200 bytes a file."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import zstandard

PAYLOAD_VERSION = 1


@dataclass(frozen=True)
class WrittenFile:
    """A file of one bucket. `folder` is below the table's folder.

    `bounds`: by column the lowest and the highest value, and how many nulls there are, where they are known. Sequence numbers order
    the rows of a bucket: in a log table they are the offsets of its first and its last row.
    """

    folder: str
    name: str
    size_bytes: int
    records: int
    min_sequence: int
    max_sequence: int
    bounds: dict[str, tuple[int | None, int | None, int]] = field(default_factory=dict)
    keys: str = ""
    """Of a primary-key table: first and last key, lowest and highest value of each key column (`pack_keys`)."""
    deletes: int = 0
    """Of a primary-key table: rows that take another one away."""
    is_changelog: bool = False
    """Whether it holds all changes, for readers that follow the table."""

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True)
class FilesPayload:
    """The files of one split, with what they were written for."""

    lake_table_uuid: str
    schema_id: int
    partition: tuple[str, ...]
    bucket: int
    """Paimon's."""
    total_buckets: int
    files: tuple[WrittenFile, ...]
    base_sequence: int | None = None
    """Of a primary-key table: the highest sequence number that stood in the bucket (-1 = none); None = the split changes no key."""
    replaces: bool = False
    """Whether all that stands in the bucket goes."""
    removed: tuple[str, ...] = ()
    """Names of data files that go: what stays of their rows is in `files`."""
    is_compacted: bool = False
    """Whether `files` take the place of `removed` with the same rows, for a snapshot of the kind COMPACT."""
    level: int = 0
    """Of a primary-key table: the level of the merge tree that `files` belong to."""


def encode_files(payload: FilesPayload) -> bytes:
    """`payload` as bytes, deterministic."""
    document = {"version": PAYLOAD_VERSION, **asdict(payload)}
    return zstandard.ZstdCompressor().compress(json.dumps(document, separators=(",", ":")).encode("ascii"))


def decode_files(data: bytes) -> FilesPayload:
    """The inverse; raises ValueError naming a version it does not know."""
    try:
        document: dict[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(data))
    except zstandard.ZstdError as error:
        raise ValueError(f"a write result's files cannot be decompressed: {error}") from error
    version = document.pop("version")
    if version != PAYLOAD_VERSION:
        raise ValueError(f"a write result's files have version {version!r}; this Lakeward reads version {PAYLOAD_VERSION}")
    files = tuple(_file(entry) for entry in document["files"])
    names = {"partition": tuple(document["partition"]), "removed": tuple(document["removed"])}
    return FilesPayload(**{**document, **names, "files": files})


def pack_keys(keys: pa.Table) -> str:
    """The rows of `keys` as text: values of any type of key."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, keys.schema) as stream:
        stream.write_table(keys)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def unpack_keys(text: str) -> pa.Table:
    """The inverse."""
    return pa.ipc.open_stream(base64.b64decode(text)).read_all()


def _file(entry: dict[str, Any]) -> WrittenFile:
    bounds = {name: (low, high, nulls) for name, (low, high, nulls) in entry["bounds"].items()}
    return WrittenFile(**{**entry, "bounds": bounds})
