"""Paimon's Java library: PaimonQuestions in a JVM answers all questions, and its answers become Arrow tables."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon.schema.data_types import DataField, PyarrowFieldParser

from support.fluss_paimon.plugin import JARS, java_class_path
from support.java_sources import compiled_jar
from support.readers.kinds import SECONDS
from support.readers.questions import Answer, Question
from tiering.cli.fluss_server.java_process import JVM_OPTIONS
from tiering.cli.spark.java import require_java

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_HOME = Path(__file__).parent
_VERSION = next(jar.version for jar in JARS if jar.artifact == "paimon-bundle")


@dataclass(frozen=True)
class JavaReader:
    """`warehouse`: the folder of the lake."""

    warehouse: str
    name: str = "paimon-java"
    title: str = f"Paimon {_VERSION} (Java)"

    def answers(self, questions: Sequence[Question]) -> list[Answer]:
        return [_answer(answer) for answer in self._run([question.to_json() for question in questions])]

    def compact(self, table: str, buckets: int) -> None:
        """Has Paimon write the files of each bucket as one."""
        assert self._run([{"compact": table, "buckets": buckets}]) == [{}]

    def _run(self, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        libraries = java_class_path()
        class_path = f"{libraries}:{compiled_jar(_HOME / 'java', libraries, _HOME / 'target' / 'paimon-questions.jar')}"
        command = [require_java(), *JVM_OPTIONS, "-Xmx512m", "-cp", class_path, "io.lakeward.testing.PaimonQuestions", self.warehouse]
        lines = "".join(f"{json.dumps(request)}\n" for request in requests)
        ended = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert ended.returncode == 0, ended.stderr[-2_000:]
        return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def _answer(answer: dict[str, Any]) -> Answer:
    if "error" in answer:
        return str(answer["error"])
    schema = PyarrowFieldParser.from_paimon_schema([DataField.from_dict(field) for field in answer["fields"]])
    columns = [[_value(field.type, row[place]) for row in answer["rows"]] for place, field in enumerate(schema)]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], names=schema.names)


def _value(kind: Any, value: Any) -> Any:
    """Returns the value in the form that Arrow accepts for the type `kind`. PaimonQuestions has the JSON form of values."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return base64.b64decode(value)
    if pa.types.is_timestamp(kind):
        return value // MICROSECONDS[kind.unit]
    if pa.types.is_list(kind):
        return [_value(kind.value_type, element) for element in value]
    if pa.types.is_map(kind):
        return [(_value(kind.key_type, key), _value(kind.item_type, item)) for key, item in value]
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type, part) for field, part in zip(kind, value, strict=True)}
    return value
