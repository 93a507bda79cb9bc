"""The description of written files that an executor sends to the driver: JSON compressed with zstd, version 1, some 200 bytes a file."""

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

    `bounds`: lowest value, highest value and number of nulls by column, where they are known. Sequence numbers order the rows of a bucket:
    in a log table they are the offsets of the file's first and last row.
    """

    folder: str
    name: str
    size_bytes: int
    records: int
    min_sequence: int
    max_sequence: int
    bounds: dict[str, tuple[int | None, int | None, int]] = field(default_factory=dict)
    keys: str = ""
    """For a primary-key table: first and last key, lowest and highest value of each key column (`pack_keys`)."""
    deletes: int = 0
    """For a primary-key table: number of rows that delete another row."""
    is_changelog: bool = False
    """Whether the file has all changes, for readers that follow the table."""

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True)
class FilesPayload:
    """The files of one split, and the table, partition and bucket for which they were written."""

    lake_table_uuid: str
    schema_id: int
    partition: tuple[str, ...]
    bucket: int
    """Paimon's bucket number."""
    total_buckets: int
    files: tuple[WrittenFile, ...] = ()
    base_sequence: int | None = None
    """For a primary-key table: the highest sequence number in the bucket before the split (-1 = none); None = the split changes no key."""
    replaces: bool = False
    """Whether all files of the bucket are removed."""
    removed: tuple[str, ...] = ()
    """Names of data files to remove; their remaining rows are in `files`."""
    is_compacted: bool = False
    """Whether `files` replace `removed` with the same rows, in a snapshot of kind COMPACT."""
    level: int = 0
    """For a primary-key table: the level of `files` in the merge tree."""


def encode_files(payload: FilesPayload) -> bytes:
    """Encodes `payload` as bytes, deterministically."""
    document = {"version": PAYLOAD_VERSION, **asdict(payload)}
    return zstandard.ZstdCompressor().compress(json.dumps(document, separators=(",", ":")).encode("ascii"))


def decode_files(data: bytes) -> FilesPayload:
    """Decodes a payload. Raises ValueError naming an unknown version."""
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
    """Encodes the rows of `keys`, of any key type, as text."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, keys.schema) as stream:
        stream.write_table(keys)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def unpack_keys(text: str) -> pa.Table:
    """Decodes the text of `pack_keys`."""
    return pa.ipc.open_stream(base64.b64decode(text)).read_all()


def _file(entry: dict[str, Any]) -> WrittenFile:
    bounds = {name: (low, high, nulls) for name, (low, high, nulls) in entry["bounds"].items()}
    return WrittenFile(**{**entry, "bounds": bounds})
