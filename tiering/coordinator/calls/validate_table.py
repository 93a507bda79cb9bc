"""`CALL sys.validate_table`: DuckDB's proof in a child process, one at a time, and the history of its results.

The service only waits; if the caller disconnects, it kills the child. The composition root starts the child (`Validator`), because it knows
the cluster's folder and the lake's properties.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from tiering.coordinator.call_support.parts import CallParts, Validator
from tiering.errors import InvalidArgument
from tiering.procedures.base import Pool, Progress
from tiering.procedures.validate_table import CheckResult, ValidateTable
from tiering.validate.results import level_of


async def validate_table(parts: CallParts, request: ValidateTable) -> AsyncGenerator[Progress | tuple[CheckResult, ...], None]:
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
    yield tuple(results)


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
