"""`lakeward drop`: drops a table of the cluster with its rows. Its lake table stays."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tiering.cli.terminal.cluster_options import FlussServersOption
from tiering.cli.terminal.options import DEFAULT_URI, TableArgument, UriOption
from tiering.client import LakewardClient
from tiering.counts import counted
from tiering.errors import InvalidArgument, LakeDisabled, UnknownTable
from tiering.model.names import parse_table_path

if TYPE_CHECKING:
    from tiering.model.status import TableStatus
    from tiering.model.tables import TablePath


UNKNOWN_LAKE = "What is in the lake of it stays there: no service was asked."


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("drop")(drop)


def drop(
    table: TableArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; without a terminal nothing is dropped without it.")] = False,
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
) -> None:
    """Drop a table with its log and its state. What is in the lake stays there.

    Example: lakeward drop sales.orders --yes
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.service_cluster import writable_cluster

    path = parse_table_path(table)
    with writable_cluster(uri, fluss) as cluster:
        cluster.table(path)  # an unknown table is an error before the question
        status = None if fluss is not None else _status(uri, path)
        if not yes:
            _ask(path, status)
        cluster.drop_table(path)
    print(f"{path} was dropped. {what_stays(path, status) if fluss is None else UNKNOWN_LAKE}")


def what_stays(path: TablePath, status: TableStatus | None) -> str:
    """What the lake has of the table, for people. `status` None: the table is not tiered."""
    if status is None:
        return "It was not tiered; a lake table of an earlier time is left as it is."
    if status.lake_snapshot_id is None:
        return "Nothing of it was in the lake."
    rows = "its rows" if status.lake_records is None else counted(status.lake_records, "row")
    return (
        f"Its {status.lake_format} table {path} stays in the lake, with {rows}: `lakeward lake-conf` prints how to open it, and to drop it "
        "there. A new table of this name is not tiered into it before that."
    )


def _status(uri: str, path: TablePath) -> TableStatus | None:
    try:
        with LakewardClient(uri) as client:
            [status] = client.list_tiering_statuses(path)
    except (UnknownTable, LakeDisabled):
        return None
    return status


def _ask(path: TablePath, status: TableStatus | None) -> None:
    """Raises InvalidArgument without a terminal, typer.Abort when the answer is no."""
    if not sys.stdin.isatty():
        raise InvalidArgument(f"{path} was not dropped: nobody can be asked here", hint="Add --yes.")
    pending = status.pending_records if status is not None else None
    lost = f" {counted(pending, 'record')} not in the lake yet would be lost." if pending else ""
    typer.confirm(f"Drop {path} with all its rows?{lost} This cannot be undone.", abort=True, err=True)
