"""`CALL sys.prove_table`: a validation at the level rows in a child process, and its proof, which this service signs.

It waits for the same turn as `validate_table`, and its checks are in the same history. The key never leaves the service's process.

The record of a proof is stored before the archive is answered. So each archive that a caller has is in `sys.table_proofs`. If the answer is
lost, the caller proves the table again, and both proofs are recorded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from functools import partial

from tiering.coordinator.call_support.child_work import in_child
from tiering.coordinator.call_support.parts import CallParts
from tiering.errors import InvalidArgument
from tiering.procedures.base import Progress
from tiering.procedures.prove_table import ProveTable, ProveTableResult, TableProof


async def prove_table(parts: CallParts, request: ProveTable) -> AsyncGenerator[Progress | ProveTableResult, None]:
    """Yields the proof. Closing it kills the child. Raises InvalidArgument and the errors of the validation."""
    if parts.prover is None:
        raise InvalidArgument("this service cannot prove tables: it has no data folder with a key to sign with")
    if parts.validation_turn.locked():
        yield Progress("waits for another validation to end")
    async with parts.validation_turn:
        yield Progress(f"compares the lake table {request.path} with its log, level rows")
        began = parts.table_records.now()
        checks, proof = await in_child(parts, partial(parts.prover, request))
        duration_ms = parts.table_records.now().milliseconds_since(began.steady)
        with parts.table_records.changing():
            parts.table_records.put(validations=checks, proofs=[_record(proof, request.caller, began.wall, duration_ms)])
    yield proof


def _record(proof: ProveTableResult, principal: str, proved_at: datetime, duration_ms: int) -> TableProof:
    return TableProof(
        proved_at=proved_at,
        database_name=proof.path.database_name,
        table_name=proof.path.table_name,
        principal=principal,
        lake_snapshot_id=proof.lake_snapshot_id,
        verdict=proof.verdict,
        details=proof.details,
        rows=proof.rows,
        readers=proof.readers,
        files=proof.files,
        fingerprint=proof.fingerprint,
        archive_sha256=proof.archive_sha256,
        archive_bytes=proof.archive_bytes,
        duration_ms=duration_ms,
    )
