"""`lakeward set-freshness`: changes the freshness of a table, like `CALL sys.set_freshness`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.call_options import CallOptions
from tiering.cli.terminal.consoles import warn
from tiering.cli.terminal.option_groups import with_options
from tiering.cli.terminal.options import TableArgument
from tiering.model.names import parse_table_path
from tiering.procedures.set_freshness import SetFreshness


@with_options(CallOptions, "call")
def set_freshness(
    table: TableArgument,
    freshness: Annotated[str, typer.Argument(metavar="FRESHNESS", help="How old the lake copy may be: '30 s', '5 min'.")],
    *,
    call: CallOptions,
) -> None:
    """Change the freshness of a table: how old its lake copy may be. The change takes effect at once.

    Example: lakeward set-freshness sales.orders '5 min'
    """
    result = call.perform(SetFreshness(parse_table_path(table), freshness))
    call.print_row(result, left_out=("warning",))
    warn(result.warning)
