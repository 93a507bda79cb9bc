"""The Spark data source `lakeward`: `spark.read.format("lakeward").option("table", "db.t").load()`.

Spark creates the source and plans the read in Python processes of the driver; its executors run `UnionReader.read`. The module is light
on import, because Spark imports it once per session whether or not a statement uses it.

Options: `table` (`database.table`, or `database.table$changelog` for the records of its log), `uri` of the service (default: LAKEWARD_URI,
else the default address), and `keepFor`: how long the service keeps what a read needs, from its planning on (default: an hour). No process
of Spark lives as long as a read, so none could renew it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tiering.union_read.spark_tasks import errors_for_spark, rows_of_task

if TYPE_CHECKING:
    import pyarrow as pa

    from tiering.model.reading.conditions import Condition
    from tiering.model.reading.scans import ReadPart
    from tiering.model.tables import TablePath
    from tiering.union_read.read_client import ReadClient

NAME = "lakeward"
TABLE, URI, KEEP_FOR = "table", "uri", "keepFor"
"""Names of the options."""


class LakewardSource(DataSource):
    """The data source. Spark makes an object of it for each `load()`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Returns the columns of the source table. Raises the errors of the service."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        from tiering.model.reading.scans import ReadPart
        from tiering.union_read.changelog import CHANGELOG_COLUMNS

        with errors_for_spark():
            options = read_options(self.options)
            path, part = table_and_part(options[TABLE])
            with read_client(options[URI]) as client:
                read = client.open(path)
                client.close(read.ticket)
            added = CHANGELOG_COLUMNS if part is ReadPart.CHANGELOG else ()
            return from_arrow_schema(pa.schema([*added, *read.schema]), prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> UnionReader:
        from tiering.union_read.pushdown.spark_filters import is_filter_worker

        with errors_for_spark():
            kind = FilteringReader if is_filter_worker() else UnionReader
            return kind(read_options(self.options), schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from tiering.union_read.spark_stream import StreamReader

        with errors_for_spark():
            return StreamReader(self.options, schema.fieldNames())


class ReadPartition(InputPartition):
    """One Spark task: the bytes of a ReadTask."""

    def __init__(self, task: bytes) -> None:
        super().__init__(None)
        self.task = task

    def __repr__(self) -> str:
        """Leaves out the task, which may have keys of the lake's storage."""
        return f"{type(self).__name__}({len(self.task)} bytes)"


class UnionReader(DataSourceReader):
    """Plans the read on the driver; reads the rows of one task on an executor."""

    def __init__(self, options: Mapping[str, str], columns: list[str]) -> None:
        self._options = dict(options)
        self._columns = columns
        self._conditions: tuple[Condition, ...] = ()

    def partitions(self) -> list[ReadPartition]:
        """Fixes the lake snapshot and the log ends, and returns the tasks. Without rows there is one task without readers.

        The read stays open for `keepFor`: the Python process that planned it ends before the tasks run. A read without a task is closed.
        """
        from tiering.model.reading.scans import ReadScan
        from tiering.union_read.task_codec import encode
        from tiering.union_read.tasks import ReadTask

        with errors_for_spark(), read_client(self._options[URI]) as client:
            path, part = table_and_part(self._options[TABLE])
            read = client.open(path, keep_for_ms(self._options))
            tasks, _ = client.plan(read.ticket, ReadScan(part, tuple(self._columns), self._conditions))
            if not tasks:
                client.close(read.ticket)
        return [ReadPartition(task) for task in tasks or [encode(ReadTask((), ()))]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""
        assert isinstance(partition, ReadPartition)
        return rows_of_task(partition.task)


class FilteringReader(UnionReader):
    """A reader that also uses the filters of the statement."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Uses the filters to read less. Returns all of them, so that Spark filters again."""
        from tiering.union_read.pushdown.spark_filters import conditions_of

        self._conditions = conditions_of(filters)
        return filters


@contextmanager
def read_client(uri: str) -> Iterator[ReadClient]:
    """Yields a client of the service at `uri`."""
    from tiering.union_read.read_client import ReadClient
    from tiering.wire.channel import Connection

    with Connection(uri) as connection:
        yield ReadClient(connection, "python")


def table_and_part(name: str) -> tuple[TablePath, ReadPart]:
    """Returns the table that `database.table` or `database.table$changelog` names, and the rows that it means. Raises InvalidName."""
    from tiering.model.names import CHANGELOG_SUFFIX, parse_table_path
    from tiering.model.reading.scans import ReadPart

    table = name.removesuffix(CHANGELOG_SUFFIX)
    return parse_table_path(table), ReadPart.ROWS if table == name else ReadPart.CHANGELOG


def read_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Returns the options with their defaults. Raises InvalidArgument for a missing table, and for a `keepFor` that is no time."""
    from tiering.errors import InvalidArgument
    from tiering.model.reading.open_reads import UNRENEWED_TTL
    from tiering.wire.channel import DEFAULT_PORT

    if not options.get(TABLE):
        raise InvalidArgument(f"the data source {NAME!r} needs the option {TABLE!r}", hint='Write .option("table", "database.table").')
    uri = options.get(URI) or os.environ.get("LAKEWARD_URI") or f"127.0.0.1:{DEFAULT_PORT}"
    checked = {TABLE: options[TABLE], URI: uri, KEEP_FOR: options.get(KEEP_FOR) or f"{UNRENEWED_TTL.total_seconds():.0f} s"}
    keep_for_ms(checked)
    return checked


def keep_for_ms(options: Mapping[str, str]) -> int:
    """Returns the option `keepFor` in milliseconds. Raises InvalidArgument."""
    from tiering.durations import parse_duration_ms
    from tiering.errors import InvalidArgument

    milliseconds = parse_duration_ms(options[KEEP_FOR], KEEP_FOR)
    if not milliseconds:
        raise InvalidArgument(f"the option {KEEP_FOR!r} is 0", hint="Write how long a read may take, such as '3 h'.")
    return milliseconds
