"""`CALL sys.validate_table`: DuckDB's proof in a child process, one at a time, and the history of its results.

The service only waits; if the caller disconnects, it kills the child. The composition root starts the child (`Validator`), because it knows
the cluster's folder and the lake's properties.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from tiering.coordinator.call_support.child_work import in_child
from tiering.coordinator.call_support.parts import CallParts
from tiering.errors import InvalidArgument
from tiering.procedures.base import Progress
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
        results = await in_child(parts, partial(parts.validator, request))
        with parts.table_records.changing():
            parts.table_records.put(validations=results)
    yield tuple(results)
