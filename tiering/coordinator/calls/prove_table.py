"""`CALL sys.prove_table`: a validation at the level rows in a child process, and its proof, which this service signs.

It waits for the same turn as `validate_table`, and its checks are in the same history. The key never leaves the service's process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from tiering.coordinator.call_support.child_work import in_child
from tiering.coordinator.call_support.parts import CallParts
from tiering.errors import InvalidArgument
from tiering.procedures.base import Progress
from tiering.procedures.prove_table import ProveTable, ProveTableResult


async def prove_table(parts: CallParts, request: ProveTable) -> AsyncGenerator[Progress | ProveTableResult, None]:
    """Yields the proof. Closing it kills the child. Raises InvalidArgument and the errors of the validation."""
    if parts.prover is None:
        raise InvalidArgument("this service cannot prove tables: it has no data folder with a key to sign with")
    if parts.validation_turn.locked():
        yield Progress("waits for another validation to end")
    async with parts.validation_turn:
        yield Progress(f"compares the lake table {request.path} with its log, level rows")
        checks, proof = await in_child(parts, partial(parts.prover, request))
        with parts.table_records.changing():
            parts.table_records.put(validations=checks)
    yield proof
