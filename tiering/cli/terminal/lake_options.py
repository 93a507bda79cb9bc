"""Options that name the lake: pyiceberg's properties, Fluss's server.yaml, or the options of Flink's tiering job (`--datalake.*`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, NoReturn

import structlog
import typer

from tiering.cli.terminal.options import check_property, read_pairs
from tiering.errors import InvalidArgument
from tiering.lake.fluss.options import FORMAT, PAIMON_PREFIX, PREFIX, lake_of_fluss
from tiering.lake.fluss.server_yaml import read_server_yaml

log = structlog.get_logger(__name__)

UNSUPPORTED_FORMATS = ("datalake.lance.", "datalake.hudi.")
"""Prefixes of options of Flink's tiering job for lake formats that Lakeward does not write (Fluss, DataLakeFormat)."""
OTHER_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Context settings of a command that takes `--datalake.*` options, whose names the lake defines. `read_lake` refuses others."""

FlussConfOption = Annotated[
    Path | None,
    typer.Option(
        "--fluss-conf",
        metavar="FILE",
        help="Fluss's server.yaml. It names the lake, and its s3.* options open Fluss's remote files. The options of Flink's tiering job, "
        "--datalake.iceberg.NAME VALUE and --datalake.paimon.NAME VALUE, override it.",
        show_default=False,
        rich_help_panel="Apache Fluss",
    ),
]


@dataclass(frozen=True)
class NamedLake:
    """The lake that the options name. `format`: the format of its tables; None if no option names it."""

    properties: Mapping[str, str]
    format: str | None = None


def read_lake(context: typer.Context, lake_property: list[str] | None, fluss_conf: Path | None) -> NamedLake | None:
    """Returns the lake that the options name, or None for the lake in the data folder. `--lake-property` overrides the other options.

    Raises InvalidArgument, SetupError, and typer's usage error for an unknown option.
    """
    own = read_pairs(lake_property, "--lake-property") if lake_property else None
    words = _datalake_options(context)
    if fluss_conf is None and not words:
        return None if own is None else NamedLake(own)
    lake = lake_of_fluss({**(read_server_yaml(fluss_conf) if fluss_conf is not None else {}), **words})
    if lake.left_out:
        log.info("options of the lake that only a JVM reads are left out", options=", ".join(lake.left_out))
    for name, value in lake.properties.items():
        check_property("the lake property", name, value)
    return NamedLake({**lake.properties, **(own or {})}, lake.format)


def _datalake_options(context: typer.Context) -> Mapping[str, str]:
    """Returns the options `--datalake.x VALUE` and `--datalake.x=VALUE` among the arguments that typer does not know."""
    words: dict[str, str] = {}
    remaining = list(context.args)
    while remaining:
        name, equals, value = remaining.pop(0).partition("=")
        option = name.removeprefix("--")
        if option.startswith(UNSUPPORTED_FORMATS):
            raise InvalidArgument(
                f"the option {name} belongs to a lake format that Lakeward does not write; it writes Iceberg and Paimon",
                hint=f"Use options that begin with --{PREFIX} or --{PAIMON_PREFIX}, or keep the tiering service that takes this option.",
            )
        if option == name or not (option == FORMAT or option.startswith((PREFIX, PAIMON_PREFIX))):
            _refuse(context, name)
        if not equals:
            if not remaining or remaining[0].startswith("--"):
                raise InvalidArgument(f"the option {name} has no value")
            value = remaining.pop(0)
        words[option] = value
    return words


def _refuse(context: typer.Context, name: str) -> NoReturn:
    if not name.startswith("-"):
        context.fail(f"Got unexpected extra argument ({name})")
    options = [option for parameter in context.command.params for option in parameter.opts]
    near = get_close_matches(name, options)
    context.fail(f"No such option: {name}" + (f" (did you mean {', '.join(near)}?)" if near else ""))
