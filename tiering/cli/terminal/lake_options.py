"""Options that name the lake: properties as pyiceberg takes them, or in Fluss's own words: its server.yaml, Flink's tiering job."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, NoReturn

import structlog
import typer

from tiering.cli.terminal.options import check_property, read_lake_properties
from tiering.errors import InvalidArgument
from tiering.lake.fluss.options import FORMAT, PREFIX, lake_of_fluss
from tiering.lake.fluss.server_yaml import read_server_yaml

log = structlog.get_logger(__name__)

OF_OTHER_FORMATS = ("datalake.paimon.", "datalake.lance.", "datalake.hudi.")
"""What the lake's own options begin with where Flink's tiering job writes another format (Fluss, DataLakeFormat)."""
OTHER_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Context settings of a command that takes `--datalake.*`: their names are the lake's own. `read_lake` refuses all others."""

FlussConfOption = Annotated[
    Path | None,
    typer.Option(
        "--fluss-conf",
        help="Fluss's server.yaml: the lake is the one that it names, and its s3.* options open Fluss's remote files. "
        "--datalake.iceberg.NAME VALUE, as Flink's tiering job takes it, goes before it.",
        show_default=False,
    ),
]

CreateLakeTablesOption = Annotated[
    bool,
    typer.Option("--create-lake-tables", help="Start although the cluster says that tables are tiered, and this lake has none of them."),
]


def read_lake(context: typer.Context, lake_property: list[str] | None, fluss_conf: Path | None) -> dict[str, str] | None:
    """The lake's properties; None if no option names a lake, which stands for the data folder's own. `--lake-property` goes before all.

    Raises InvalidArgument, SetupError; an option that the command does not have ends it as any command's does.
    """
    own = read_lake_properties(lake_property)
    words = _datalake_options(context)
    if fluss_conf is None and not words:
        return own
    lake = lake_of_fluss({**(read_server_yaml(fluss_conf) if fluss_conf is not None else {}), **words})
    if lake.left_out:
        log.info("options of the lake that only a JVM reads are left out", options=", ".join(lake.left_out))
    for name, value in lake.properties.items():
        check_property("the lake property", name, value)
    return {**lake.properties, **(own or {})}


def _datalake_options(context: typer.Context) -> Mapping[str, str]:
    """`--datalake.x VALUE` and `--datalake.x=VALUE` of the arguments that the command does not know."""
    words: dict[str, str] = {}
    rest = list(context.args)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        option = name.removeprefix("--")
        if option.startswith(OF_OTHER_FORMATS):
            raise InvalidArgument(
                f"the option {name} is of another lake format than Iceberg, which alone is taken from Fluss's options",
                hint=f"It takes those that begin with --{PREFIX}. Leave the cluster's tables to the service that has this option.",
            )
        if option == name or not (option == FORMAT or option.startswith(PREFIX)):
            _refuse(context, name)
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise InvalidArgument(f"the option {name} has no value")
            value = rest.pop(0)
        words[option] = value
    return words


def _refuse(context: typer.Context, name: str) -> NoReturn:
    if not name.startswith("-"):
        context.fail(f"Got unexpected extra argument ({name})")
    known = [option for parameter in context.command.params for option in parameter.opts]
    near = get_close_matches(name, known)
    context.fail(f"No such option: {name}" + (f" (did you mean {', '.join(near)}?)" if near else ""))
