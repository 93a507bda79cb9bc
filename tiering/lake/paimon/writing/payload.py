"""The description of written files that an executor sends to the driver: some 200 bytes a file."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import pyarrow as pa

from tiering.lake.writing.packed import Packed


@dataclass(frozen=True)
class WrittenFile:
    """A file of one bucket. `folder` is below the table's folder.

    `bounds`: lowest value, highest value and number of nulls by column, where they are known. A DATE is its days since 1970-01-01.
    Sequence numbers order the rows of a bucket: in a log table they are the offsets of the file's first and last row.
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


_PACKED = Packed(FilesPayload, "a write result's files", version=2)
encode_files, decode_files = _PACKED.encode, _PACKED.decode


def pack_keys(keys: pa.Table) -> str:
    """Encodes the rows of `keys`, of any key type, as text."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, keys.schema) as stream:
        stream.write_table(keys)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def unpack_keys(text: str) -> pa.Table:
    """Decodes the text of `pack_keys`."""
    return pa.ipc.open_stream(base64.b64decode(text)).read_all()
