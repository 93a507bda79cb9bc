"""`lakeward set-option`: changes or resets options of a table, with `CALL sys.set_table_option`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sys_tables.catalog_client import SystemCatalog
from tiering.cli.terminal.consoles import warn
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, TableArgument, UriOption, read_pairs
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.durations import freshness_warning, parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.model.names import parse_table_path


def set_option(
    table: TableArgument,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Options to set. NAME= resets an option to its default.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Option to reset to its default. Can be repeated.")
    ] = None,
    uri: UriOption = DEFAULT_URI,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Set options of a table, such as its freshness (docs/options.md). They take effect with the next round.

    Example: lakeward set-option sales.orders table.datalake.freshness='5 min'

    Example: lakeward set-option sales.orders --unset table.log.ttl
    """
    path = parse_table_path(table)
    changes = option_changes(settings or (), unset or ())
    with SystemCatalog(uri) as catalog:

        def set_each(*, dry_run: bool) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = []
            for name, value in changes.items():
                rows += catalog.call("set_table_option", table=str(path), name=name, value=value, dry_run=dry_run)
            return rows

        if len(changes) > 1:
            set_each(dry_run=True)  # a wrong option then changes none of the options
        rows = set_each(dry_run=False)
    print_rows(rows, output)
    from tiering.lake.table_options import FRESHNESS  # other commands and help pages do not need it, and would start later

    if freshness := changes.get(FRESHNESS.name):
        warn(freshness_warning(parse_duration_ms(freshness)))


def option_changes(settings: list[str] | tuple[()], unset: list[str] | tuple[()]) -> dict[str, str | None]:
    """Returns the new value of each option; None resets it. Raises InvalidArgument without options, or for an option named twice."""
    values: dict[str, str | None] = {name: value or None for name, value in read_pairs(settings, "the option").items()}
    names = [*(setting.partition("=")[0].strip() for setting in settings), *unset]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidArgument(f"the option {twice[0]!r} is named twice", hint="Keep one of the two.")
    if not names:
        raise InvalidArgument("no option is named", hint="Add NAME=VALUE, or --unset NAME.")
    return values | dict.fromkeys(unset)
