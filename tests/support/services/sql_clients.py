"""SQL clients that run statements one after the other and go on after an error: the spark-sql shell, beeline, a JDBC connection,
and Python programs with a session `spark`. Each gives an answer a statement."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.repository import ROOT
from support.services.client_statements import Answer, Rows

PATIENCE_S = 180
MARKER = re.compile(r"^--- [0-9]+$", re.MULTILINE)
COMMANDS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
"""The PATH of a user who has activated the environment."""


def run(command: str, folder: Path, *further: str) -> str:
    """Runs a shell command in `folder`; everything it printed, errors among it. Fails the test if it does not end by itself."""
    words = " ".join([command.strip(), *(shlex.quote(word) for word in further)])
    environment = {**os.environ, "PATH": COMMANDS, "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(
        ["bash", "-c", words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return ended.stdout


def ask_shell(command: str, folder: Path, statements: Sequence[str]) -> list[Answer]:
    """Through the spark-sql shell that `command` starts."""
    file = folder / "statements.sql"
    file.write_text("".join(f"{line};\n" for line in _marked(statements)))
    options = ("--conf", "spark.log.level=ERROR", "--conf", "spark.sql.cli.print.header=true")
    printed = run(command, folder, *options, "--hiveconf", "hive.cli.errors.ignore=true", "-f", str(file))
    return [_shell_answer(text) for text in _pieces(printed, len(statements))]


def _shell_answer(text: str) -> Answer:
    table, ended, _ = text.partition("Time taken: ")
    return _table(table) if ended else text


def ask_beeline(command: str, folder: Path, statements: Sequence[str]) -> list[Answer]:
    """Through the beeline that `command` starts."""
    words = [word for line in _marked(statements) for word in ("-e", f"{line};")]
    printed = run(command, folder, "--silent=true", "--force=true", "--outputformat=tsv2", *words)
    return [text if text.startswith("Error: ") else _table(text) for text in _pieces(printed, len(statements))]


def _marked(statements: Sequence[str]) -> list[str]:
    return [line for number, sql in enumerate(statements) for line in (f"SELECT '--- {number}' AS marker", sql)]


def _pieces(printed: str, number: int) -> list[str]:
    """Returns the output between a statement's marker and the next one's."""
    pieces = [_without_marker_query(text) for text in MARKER.split(printed)[1:]]
    assert len(pieces) == number, printed[-4_000:]
    return pieces


def _without_marker_query(text: str) -> str:
    text = re.sub(r"\A\n(Time taken: .*\n)?", "", text)  # of the marker before
    return re.sub(r"^marker\n\Z", "", text, flags=re.MULTILINE)  # of the marker behind


def _table(text: str) -> Rows:
    header, *lines = text.rstrip("\n").split("\n")
    return Rows(_cells(header), tuple(_cells(line) for line in lines))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("\t"))  # the shell pads what DESCRIBE prints


ASK_SPARK = """
import json
import sys

sys.path.append(sys.argv[2])
from support.sql_examples import cell_text


def answer(sql):
    try:
        rows = spark.sql(sql)
        return {"columns": rows.columns, "cells": [[cell_text(cell) for cell in row] for row in rows.collect()]}
    except Exception as error:
        return str(error)


print(json.dumps([answer(sql) for sql in json.load(open(sys.argv[1]))]))
"""


def ask_python(program: str, folder: Path, statements: Sequence[str]) -> tuple[str, list[Answer]]:
    """Through the session `spark` of a Python program; also what the program itself printed."""
    (folder / "program.py").write_text(f"{program}\n{ASK_SPARK}")
    (folder / "statements.json").write_text(json.dumps(list(statements)))
    printed = run(f"python program.py statements.json {ROOT / 'tests'}", folder)
    own, _, answers = printed.rstrip().rpartition("\n")
    assert answers.startswith("["), printed[-4_000:]
    return own, [_from_json(answer) for answer in json.loads(answers)]


def _from_json(answer: Any) -> Answer:
    return answer if isinstance(answer, str) else Rows(tuple(answer["columns"]), tuple(tuple(row) for row in answer["cells"]))


def ask_jdbc(connection: Any, statements: Sequence[str]) -> list[Answer]:
    """Through a `java.sql.Connection` of a py4j gateway."""
    return [_caught(lambda sql=sql: result_rows(connection.createStatement().executeQuery(sql))) for sql in statements]


def result_rows(result: Any) -> Rows:
    """All of a `java.sql.ResultSet`."""
    about = result.getMetaData()
    columns = range(1, about.getColumnCount() + 1)
    cells = []
    while result.next():
        cells.append(tuple("NULL" if (cell := result.getString(column)) is None else str(cell) for column in columns))
    return Rows(tuple(about.getColumnLabel(column) for column in columns), tuple(cells))


def _caught(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    except Exception as error:  # py4j has one class for all that Java throws
        return str(error)
