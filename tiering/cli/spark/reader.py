"""Starts a Spark session that reads through the plugin, for `lakeward sql`, `doctor --spark` and the demo."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from tiering.cli.spark.properties import catalog_properties, plugin_jar
from tiering.errors import SetupError
from tiering.round.tasks.spark_session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = Path(__file__).parent / "log4j2.properties"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    # With Hive's catalog, a statement could create metastore_db and spark-warehouse in the user's folder.
    "spark.sql.catalogImplementation": "in-memory",
    # Results are small: the default of 200 tasks for each GROUP BY would only take time.
    "spark.sql.shuffle.partitions": "4",
}


def open_reader_spark(uri: str, name: str, *, master: str = "local[*]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Starts a session with `fluss` as its default catalog. `conf` overrides all properties. Raises SetupError without the jar.

    The plugin is on the driver's class path, which only a new JVM reads, so a process can start one such session.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # This logger repeats every failed statement with its Java stack as JSON on standard error.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    settings = {**_DEFAULTS, **catalog_properties(uri, plugin_jar(), default=True), **(conf or {})}
    settings[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={_QUIET.as_uri()} {settings.get(_JAVA_OPTIONS, '')}".strip()
    with TemporaryFile("w+b") as messages, _errors_to(messages):
        try:
            spark = start_session(master, name, settings)
        except Exception as error:
            messages.seek(0)
            tail = messages.read()[-2_000:].decode(errors="replace").strip()
            raise SetupError(
                f"Spark did not start: {error}\n{tail}", hint="`lakeward doctor` checks Java, Spark and the plugin."
            ) from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _errors_to(file: IO[bytes]) -> Iterator[None]:
    """Redirects the standard error of processes that the block starts to `file`, which hides the start-up messages of the JVM.

    Later errors of the JVM reach Python as exceptions.
    """
    sys.stderr.flush()
    saved_stderr = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved_stderr, 2)
        os.close(saved_stderr)
