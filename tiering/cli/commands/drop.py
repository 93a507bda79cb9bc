"""`lakeward drop`: drops a table of the cluster with its rows. The lake table stays, unless `--with-lake` drops it as well."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tiering.cli.terminal.cluster_options import FlussServersOption
from tiering.cli.terminal.options import DEFAULT_URI, TableArgument, UriOption
from tiering.client import LakewardClient
from tiering.counts import counted
from tiering.errors import InvalidArgument, LakeDisabled, SetupError, UnknownDatabase, UnknownTable
from tiering.model.names import parse_table_path

if TYPE_CHECKING:
    from tiering.lake.maintenance import TableRemoval
    from tiering.model.status import TableStatus
    from tiering.model.tables import TablePath


UNKNOWN_LAKE = "Its lake table, if there is one, stays: the command did not ask a service about it."
WITH_LAKE = "--with-lake"


def drop(
    table: TableArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation. Required without a terminal.")] = False,
    with_lake: Annotated[
        bool, typer.Option(WITH_LAKE, help="Drop the lake table with all its rows, too, also after the table itself was dropped.")
    ] = False,
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
) -> None:
    """Drop a table with its log and its state. The lake table stays, unless you add --with-lake.

    Example: lakeward drop sales.orders --yes

    Example: lakeward drop sales.orders --with-lake
    """
    from tiering.cli.service_cluster import writable_cluster
    from tiering.lake.dead_letters.table import drop_dead_letter_table

    path = parse_table_path(table)
    if with_lake and fluss is not None:
        raise InvalidArgument(
            f"{WITH_LAKE} needs a service, because the service knows the lake", hint="Name the service with --uri, instead of --fluss."
        )
    with writable_cluster(uri, fluss) as cluster:
        status = None if fluss is not None else _status(uri, path)
        try:
            info = cluster.table(path)  # an unknown table raises an error before the question
        except (UnknownTable, UnknownDatabase):
            if not with_lake:
                raise
            print(_lake_alone(_lake_with_own_table(uri, path, None), path, yes=yes))
            return
        lake = _lake_with_own_table(uri, path, info.lake_format) if with_lake else None
        if not yes:
            _ask(path, status, with_lake=with_lake)
        cluster.drop_table(path)
    if lake is not None:
        drop_dead_letter_table(lake, path)
        dropped = lake.drop_table(path)
        print(f"{path} was dropped, and {'its lake table with it' if dropped else 'it had no lake table'}.")
        return
    print(f"{path} was dropped. {what_stays(path, status) if fluss is None else UNKNOWN_LAKE}")


def _lake_alone(lake: TableRemoval, path: TablePath, *, yes: bool) -> str:
    """Drops the lake table of a dropped table, and returns what to print. Raises UnknownTable if there is no lake table either."""
    if not yes:
        _ask_for(f"Drop the lake table {path} with all its rows? The table itself was dropped before. This cannot be undone.", path)
    from tiering.lake.dead_letters.table import drop_dead_letter_table

    drop_dead_letter_table(lake, path)
    if not lake.drop_table(path):
        raise UnknownTable(f"there is no table {path}, and no lake table with that name")
    return f"The lake table {path} was dropped. The table itself was dropped before."


def _lake_with_own_table(uri: str, path: TablePath, lake_format: str | None) -> TableRemoval:
    """Returns the lake that has the table's lake table, after a check that this cluster wrote it.

    `lake_format` is None for a dropped table, whose format is unknown. Raises LakeUnavailable, InvalidArgument.
    """
    from tiering.cli.service_lake import service_lake
    from tiering.lake.maintenance import LakeMaintenance, TableRemoval, check_own_lake_table
    from tiering.lake.registry import format_names, open_lake, properties_from_service

    service = service_lake(uri)
    others = [name for name in format_names() if name != service.format] if lake_format is None else []
    removable: TableRemoval | None = None
    for name in (lake_format or service.format, *others):
        try:
            lake = open_lake(name, properties_from_service(name, service.properties))
        except (InvalidArgument, SetupError, ModuleNotFoundError):
            if name in others:  # this installation cannot have written a table of a format that it cannot open
                continue
            raise
        if not isinstance(lake, TableRemoval) or not isinstance(lake, LakeMaintenance):
            continue
        removable = removable or lake
        if (survey := lake.survey(path)) is not None:
            check_own_lake_table(survey, service.cluster_id)
            return lake
    if removable is None:
        name = lake_format or service.format
        raise InvalidArgument(
            f"Lakeward cannot drop tables of the lake format {name}", hint="Drop the lake table with the lake's own tools."
        )
    return removable


def what_stays(path: TablePath, status: TableStatus | None) -> str:
    """Returns a sentence for people about the lake table that stays. `status` is None for a table that was not tiered."""
    if status is None:
        return "It was not tiered. An older lake table with this name stays as it is."
    if status.lake_snapshot_id is None:
        return "It had no rows in the lake."
    rows = "its rows" if status.lake_records is None else counted(status.lake_records, "row")
    return (
        f"Its {status.lake_format} table {path} stays in the lake, with {rows}, and can be read there. A new table of this name fails with "
        f"TableMismatch until the lake table is renamed or dropped: `lakeward drop {path} {WITH_LAKE}`, or in Spark SQL with the lake's "
        f"catalog `DROP TABLE lake.{path}`."
    )


def _status(uri: str, path: TablePath) -> TableStatus | None:
    try:
        with LakewardClient(uri) as client:
            [status] = client.list_tiering_statuses(path)
    except (UnknownTable, LakeDisabled):
        return None
    return status


def _ask(path: TablePath, status: TableStatus | None, *, with_lake: bool) -> None:
    """Raises InvalidArgument without a terminal, typer.Abort when the answer is no."""
    pending = status.pending_records if status is not None else None
    lost = f" {counted(pending, 'record')} that are not in the lake yet would be lost." if pending and not with_lake else ""
    dropped = f"{path} with all its rows" + (", and its lake table with all its rows" if with_lake else "")
    _ask_for(f"Drop {dropped}?{lost} This cannot be undone.", path)


def _ask_for(question: str, path: TablePath) -> None:
    """Raises InvalidArgument without a terminal, typer.Abort when the answer is no."""
    if not sys.stdin.isatty():
        raise InvalidArgument(f"{path} was not dropped: without a terminal the command cannot ask for confirmation", hint="Add --yes.")
    typer.confirm(question, abort=True, err=True)
