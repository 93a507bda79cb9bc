"""The engine `spark`: a Spark session in this process, with the plugin and the catalog `fluss`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from tiering.cli.spark.properties import LAKE_CATALOG
from tiering.cli.spark.reader import open_reader_spark
from tiering.cli.sql.engine import Result
from tiering.errors import StatementFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]

_HINT = "Hint: "
"""Prefix of the service's hint in messages of the plugin (ServiceErrors.java)."""
_NOISE = re.compile(r"\n(?:JVM stacktrace:|Driver stacktrace:|\tat |== DataFrame ==)")
_IN_LAKE = re.compile(rf"(?<![\w.`])(?:{LAKE_CATALOG}\b|`{LAKE_CATALOG}`)\s*\.", re.IGNORECASE)
_LAKE_HINT = f"Add --lake for the catalog `{LAKE_CATALOG}` of the lake. Run `lakeward fetch-jars` once before."
_PLAN = re.compile(r";\n(?=\S)")
"""The logical plan in the message of an AnalysisException begins after this."""


class SparkEngine:
    """Runs statements in one Spark session. Times are in the time zone of the session, which is UTC unless `conf` sets another one."""

    def __init__(self, uri: str, master: str, conf: Mapping[str, str]) -> None:
        self._spark = open_reader_spark(uri, "lakeward sql", master=master, conf=conf)

    def execute(self, statement: str) -> Result:
        """Runs a statement, see `Engine.execute`. System tables need no Spark job, because their rows are in the plan."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            frame = self._spark.sql(statement)
            columns, fields = frame.columns, frame.schema.fields
            if not columns:
                return Result((), ())
            zone = ZoneInfo(self._spark.conf.get("spark.sql.session.timeZone") or "UTC")
            convert = [converter(field.dataType, zone) for field in fields]
            return Result(columns, _collected(frame, convert))
        except PySparkException as error:
            raise failure(str(error), self._lake_hint(statement)) from error
        except Py4JJavaError as error:
            raise failure(_innermost(error), self._lake_hint(statement)) from error

    def _lake_hint(self, statement: str) -> str | None:
        return None if self._spark.conf.get(f"spark.sql.catalog.{LAKE_CATALOG}", None) else missing_lake_hint(statement)

    def close(self) -> None:
        """Stops Spark."""
        self._spark.stop()


def _collected(frame: DataFrame, convert: Sequence[Convert]) -> list[list[Any]]:
    """Returns all rows. If a year is not from 1 to 9999, which Python does not support, columns with times become Spark's text."""
    try:
        rows = frame.collect()
        return [[to_plain(value) for to_plain, value in zip(convert, row, strict=True)] for row in rows]
    except (ValueError, OverflowError):
        timed = [_has_times(field.dataType) for field in frame.schema.fields]
        unique = frame.toDF(*(f"c{number}" for number in range(len(timed))))
        columns = [unique[name].cast("string") if is_timed else unique[name] for name, is_timed in zip(unique.columns, timed, strict=True)]
        convert = [_as_it_is if is_timed else to_plain for to_plain, is_timed in zip(convert, timed, strict=True)]
        rows = unique.select(*columns).collect()
        return [[to_plain(value) for to_plain, value in zip(convert, row, strict=True)] for row in rows]


def _as_it_is(value: Any) -> Any:
    return value


def _has_times(kind: DataType) -> bool:
    """Returns whether a column has dates or times, at any depth."""
    return re.search(r"\b(date|timestamp|timestamp_ntz)\b", kind.simpleString()) is not None


def missing_lake_hint(statement: str) -> str | None:
    """Returns a hint for a failed statement that names the lake's catalog, in a session without this catalog."""
    return _LAKE_HINT if _IN_LAKE.search(statement) else None


def failure(message_text: str, own_hint: str | None = None) -> StatementFailed:
    """Returns Spark's error about a statement without plans and stacks, with the service's hint or else `own_hint`."""
    text = _NOISE.split(message_text.strip(), maxsplit=1)[0].rstrip()
    if "== SQL" not in text:
        text = _PLAN.split(text, maxsplit=1)[0]
    message, _, hint = text.partition(_HINT)
    return StatementFailed(message.strip(), hint=hint or own_hint)


def converter(kind: DataType, zone: tzinfo) -> Convert:
    """Returns a function that makes a collected value plain. PySpark returns timestamps in this machine's zone, without the zone."""
    from pyspark.sql import types

    match kind:
        case types.TimestampType():
            return _unless_null(lambda value: value.astimezone(zone))
        case types.ArrayType():
            element = converter(kind.elementType, zone)
            return _unless_null(lambda values: [element(value) for value in values])
        case types.MapType():
            key, item = converter(kind.keyType, zone), converter(kind.valueType, zone)
            return _unless_null(lambda entries: {key(name): item(value) for name, value in entries.items()})
        case types.StructType():
            fields = [(field.name, converter(field.dataType, zone)) for field in kind.fields]
            return _unless_null(lambda row: {name: convert(value) for (name, convert), value in zip(fields, row, strict=True)})
        case types.BinaryType():
            return _unless_null(bytes)
        case _:
            return lambda value: value


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _innermost(error: Any) -> str:
    """Returns the message of the innermost cause."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause.toString())
