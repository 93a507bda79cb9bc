"""The program that Spark's Python processes of executors run for the catalog plugin (catalog/.../fresh/PythonRunner.java).

The module is light on import: each Python process of an executor imports it before its first task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from tiering.error_text import error_text

if TYPE_CHECKING:
    import pyarrow as pa


class ReadFailed(Exception):
    """An error of Lakeward as Spark shows it: `[error class] message Hint: hint`."""


@contextmanager
def errors_for_spark(kind: type[Exception] = ReadFailed) -> Iterator[None]:
    """Raises errors of `tiering.errors` in the block as `kind`, without the frames and causes that Spark would print."""
    from tiering.errors import LakewardError

    try:
        yield
    except LakewardError as error:
        raise kind(error_text(error.error_class, error.message, error.hint)) from None


def rows_of_task(task: bytes) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a task on an executor. Raises ReadFailed."""
    from tiering.library_guards.spark_process import between_tasks
    from tiering.union_read.task_codec import decode

    with between_tasks(), errors_for_spark():
        yield from decode(task).read()


def read_command(schema: str) -> tuple[Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], StructType]:
    """Returns the function that reads the rows of a task, and the type of the rows. `schema` is the JSON of the type."""
    import json

    return read_task, StructType.fromJson(json.loads(schema))


def read_task(task: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one task, whose bytes are the only value of `task`. Raises ReadFailed."""
    [data] = [value.as_py() for batch in task for value in batch.column(0)]
    yield from rows_of_task(data)
