"""Options that several commands share, and how `NAME=VALUE` options are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from tiering.cli.completion import table_names
from tiering.cli.output import OutputFormat
from tiering.errors import InvalidArgument
from tiering.rpc_channel import DEFAULT_PORT

DEFAULT_URI = f"127.0.0.1:{DEFAULT_PORT}"

DEFAULT_SLOTS = 4
"""Tables of a tierer at a time: a CALL need not wait for a long round of another table."""

UriOption = Annotated[
    str, typer.Option("--uri", envvar="LAKEWARD_URI", help="The service: host:port; of IPv6 [::1]:port.", show_default=True)
]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="For people, or for programs: everything, and no colours.")]
TableArgument = Annotated[str, typer.Argument(help="db.table", autocompletion=table_names)]
AnyTableArgument = Annotated[str | None, typer.Argument(help="Only this table: db.table.", autocompletion=table_names, show_default=False)]
LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


def read_pairs(pairs: Iterable[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` options as a mapping; raises InvalidArgument naming the option."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidArgument(f"{option} {pair!r} is not of the form NAME=VALUE")
        found[name.strip()] = value.strip()
    return found
