"""The program that Python processes of executors run for the plugin."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from tiering.union_read.spark_source import ReadPartition
from tiering.union_read.spark_tasks import ReadFailed, read_command
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


def test_the_text_of_a_partition_has_no_byte_of_its_task() -> None:
    assert repr(ReadPartition(b"secret")) == "ReadPartition(6 bytes)"


@pytest.mark.parametrize("version", ["3.5.6", "4.0.1"])
def test_with_an_older_pyspark_the_data_source_names_the_version_that_it_needs(tmp_path: Path, version: str) -> None:
    """PySpark 3.5 has no data sources in Python; those of 4.0 take no filters."""
    (tmp_path / "pyspark" / "sql").mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (tmp_path / "pyspark" / "sql" / "__init__.py").touch()
    if version.startswith("4."):
        (tmp_path / "pyspark" / "sql" / "datasource.py").write_text("class DataSource: ...\n")

    ended = subprocess.run(
        [sys.executable, "-c", "import tiering.union_read.pyspark_lakeward"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    last_line = ended.stderr.rstrip().rpartition("\n")[2]
    assert last_line == (
        f"ImportError: the data source 'lakeward' needs PySpark 4.1 or newer, and this Python has PySpark {version}: "
        "pip install 'pyspark==4.1.*'"
    )
