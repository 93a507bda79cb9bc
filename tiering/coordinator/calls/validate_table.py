"""`CALL sys.validate_table`: DuckDB's proof in a child process, one at a time, and the history of its results.

The service only waits; if the caller disconnects, it kills the child. The composition root starts the child (`Validator`), because it knows
the cluster's folder and the lake's properties.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tiering.coordinator.calls.effects import CallParts, Pool, effect_with_progress
from tiering.coordinator.requests import CallRequest
from tiering.errors import InvalidArgument
from tiering.model.call_results import Progress
from tiering.model.tables import TablePath
from tiering.validate.results import CheckResult, Level


@dataclass(frozen=True)
class ValidateTable(CallRequest[Sequence[CheckResult]]):
    """Arguments of the call (docs/reference.md). `level` is a name in any case. `snapshot_id` None: the newest lake snapshot."""

    procedure = "validate_table"
    result_class = Sequence[CheckResult]
    path: TablePath
    level: str
    snapshot_id: int | None = None


Validator = Callable[[ValidateTable, Callable[[subprocess.Popen[str]], None]], Sequence[CheckResult]]
"""Blocks until the child has ended. Passes the child to the callback as soon as it runs."""


@effect_with_progress(ValidateTable)
async def validate_table(parts: CallParts, request: ValidateTable) -> AsyncGenerator[Progress | Sequence[CheckResult], None]:
    """Yields one result per check. Closing it kills the child. Raises InvalidArgument and the errors of the proof."""
    level = level_of(request.level)
    if parts.validator is None:
        raise InvalidArgument("this service cannot validate: it has no data folder")
    if parts.validation_turn.locked():
        yield Progress("waits for another validation to end")
    async with parts.validation_turn:
        yield Progress(f"compares the lake table {request.path} with its log, level {level.value}")
        results = await _in_child(parts, parts.validator, request)
        with parts.table_records.changing():
            parts.table_records.put(validations=results)
    yield results


async def _in_child(parts: CallParts, validator: Validator, request: ValidateTable) -> Sequence[CheckResult]:
    children: list[subprocess.Popen[str]] = []
    disconnected = threading.Event()

    def started(child: subprocess.Popen[str]) -> None:
        children.append(child)
        if disconnected.is_set():  # the caller disconnected while the child started
            child.kill()

    work = parts.threads.run(Pool.VALIDATION, partial(validator, request, started))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        disconnected.set()
        for child in children:
            child.kill()
        await asyncio.wait([work])
        raise


def level_of(text: str) -> Level:
    """Returns the level with this name, in any case. Raises InvalidArgument."""
    try:
        return Level(text.lower())
    except ValueError as error:
        levels = ", ".join(Level)
        raise InvalidArgument(f"{text!r} is not a level of validation", hint=f"Levels are {levels}.") from error
