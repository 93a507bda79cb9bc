"""`lakeward sweep`: deletes files of dead rounds, files that only expired snapshots named, and old metadata files."""

from __future__ import annotations

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.lake_repair.sweeper import Sweeper
from tiering.procedures.sweep_lake import SweepLake, SweepResult


def sweep_lake(parts: CallParts, request: SweepLake) -> tuple[SweepResult, ...]:
    """Sweeps and returns one result per table. Raises UnknownTable, InvalidArgument. With several tables, errors are in the results."""
    if request.older_than_ms < 0:
        raise errors.InvalidArgument(f"older_than must not be negative, but is {request.older_than_ms} ms")
    if request.path is not None and parts.table_records.by_path(request.path) is None:
        parts.discovery.run_quietly()  # the table may be new
    return tuple(Sweeper(parts.table_records, parts.lakes, parts.candidates, parts.cluster.cluster_id, parts.read_snapshots).sweep(request))
