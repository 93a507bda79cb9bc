"""The program that Spark's Python processes of executors run for a statement that writes (catalog/.../fresh/PythonRunner.java).

The module is light on import: each Python process of an executor imports it before its first task.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import LongType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN = "rows"
"""The only column of a task's answer: the number of rows that it has written. PythonRunner.java has it, too."""


class WriteFailed(Exception):
    """An error of Lakeward as Spark shows it: `[error class] message Hint: hint`."""


def write_command(work: str) -> tuple[Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], StructType]:
    """Returns the function that writes the rows of a task, and the type of its answer. `work`: an ExecutorWrite in base64."""
    data = base64.b64decode(work)

    def write(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield write_rows(data, rows)

    return write, StructType([StructField(WRITTEN, LongType(), nullable=False)])


def write_rows(data: bytes, rows: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Writes the rows of this Spark task, and returns its answer. Raises WriteFailed."""
    import pyarrow as pa
    from pyspark import TaskContext

    from tiering.library_guards.spark_input import whole_input
    from tiering.library_guards.spark_process import between_tasks
    from tiering.table_writes.tasks import run_task
    from tiering.union_read.spark_tasks import errors_for_spark

    task = TaskContext.get()
    assert task is not None
    with between_tasks(), errors_for_spark(WriteFailed):
        written = run_task(data, task.partitionId(), whole_input(rows))
    return pa.RecordBatch.from_pydict({WRITTEN: pa.array([written], pa.int64())})
