"""`CALL sys.validate_table`: DuckDB's proof in a child process, one at a time, and the history of what it said.

The service only waits: a caller that goes takes the child with it. How the child is started is the composition root's
business (`Validator`), for it knows the cluster's folder and the lake's properties.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import InvalidArgument
from tiering.library_guards.panics import contained
from tiering.model.tables import TablePath
from tiering.validate.results import CheckResult, Level


@dataclass(frozen=True)
class ValidateTable:
    """Arguments of `CALL sys.validate_table` (SYS.md)."""

    path: TablePath
    level: str
    snapshot_id: int | None
    caller: str


Validator = Callable[[ValidateTable, Callable[[subprocess.Popen[str]], None]], Sequence[CheckResult]]
"""Blocks until the child ended; hands it out as soon as it runs."""


class Validations:
    """On one event loop."""

    def __init__(self, table_records: TableRecords, validator: Validator | None) -> None:
        self._table_records = table_records
        self._validator = validator
        self._turn = asyncio.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="validate")

    async def run(self, call: ValidateTable) -> AsyncGenerator[str | CheckResult, None]:
        """Lines of progress, then a row a check. Closing it kills the child. Raises InvalidArgument and what the proof raises."""
        level = level_of(call.level)
        if self._validator is None:
            raise InvalidArgument("this service cannot validate: it has no folder of an embedded cluster")
        if self._turn.locked():
            yield "waits for another validation to end"
        async with self._turn:
            yield f"compares the lake table {call.path} with its log, level {level.value}"
            results = await self._child(call)
            with self._table_records.changing():
                self._table_records.put(validations=results)
        for one in results:
            yield one

    async def _child(self, call: ValidateTable) -> Sequence[CheckResult]:
        assert self._validator is not None
        children: list[subprocess.Popen[str]] = []
        gone = threading.Event()

        def started(child: subprocess.Popen[str]) -> None:
            children.append(child)
            if gone.is_set():  # the caller went while it was being started
                child.kill()

        work = asyncio.get_running_loop().run_in_executor(self._pool, partial(contained(self._validator), call, started))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            gone.set()
            for child in children:
                child.kill()
            await asyncio.wait([work])
            raise

    def close(self) -> None:
        """No more of them."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def level_of(text: str) -> Level:
    """The level by its name, in any case. Raises InvalidArgument."""
    try:
        return Level(text.lower())
    except ValueError as error:
        known = ", ".join(Level)
        raise InvalidArgument(f"{text!r} is not a level of validation", hint=f"Levels are {known}.") from error
