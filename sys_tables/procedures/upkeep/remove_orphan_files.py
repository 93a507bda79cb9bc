"""CALL sys.remove_orphan_files: deletes files of a lake table that no snapshot names and that no commit can name any more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.upkeep.remove_orphan_files import RemoveOrphanFiles
from tiering.model.call_results import OrphanFilesResult
from tiering.model.tables import TablePath

NAME = "remove_orphan_files"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    older_than: datetime | None = parameter(
        "Only files that were written, or lost their last snapshot, before this time; at least 1 h ago. NULL = 1 day ago, and 1 h ago for "
        "files of expired snapshots.",
        default=None,
    )


@dataclass(frozen=True)
class Output:
    """First a row about all deleted files, then a row for each of the first 1,000, then a row for each reason why files stay."""

    table: str = column("The table, as it is spelled.")
    outcome: str = column("removed; would_remove for a dry run; kept.")
    orphan_file_location: str | None = column("The file; NULL = about several files.")
    reason: str | None = column("Why files are kept, such as YOUNG, OPEN_ROUND, MAY_STILL_LAND; NULL for deleted ones.")
    files: int = column("Number of files.")
    bytes: int | None = column("Their size; NULL for kept files.")


@procedure(NAME, Parameters, Output, comment="Deletes files of a lake table that nothing names any more.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    result = await call.perform(RemoveOrphanFiles(path, arguments.older_than))
    for row in output_of(result, is_dry_run=call.options.dry_run):
        yield row


def output_of(result: OrphanFilesResult, *, is_dry_run: bool) -> list[Output]:
    """The rows of a result."""
    table, outcome = str(result.path), "would_remove" if is_dry_run else "removed"
    return [
        Output(table, outcome, None, None, result.removed, result.removed_bytes),
        *(Output(table, outcome, location, None, 1, size) for location, size in zip(result.locations, result.sizes, strict=True)),
        *(Output(table, "kept", None, reason, number, None) for reason, number in result.kept.items()),
    ]
