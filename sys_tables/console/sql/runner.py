"""Runs statements, each in a process that ends after a while. The rows of system tables are read here, as the caller of the page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sys_tables.console.sql.messages import ANSWER, ERROR, READ, read_message, write_message
from sys_tables.console.sql.statements import MAX_CHARACTERS, too_long
from sys_tables.registry import Registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.child_process import module_command
from tiering.errors import StatementFailed
from tiering.model.names import SYSTEM_DATABASE

STATEMENT_SECONDS = 10.0
START_SECONDS = 60.0
"""Most time that the process may need before it gets its statement, on a machine with other work."""
MAX_ROWS = 500
MAX_READ_BYTES = 128 << 20
"""Most bytes of system tables that a statement may read: 10,000 tables with all columns of their status have a tenth of it."""
_CHILD = "sys_tables.console.sql.child"
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
"""Variables that the process gets. It gets none that may be a secret."""


class Streams(Protocol):
    """The part of `SystemCatalog` that reads for statements."""

    def stream(self, request: pb.ReadTableRequest) -> bytes:
        """Returns the rows of a read as an Arrow stream. Raises the errors of the service."""


@dataclass(frozen=True)
class SqlAnswer:
    """The rows of a statement by position; times are datetimes. `has_more`: the answer has further rows, which are not returned."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    has_more: bool


class StatementRunner:
    """Runs one statement at a time in each thread. Its methods block."""

    def __init__(self, streams: Streams, registry: Registry, seconds: float = STATEMENT_SECONDS) -> None:
        self._streams = streams
        self._registry = registry
        self._seconds = seconds

    def run(self, statement: str) -> SqlAnswer:
        """Returns the answer of a statement. Raises StatementFailed, and the errors of the service."""
        if len(statement) > MAX_CHARACTERS:
            raise too_long(statement)
        with tempfile.TemporaryDirectory(prefix="lakeward-sql-") as folder:  # a process that is killed leaves its own temporary files
            return self._run(statement, folder)

    def _run(self, statement: str, folder: str) -> SqlAnswer:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"TMPDIR": folder}
        pipe = subprocess.PIPE
        command = module_command(_CHILD)
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment, cwd="/") as process:
            backstop = threading.Timer(self._seconds + START_SECONDS, process.kill)
            backstop.start()
            try:
                answer = self._answer(process, statement)
                if answer is None:
                    process.wait()
            except (BrokenPipeError, ConnectionResetError):
                answer = None
                process.wait()
            finally:
                backstop.cancel()
                process.kill()
        if answer is not None:
            return answer
        if process.returncode == -signal.SIGALRM:
            raise StatementFailed(f"the statement was ended after {self._seconds:g} s", hint="Read fewer rows, or use `lakeward sql`.")
        raise StatementFailed("the process of the statement has ended", hint="Did it need too much memory? Read fewer rows or columns.")

    def _answer(self, process: subprocess.Popen[bytes], statement: str) -> SqlAnswer | None:
        """Returns the answer; None for a process that ended without one."""
        assert process.stdin is not None
        assert process.stdout is not None
        write_message(process.stdin, json.dumps({"statement": statement, "max_rows": MAX_ROWS, "seconds": self._seconds}).encode())
        left = MAX_READ_BYTES
        while (message := read_message(process.stdout)) is not None:
            kind, body = message[:1], message[1:]
            if kind == READ:
                rows = self._rows(body)
                left -= len(rows)
                if left < 0:
                    raise StatementFailed("the statement reads too many rows", hint="Add conditions, or name fewer columns.")
                write_message(process.stdin, rows)
            elif kind == ANSWER:
                return _decoded(body)
            elif kind == ERROR:
                error = json.loads(body)
                raise StatementFailed(error["message"], hint=error["hint"])
        return None

    def _rows(self, body: bytes) -> bytes:
        """Returns the rows that the process asks for. It may only ask for system tables, however the statement made it ask."""
        request = pb.ReadTableRequest.FromString(body)
        if request.namespace != SYSTEM_DATABASE:
            raise StatementFailed(f"only tables of {SYSTEM_DATABASE} are read here")
        self._registry.table(request.name)
        return self._streams.stream(request)


def _decoded(body: bytes) -> SqlAnswer:
    answer = json.loads(body)
    rows = [[datetime.fromisoformat(cell["time"]) if isinstance(cell, dict) else cell for cell in row] for row in answer["rows"]]
    return SqlAnswer(answer["columns"], rows, answer["has_more"])
