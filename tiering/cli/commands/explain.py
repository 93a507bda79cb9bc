"""`lakeward explain`: shows what a round would read now, and why no round begins, like `CALL sys.explain_tiering`."""

from __future__ import annotations

from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.procedures.explain_tiering import Explanation


def explain(table: TableArgument, uri: UriOption = DEFAULT_URI, output: FormatOption = OutputFormat.TABLE) -> None:
    """Show what a round of a table would read now, and everything that keeps a round from beginning. The command changes nothing.

    Example: lakeward explain sales.orders
    """
    with LakewardClient(uri) as client:
        lines = client.explain_tiering(table)
    rows = [{"decision": line.decision.value, **_place(line), "reason": line.reason} for line in lines]
    print_rows(rows, output, left_out_first=("snapshot_id", "split_type", "partition_name", "records"))


def _place(line: Explanation) -> dict[str, str | int | None]:
    """Returns the columns that name the split or bucket of a line."""
    return {
        "split_type": line.split_type,
        "partition_name": line.partition_name,
        "bucket_id": line.bucket_id,
        "snapshot_id": line.snapshot_id,
        "starting_offset": line.starting_offset,
        "stopping_offset": line.stopping_offset,
        "records": line.records,
    }
