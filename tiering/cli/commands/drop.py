"""`lakeward drop`: drops a table of the cluster with its rows. Its lake table stays, unless `--with-lake` drops it as well."""

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
    from tiering.lake.maintenance import LakeSurvey, TableRemoval
    from tiering.model.status import TableStatus
    from tiering.model.tables import TablePath


UNKNOWN_LAKE = "What is in the lake of it stays there: no service was asked."
WITH_LAKE = "--with-lake"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("drop")(drop)


def drop(
    table: TableArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; without a terminal nothing is dropped without it.")] = False,
    with_lake: Annotated[
        bool, typer.Option(WITH_LAKE, help="Drop its lake table with all rows, too; also the one that a dropped table left.")
    ] = False,
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
) -> None:
    """Drop a table with its log and its state. What is in the lake stays there, unless --with-lake is given.

    Example: lakeward drop sales.orders --yes

    Example: lakeward drop sales.orders --with-lake
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.service_cluster import writable_cluster

    path = parse_table_path(table)
    if with_lake and fluss is not None:
        raise InvalidArgument(f"{WITH_LAKE} needs a service, which knows the lake", hint="Name it with --uri, instead of --fluss.")
    with writable_cluster(uri, fluss) as cluster:
        status = None if fluss is not None else _status(uri, path)
        try:
            info = cluster.table(path)  # an unknown table is an error before the question
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
        dropped = lake.drop_table(path)
        print(f"{path} was dropped, and {'its lake table with it' if dropped else 'there was no lake table of it'}.")
        return
    print(f"{path} was dropped. {what_stays(path, status) if fluss is None else UNKNOWN_LAKE}")


def _lake_alone(lake: TableRemoval, path: TablePath, *, yes: bool) -> str:
    """Drops the lake table of a table that is not there any more. Raises UnknownTable if there is none either."""
    if not yes:
        _ask_for(f"Drop the lake table {path} with all its rows? The table itself is gone already. This cannot be undone.", path)
    if not lake.drop_table(path):
        raise UnknownTable(f"there is no table {path}, and no lake table of that name")
    return f"The lake table {path} was dropped. The table itself was gone already."


def _lake_with_own_table(uri: str, path: TablePath, lake_format: str | None) -> TableRemoval:
    """The lake with the table of this name, which the service's cluster may drop.

    `lake_format` None = the table is gone, and with it which format it had. Raises LakeUnavailable, InvalidArgument.
    """
    from tiering.cli.service_lake import service_lake
    from tiering.lake.maintenance import LakeMaintenance, TableRemoval
    from tiering.lake.registry import format_names, open_lake, properties_from_service

    known = service_lake(uri)
    others = [name for name in format_names() if name != known.format] if lake_format is None else []
    removable: TableRemoval | None = None
    for name in (lake_format or known.format, *others):
        try:
            lake = open_lake(name, properties_from_service(name, known.properties))
        except (InvalidArgument, SetupError, ModuleNotFoundError):
            if name in others:  # no table of a format that this installation cannot open is expected
                continue
            raise
        if not isinstance(lake, TableRemoval) or not isinstance(lake, LakeMaintenance):
            continue
        removable = removable or lake
        if (survey := lake.survey(path)) is not None:
            check_own_lake_table(survey, known.cluster_id)
            return lake
    if removable is None:
        name = lake_format or known.format
        raise InvalidArgument(f"a lake of the format {name} drops no table for Lakeward", hint="Drop it with the lake's own tools.")
    return removable


def check_own_lake_table(survey: LakeSurvey, cluster_id: str) -> None:
    """Raises InvalidArgument for a lake table with rows that another cluster, or something else than Lakeward, wrote."""
    path, owners = survey.view.path, {marker.cluster_id for marker in survey.markers}
    if not survey.view.snapshots or owners == {cluster_id}:
        return
    others = ", ".join(sorted(owners - {cluster_id}))
    whose = (
        f"was tiered from the cluster {others}; this is the cluster {cluster_id}" if owners else "has snapshots, and no marker of Lakeward"
    )
    raise InvalidArgument(
        f"nothing was dropped: the lake table {path} {whose}",
        hint=f"If it is to go nevertheless, drop it in Spark SQL with the lake's catalog: DROP TABLE lake.{path}",
    )


def what_stays(path: TablePath, status: TableStatus | None) -> str:
    """What the lake has of the table, for people. `status` None: the table is not tiered."""
    if status is None:
        return "It was not tiered; a lake table of an earlier time is left as it is."
    if status.lake_snapshot_id is None:
        return "Nothing of it was in the lake."
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
    lost = f" {counted(pending, 'record')} not in the lake yet would be lost." if pending and not with_lake else ""
    dropped = f"{path} with all its rows" + (", and its lake table with all of its own" if with_lake else "")
    _ask_for(f"Drop {dropped}?{lost} This cannot be undone.", path)


def _ask_for(question: str, path: TablePath) -> None:
    """Raises InvalidArgument without a terminal, typer.Abort when the answer is no."""
    if not sys.stdin.isatty():
        raise InvalidArgument(f"{path} was not dropped: nobody can be asked here", hint="Add --yes.")
    typer.confirm(question, abort=True, err=True)
