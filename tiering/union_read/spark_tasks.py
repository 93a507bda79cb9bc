"""The program that Spark's Python processes of executors run for the catalog plugin (catalog/.../fresh/PythonRunner.java).

The module is light on import: each Python process of an executor imports it before its first task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa


def read_command(schema: str) -> tuple[Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], StructType]:
    """Returns the function that reads the rows of a task, and the type of the rows. `schema` is the JSON of the type."""
    import json

    return read_task, StructType.fromJson(json.loads(schema))


def read_task(task: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one task, whose bytes are the only value of `task`. Raises ReadFailed."""
    from tiering.union_read.spark_source import rows_of_task

    [data] = [value.as_py() for batch in task for value in batch.column(0)]
    yield from rows_of_task(data)
