"""Streaming reads of the Spark data source `lakeward`: `spark.readStream.format("lakeward").option("table", "db.t").load()`.

Spark runs one Python process on the driver for each query. It calls `latestOffset` and `partitions` of one StreamReader; executors run
`read`. After a restart Spark first calls `partitions` with an empty range at the offset of the checkpoint.

Options beside those of `spark_source`: `startingOffsets`, `maxRecordsPerTrigger`, `failOnDataLoss`, `ignoreDeletes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tiering.union_read.spark_source import TABLE, URI, ReadPartition, read_options, table_and_part
from tiering.union_read.spark_tasks import errors_for_spark, rows_of_task

if TYPE_CHECKING:
    import pyarrow as pa

    from tiering.union_read.streams.client import StreamClient

STARTING_OFFSETS, MAX_RECORDS = "startingOffsets", "maxRecordsPerTrigger"
FAIL_ON_DATA_LOSS, IGNORE_DELETES = "failOnDataLoss", "ignoreDeletes"
"""Names of the options."""

Offset = dict[str, Any]


class StreamReader(DataSourceStreamReader):
    """Plans batches on the driver; reads the rows of one task on an executor."""

    def __init__(self, options: Mapping[str, str], columns: list[str]) -> None:
        self._client = stream_client(options)
        self._max_records = _natural(options, MAX_RECORDS)
        self._columns = columns
        self._end: str | None = None
        """The end of the last planned batch; None = this process has planned none, and the stream may be new."""

    def initialOffset(self) -> Offset:
        """Returns a constant: the end of the first batch tells where the stream begins, because Spark stores only that."""
        from tiering.union_read.streams.offsets import BEGINNING

        return _fields(BEGINNING)

    def latestOffset(self) -> Offset:
        """Returns the end of the next batch."""
        with errors_for_spark():
            return _fields(self._client.next_batch(self._end, self._max_records))

    def partitions(self, start: Offset, end: Offset) -> list[ReadPartition]:
        """Returns the tasks of a batch; none for an empty range, with which Spark tells the offset of the checkpoint."""
        from tiering.union_read.streams.offsets import BEGINNING

        self._end = _text(end) if _text(end) != BEGINNING else None
        if start == end:
            return []
        with errors_for_spark():
            tasks = self._client.plan_batch(_text(start), _text(end), self._columns)
        return [ReadPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""
        assert isinstance(partition, ReadPartition)
        return rows_of_task(partition.task)


def stream_client(options: Mapping[str, str]) -> StreamClient:
    """Returns the client for the options of a stream. Raises InvalidArgument."""
    from tiering.model.reading.scans import ReadPart
    from tiering.union_read.streams.batches import StreamOptions
    from tiering.union_read.streams.client import StreamClient
    from tiering.union_read.streams.planning import EARLIEST

    basic = read_options(options)
    path, part = table_and_part(basic[TABLE])
    stream = StreamOptions(
        path,
        options.get(STARTING_OFFSETS) or EARLIEST,
        changelog=part is ReadPart.CHANGELOG,
        fail_on_data_loss=_flag(options, FAIL_ON_DATA_LOSS),
        ignore_deletes=_flag(options, IGNORE_DELETES),
    )
    return StreamClient(basic[URI], stream, uuid4().hex)


def _natural(options: Mapping[str, str], name: str) -> int | None:
    from tiering.errors import InvalidArgument
    from tiering.model.sql_types import BIGINTS

    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < BIGINTS.stop:
        raise InvalidArgument(f"the option {name!r} is {text!r}, and must be a whole number from 1 to {BIGINTS.stop - 1}")
    return int(text)


def _flag(options: Mapping[str, str], name: str) -> bool:
    from tiering.errors import InvalidArgument

    text = options.get(name, "false")
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f"the option {name!r} is {text!r}, and must be true or false")
    return text.lower() == "true"


def _fields(text: str) -> Offset:
    fields: Offset = json.loads(text)
    return fields


def _text(fields: Offset) -> str:
    """Returns the JSON as the service writes it."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))
