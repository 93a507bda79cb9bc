"""CALL sys.rewrite_data_files: merges small data files of a lake table and applies deletes, now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.upkeep.rewrite_data_files import RewriteDataFiles
from tiering.model.call_results import Progress, UpkeepResult
from tiering.model.tables import TablePath

NAME = "rewrite_data_files"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    where: str | None = parameter(
        "Only partitions for which this condition in SQL is true. It compares partition columns with literals. NULL = all partitions.",
        default=None,
    )
    full: bool = parameter(
        "Whether large files are rewritten, too, where a bucket has more than it needs.",
        default=False,
    )
    wait: bool = parameter("Whether to wait until nothing is left to be rewritten.", default=True)
    timeout_ms: int = parameter("How long to wait, in milliseconds; the rounds go on afterwards.", default=300_000)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    outcome: str = column(
        "SUCCEEDED, EMPTY (nothing to do), DROPPED (other commits changed all of these files); WAITING or RUNNING if the call did not wait "
        "for the end; PLANNED for a dry run."
    )
    reason: str | None = column("Why it is not done; NULL if it is.")
    round_id: str | None = column("The last upkeep round; sys.lake_upkeep has all of them. NULL if none was needed.")
    rounds: int = column("Upkeep rounds that ended.", arrow_type=INT)
    rewritten_files_count: int = column("Data and delete files that were replaced.")
    added_files_count: int = column("Data files that replaced them.")
    rewritten_bytes_count: int = column("Bytes of the replaced files.")
    written_bytes_count: int = column("Bytes of the new files.")
    dropped_buckets_count: int = column("Rewritten buckets that were left out, because another commit had changed their files.")
    bytes_left: int | None = column("Bytes of files that are still to be rewritten; NULL = not known.")


@procedure(NAME, Parameters, Output, comment="Merges small data files of a lake table and applies deletes, now.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[Progress | Output]:
    path = await find_path(call, arguments.table)
    request = RewriteDataFiles(path, arguments.wait, arguments.timeout_ms, where=arguments.where, full=arguments.full)
    steps = call.perform_with_progress(request)
    async with aclosing(steps):
        async for step in steps:
            yield step if isinstance(step, Progress) else output_of(step)


def output_of(result: UpkeepResult) -> Output:
    """The row of a result."""
    stats = result.stats
    return Output(
        table=str(result.path),
        outcome=result.outcome.value,
        reason=result.reason,
        round_id=result.round_id,
        rounds=result.rounds,
        rewritten_files_count=stats.files_before,
        added_files_count=stats.files_after,
        rewritten_bytes_count=stats.bytes_read,
        written_bytes_count=stats.bytes_written,
        dropped_buckets_count=stats.dropped,
        bytes_left=stats.bytes_left,
    )
