"""Data files as Iceberg describes them: made from what a Parquet writer knows, and carried between processes.

The only module that uses helpers of pyiceberg outside of its documented API: statistics from Parquet metadata.

Between processes a split's files travel as zstd-compressed JSON, version 2: some 600 bytes a file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.parquet as pq
import zstandard
from pyiceberg.io.pyarrow import (
    StatisticsCollector,
    StatsAggregator,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

PAYLOAD_VERSION = 2
UNSORTED = 0
"""Sort order id of the files: Fluss's writers say so too, though rows lie in the order of their offsets."""

_NUMBERS = ("column_sizes", "value_counts", "null_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class FilesPayload:
    """The files of one split, with what they were written for. `schema_id` and `spec_id` are those of the table then."""

    lake_table_uuid: str
    schema_id: int
    spec_id: int
    files: tuple[DataFile, ...]


class DataFileBuilder:
    """Makes the `DataFile`s of one partition value of one table."""

    def __init__(self, schema: Schema, properties: dict[str, str], spec_id: int, partition: Sequence[int | str]) -> None:
        self._plan: dict[int, StatisticsCollector] = compute_statistics_plan(schema, properties)
        self._paths = parquet_path_to_id_mapping(schema)
        self._spec_id = spec_id
        self._partition = tuple(partition)

    def build(self, location: str, size_bytes: int, metadata: pq.FileMetaData) -> DataFile:
        """The description of a closed file, with counts and bounds of its columns."""
        statistics = data_file_statistics_from_parquet_metadata(metadata, self._plan, self._paths)
        unbounded = _unbounded(metadata, self._paths)
        bounded = {field: one for field, one in statistics.column_aggregates.items() if field not in unbounded and _fits_utf8(one)}
        statistics = replace(statistics, column_aggregates=bounded)
        return _data_file(location, size_bytes, self._spec_id, self._partition, statistics.to_serialized_dict())


def encode_files(payload: FilesPayload) -> bytes:
    """`payload` as bytes, deterministic."""
    document = {
        "version": PAYLOAD_VERSION,
        "lake_table_uuid": payload.lake_table_uuid,
        "schema_id": payload.schema_id,
        "spec_id": payload.spec_id,
        "files": [_to_json(file) for file in payload.files],
    }
    return zstandard.ZstdCompressor().compress(json.dumps(document, separators=(",", ":")).encode("ascii"))


def decode_files(data: bytes) -> FilesPayload:
    """The inverse; raises ValueError naming a version it does not know."""
    try:
        document = json.loads(zstandard.ZstdDecompressor().decompress(data))
    except zstandard.ZstdError as error:
        raise ValueError(f"a write result's files cannot be decompressed: {error}") from error
    if document["version"] != PAYLOAD_VERSION:
        raise ValueError(f"a write result's files have version {document['version']!r}; this Lakeward reads version {PAYLOAD_VERSION}")
    spec_id = document["spec_id"]
    files = tuple(_from_json(file, spec_id) for file in document["files"])
    return FilesPayload(document["lake_table_uuid"], document["schema_id"], spec_id, files)


def _unbounded(metadata: pq.FileMetaData, paths: dict[str, int]) -> set[int]:
    """Columns with values in a row group that has no bounds for them: Parquet leaves out those of more than 4 KiB.

    pyiceberg takes the bounds of the other row groups for those of the file, and readers would skip rows that are in it.
    """
    found: set[int] = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for position in range(group.num_columns):
            column = group.column(position)
            known = column.statistics
            if known is None or (not known.has_min_max and known.num_values > 0):
                found.add(paths[column.path_in_schema])
    return found


def _fits_utf8(aggregate: StatsAggregator) -> bool:
    """pyiceberg shortens an upper bound by counting a character up, which after U+D7FF gives a surrogate: no text has it."""
    try:
        aggregate.max_as_bytes()
    except UnicodeEncodeError:
        return False
    return True


def _data_file(location: str, size_bytes: int, spec_id: int, partition: Sequence[int | str], statistics: dict[str, Any]) -> DataFile:
    file: DataFile = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        file_size_in_bytes=size_bytes,
        sort_order_id=UNSORTED,
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )
    file.spec_id = spec_id
    return file


def _to_json(file: DataFile) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": file.file_path,
        "size": file.file_size_in_bytes,
        "records": file.record_count,
        "partition": [file.partition[index] for index in range(len(file.partition))],
        "split_offsets": file.split_offsets,
    }
    for name in _NUMBERS:
        document[name] = list((getattr(file, name) or {}).items())
    for name in _BOUNDS:
        document[name] = [(field, base64.b64encode(value).decode("ascii")) for field, value in (getattr(file, name) or {}).items()]
    return document


def _from_json(document: dict[str, Any], spec_id: int) -> DataFile:
    statistics: dict[str, Any] = {name: dict(document[name]) for name in _NUMBERS}
    statistics |= {name: {field: base64.b64decode(value) for field, value in document[name]} for name in _BOUNDS}
    statistics |= {"record_count": document["records"], "split_offsets": document["split_offsets"], "nan_value_counts": {}}
    return _data_file(document["path"], document["size"], spec_id, document["partition"], statistics)
