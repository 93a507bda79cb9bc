"""Descriptions of data files for Iceberg: built from a Parquet writer's metadata, and carried between processes.

This is the only module that uses helpers of pyiceberg outside of its documented API: statistics from Parquet metadata.

Between processes a split's files take about 600 bytes a file.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import PlainSerializer, PlainValidator
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    StatsAggregator,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from tiering.lake.iceberg.schema.partition_values import FilePlace, PackedPartition, PartitionItem, partition_from_json, partition_to_json
from tiering.lake.writing.packed import Packed

UNSORTED = 0
"""Sort order id of files in no order of columns. Fluss's writers use it too, although rows are in the order of their offsets."""

PATH_FIELD_ID, POSITION_FIELD_ID = 2147483546, 2147483545
"""Field ids of `file_path` and `pos` in a position-delete file (Iceberg spec, "Reserved Field IDs")."""

_NUMBERS = ("column_sizes", "value_counts", "null_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class BucketChange:
    """A change of a primary-key table's bucket in addition to new files, and the base for which a split made it.

    `base_files` is a digest of the files in the bucket's place at `base_snapshot_id` (None = there was no snapshot): of the data files, or,
    if the bucket is `rewritten`, of data and delete files. The new files replace all of these. If some stay, because other buckets share
    the partition value or a former partition had it, they replace only the `obsolete` ones.
    """

    partition: PackedPartition
    base_snapshot_id: int | None
    base_files: str
    rewritten: bool
    obsolete: tuple[str, ...] = ()
    """Position-delete files whose deletes the new file takes over, and removed files of a rewritten bucket of which other files stay."""
    bucket: int | None = None
    """The bucket of `FilePlace`."""

    @property
    def place(self) -> FilePlace:
        """The place of the bucket's files."""
        return FilePlace(self.partition, self.bucket)


def _to_json(file: DataFile) -> dict[str, Any]:
    document: dict[str, Any] = {
        "content": file.content.value,
        "path": file.file_path,
        "size": file.file_size_in_bytes,
        "records": file.record_count,
        "partition": partition_to_json([file.partition[index] for index in range(len(file.partition))]),
        "split_offsets": file.split_offsets,
        "spec_id": file.spec_id,
        "sort_order_id": file.sort_order_id,
    }
    for name in _NUMBERS:
        document[name] = list((getattr(file, name) or {}).items())
    for name in _BOUNDS:
        document[name] = [(field, base64.b64encode(value).decode("ascii")) for field, value in (getattr(file, name) or {}).items()]
    return document


def _from_json(document: dict[str, Any]) -> DataFile:
    statistics: dict[str, Any] = {name: dict(document[name]) for name in _NUMBERS}
    statistics |= {name: {field: base64.b64decode(value) for field, value in document[name]} for name in _BOUNDS}
    statistics |= {"record_count": document["records"], "split_offsets": document["split_offsets"], "nan_value_counts": {}}
    content = DataFileContent(document["content"])
    place = document["spec_id"], partition_from_json(document["partition"])
    return _data_file(document["path"], document["size"], *place, statistics, content, document["sort_order_id"])


_PackedFile = Annotated[DataFile, PlainValidator(_from_json), PlainSerializer(_to_json)]


@dataclass(frozen=True)
class FilesPayload:
    """The files of one split, and the table for which they were written. `schema_id` and `spec_id` are those of the table at that time."""

    lake_table_uuid: str
    schema_id: int
    spec_id: int
    files: tuple[_PackedFile, ...]
    """Data files, and position-delete files of a primary-key table."""
    change: BucketChange | None = None
    """The change of a primary-key table's bucket, if the split changes any key."""
    deletes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For rewritten files: the delete files of their partition whose deletes were applied, and the data files that each of them names."""


_PACKED = Packed(FilesPayload, "a write result's files", version=7)
encode_files, decode_files = _PACKED.encode, _PACKED.decode


class DataFileBuilder:
    """Builds the `DataFile`s of one partition value of one table."""

    sort_order_id = UNSORTED
    """The sort order of the rows in each data file."""

    def __init__(self, schema: Schema, properties: dict[str, str], spec_id: int, partition: Sequence[PartitionItem]) -> None:
        self._plan: dict[int, StatisticsCollector] = compute_statistics_plan(schema, properties)
        self._paths = parquet_path_to_id_mapping(schema)
        self._spec_id = spec_id
        self._partition = tuple(partition)

    def build(self, location: str, size_bytes: int, metadata: pq.FileMetaData) -> DataFile:
        """Returns the description of a closed file, with counts and bounds of its columns."""
        unbounded = _unbounded(metadata, self._paths)
        plan = {**self._plan, **{field: _limited(self._plan[field], mode) for field, mode in unbounded.items() if field in self._plan}}
        statistics = data_file_statistics_from_parquet_metadata(metadata, plan, self._paths)
        aggregates = statistics.column_aggregates.items()
        bounded = {field: aggregate for field, aggregate in aggregates if field not in unbounded and _has_bounds(aggregate)}
        statistics = replace(statistics, column_aggregates=bounded)
        document = statistics.to_serialized_dict()
        return _data_file(location, size_bytes, self._spec_id, self._partition, document, sort_order_id=self.sort_order_id)

    def build_deletes(self, location: str, size_bytes: int, paths: Sequence[str], positions: npt.NDArray[np.int64]) -> DataFile:
        """Returns the description of a closed file that deletes `positions` of the files `paths`, which are sorted.

        Its bounds are not cut, because a reader that finds equal bounds takes them for the path of the only data file (Iceberg's
        `ContentFileUtil.referencedDataFile`).
        """
        count = len(positions)
        statistics: dict[str, Any] = {
            "record_count": count,
            "column_sizes": {},
            "value_counts": {PATH_FIELD_ID: count, POSITION_FIELD_ID: count},
            "null_value_counts": {PATH_FIELD_ID: 0, POSITION_FIELD_ID: 0},
            "nan_value_counts": {},
            "lower_bounds": _delete_bounds(paths[0], int(positions.min())),
            "upper_bounds": _delete_bounds(paths[-1], int(positions.max())),
            "split_offsets": None,
        }
        return _data_file(location, size_bytes, self._spec_id, self._partition, statistics, DataFileContent.POSITION_DELETES)


def _unbounded(metadata: pq.FileMetaData, paths: dict[str, int]) -> dict[int, MetricModeTypes]:
    """Returns the columns that have a row group with values but without readable bounds, and the statistics that each may have.

    Parquet leaves out bounds of more than 4 KiB. Python has no dates and times outside of the years 1 to 9999. pyiceberg would take the
    bounds of the other row groups for those of the file, and readers would skip rows of the file. Floats with NaN have no statistics at
    all, about which pyiceberg would warn for each file.
    """
    modes: dict[int, MetricModeTypes] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for position in range(group.num_columns):
            column = group.column(position)
            statistics = column.statistics
            if statistics is None:
                modes[paths[column.path_in_schema]] = MetricModeTypes.NONE
            elif (not statistics.has_min_max and statistics.num_values > 0) or not _is_readable(statistics):
                modes.setdefault(paths[column.path_in_schema], MetricModeTypes.COUNTS)
    return modes


def _is_readable(statistics: Any) -> bool:
    """Whether bounds of a row group are values that Python can represent."""
    try:
        _ = statistics.min, statistics.max
    except pa.ArrowNotImplementedError:  # decimals stored as integers, which pyiceberg reads in another way
        return True
    except (ValueError, OverflowError):  # a UnicodeDecodeError is a ValueError
        return False
    return True


def _limited(collector: StatisticsCollector, mode: MetricModeTypes) -> StatisticsCollector:
    """Returns `collector` without bounds: it then has no statistics, or only counts of values and nulls."""
    if collector.mode.type is MetricModeTypes.NONE:
        return collector
    return replace(collector, mode=MetricsMode(mode))


def _has_bounds(aggregate: StatsAggregator) -> bool:
    """Whether the bounds of a file can be serialized. pyiceberg shortens an upper bound by incrementing a character. After U+D7FF this
    gives a surrogate, which no text may have."""
    try:
        aggregate.min_as_bytes()
        aggregate.max_as_bytes()
    except (ValueError, ArithmeticError):
        return False
    return True


def _delete_bounds(path: str, position: int) -> dict[int, bytes]:
    return {PATH_FIELD_ID: path.encode(), POSITION_FIELD_ID: to_bytes(LongType(), position)}


def _data_file(
    location: str,
    size_bytes: int,
    spec_id: int,
    partition: Sequence[PartitionItem],
    statistics: dict[str, Any],
    content: DataFileContent = DataFileContent.DATA,
    sort_order_id: int | None = UNSORTED,
) -> DataFile:
    file: DataFile = DataFile.from_args(
        content=content,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        file_size_in_bytes=size_bytes,
        sort_order_id=sort_order_id if content is DataFileContent.DATA else None,  # the spec demands null for position deletes
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )
    file.spec_id = spec_id
    return file
