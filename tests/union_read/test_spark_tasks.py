"""The program that Python processes of executors run for the plugin."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from tiering.union_read.spark_source import ReadFailed
from tiering.union_read.spark_tasks import read_command
from tiering.union_read.task_codec import encode
from tiering.union_read.tasks import ReadTask

SCHEMA = StructType([StructField("id", LongType())])


def command_of_the_plugin(schema: StructType) -> bytes:
    """The pickle as `PythonRunner.command` writes it."""
    text = schema.json().encode()
    return b"\x80\x02ctiering.union_read.spark_tasks\nread_command\nX" + len(text).to_bytes(4, "little") + text + b"\x85R."


def test_the_command_of_the_plugin_loads_as_the_function_and_its_type() -> None:
    function, schema = pickle.loads(command_of_the_plugin(SCHEMA))

    assert (function, schema) == read_command(SCHEMA.json())
    assert schema == SCHEMA
    assert list(function([pa.record_batch([pa.array([encode(ReadTask((), ("id",)))])], ["task"])])) == []


def test_bytes_that_are_no_task_are_an_error_without_frames() -> None:
    function, _ = read_command(SCHEMA.json())

    with pytest.raises(ReadFailed, match=r"\[InvalidAnswer\]") as raised:
        list(function([pa.record_batch([pa.array([b"no task"])], ["task"])]))
    assert raised.value.__cause__ is None
