"""Options that several commands share, and the functions that parse times and `NAME=VALUE` options."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.spark.jars import SparkVersion
from tiering.cli.spark.properties import LakeJars
from tiering.cli.terminal.completion import table_names
from tiering.cli.terminal.logs import LogFormat
from tiering.cli.terminal.output import OutputFormat
from tiering.durations import parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.model.option import option
from tiering.wire.channel import DEFAULT_PORT

DEFAULT_URI = f"127.0.0.1:{DEFAULT_PORT}"

_NAME_LIMIT = 200
"""Longest name of a property. YAML allows keys of 1024 characters in what `lake-conf` prints (YAML 1.2, section 7.4.2)."""
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of invisible characters: control, format (bidi), surrogate, line separator, paragraph separator."""

METRICS_GROUP = "Metrics and logs"
"""Title of a group of options."""

LINEAGE_GROUP = "OpenLineage"
"""Title of a group of options."""

DEFAULT_SLOTS = 4
"""Tables that a tierer moves at a time. With several slots, a CALL does not have to wait for a long round of another table."""

MAX_SLOTS = 200
"""Most slots of a tierer. A heartbeat that reports on this many rounds is within the coordinator's limit."""

DEFAULT_STALLED_AFTER = "30 min"
"""Far longer than a healthy split goes without progress: a bucket's folded rows are written in one step that reports no progress."""
LEAST_STALLED_AFTER_MS = 60_000

UriOption = Annotated[
    str,
    typer.Option(
        "--uri",
        metavar="HOST:PORT",
        envvar="LAKEWARD_URI",
        help="Address of the service; [::1]:PORT for IPv6. Separate several coordinators by commas.",
        show_default=True,
    ),
]
FormatOption = Annotated[
    OutputFormat,
    typer.Option("--format", help="Output: table for people; json or csv for programs, with all columns and without colours."),
]
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="The table, as database.table.", autocompletion=table_names)]
AnyTableArgument = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="Only this table, as database.table.", autocompletion=table_names, show_default=False)
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what the command would do, and do nothing.")]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        help="Name for this operation. A repeated call with the same key returns the stored result and does nothing.",
    ),
]
LogLevelOption = Annotated[
    str, typer.Option("--log-level", metavar="LEVEL", help="Lowest level of messages in the log: debug, info, warning or error.")
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", help="Format of log lines: console for people, json for programs.", rich_help_panel=METRICS_GROUP),
]


DataOption = Annotated[
    Path, typer.Option("--data", metavar="FOLDER", help="Data folder of the service, which creates it if it is missing.")
]
LakePropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Property of the lake's catalog, named as in pyiceberg. Can be repeated. Default: a SQL catalog in the data folder.",
    ),
]

PublishPropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Property of the second catalog (--publish), named as in pyiceberg. Can be repeated.",
        rich_help_panel="Lake",
    ),
]

LakeJarsOption = Annotated[
    LakeJars,
    typer.Option(help="Where Spark gets Iceberg: from jars that `lakeward fetch-jars` put on this machine, or from Maven Central."),
]
SparkOption = Annotated[SparkVersion, typer.Option("--spark", help="Version of the Spark that gets the properties.")]


@dataclass(frozen=True)
class MetricsAddress:
    """The address at which a process serves its metrics and health pages. `port` None: it serves none."""

    # fmt: off
    port: int | None = option(
        None, "Serve metrics and health pages over HTTP on this port; 0 picks a free port. Default: no metrics and health pages.",
        flag="--metrics-port", unit="PORT", group=METRICS_GROUP, least=0, most=65_535,
    )
    host: str = option(
        "127.0.0.1", "Address for the metrics and health pages, such as 127.0.0.1 or ::1.",
        flag="--metrics-host", unit="ADDRESS", group=METRICS_GROUP,
    )
    # fmt: on


@dataclass(frozen=True)
class LineageOptions:
    """Where a service sends events of its rounds in OpenLineage's format. `url` None: nowhere."""

    # fmt: off
    url: str | None = option(
        None, "Send events of rounds to this OpenLineage endpoint, such as Marquez: https://HOST:PORT. /api/v1/lineage is added to it.",
        flag="--openlineage-url", unit="URL", variable="OPENLINEAGE_URL", group=LINEAGE_GROUP,
    )
    namespace: str = option(
        "lakeward", "Namespace of the jobs in these events.",
        flag="--openlineage-namespace", unit="NAME", variable="OPENLINEAGE_NAMESPACE", group=LINEAGE_GROUP,
    )
    api_key_file: Path | None = option(
        None, "File with the API key of the endpoint. Default: the environment variable OPENLINEAGE_API_KEY, if it is set.",
        flag="--openlineage-api-key-file", unit="FILE", group=LINEAGE_GROUP,
    )
    # fmt: on


@dataclass(frozen=True)
class TiererOptions:
    """The options of a tierer, also of the one that `lakeward up` starts."""

    # fmt: off
    master: str = option("local[*]", "Spark master of the tierer: local[N], spark://..., yarn or k8s://...", flag="--master", unit="URL")
    conf: list[str] | None = option(
        None, "Spark property of the tierer. Can be repeated.", flag="--conf", unit="NAME=VALUE", group="Spark"
    )
    slots: int = option(
        DEFAULT_SLOTS, f"How many tables the tierer moves at a time, at most {MAX_SLOTS}.",
        flag="--slots", unit="COUNT", least=1, most=MAX_SLOTS,
    )
    stalled_after: str = option(
        DEFAULT_STALLED_AFTER,
        "The tierer gives up a round whose splits make no progress for this long, such as '30 min'. 0: never.",
        flag="--stalled-after", unit="DURATION", group="Rounds",
    )
    # fmt: on

    @property
    def stalled_after_ms(self) -> int:
        """`stalled_after` in milliseconds; 0 means never. Raises InvalidArgument, also for less than a minute."""
        return read_stalled_after(self.stalled_after)


def parse_moment(text: str | None, option: str) -> datetime | None:
    """Returns the time in `text`, the value of `option`; UTC unless it names a zone. Raises InvalidArgument."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"{option} {text[:60]!r} is not a time", hint="Write it as 2026-03-01T08:00:00Z.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_end(text: str | None, option: str) -> datetime | None:
    """Returns a time such as `2026-03-01T08:00:00Z`, or the time that is a duration such as `2 h` from now. Raises InvalidArgument."""
    try:
        return parse_moment(text, option)
    except InvalidArgument:
        assert text is not None
        try:
            return datetime.now(UTC) + timedelta(milliseconds=parse_duration_ms(text, option))
        except InvalidArgument:
            hint = "Write it as 2026-03-01T08:00:00Z, or as a time from now: '2 h'."
            raise InvalidArgument(f"{option} {text[:60]!r} is neither a time nor a duration", hint=hint) from None


def read_stalled_after(text: str) -> int:
    """Returns `--stalled-after` in milliseconds; 0 means never. Raises InvalidArgument, also for less than a minute."""
    milliseconds = parse_duration_ms(text, "--stalled-after")
    if 0 < milliseconds < LEAST_STALLED_AFTER_MS:
        raise InvalidArgument(
            f"--stalled-after {text!r} is less than a minute",
            hint="A healthy split may report no progress for some seconds. Take a minute or more, or 0 for never.",
        )
    return milliseconds


def read_pairs(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Returns `NAME=VALUE` options as a mapping, without blanks around names and values. Raises InvalidArgument with the option's name."""
    properties: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidArgument(f"{option} {pair!r} does not have the form NAME=VALUE")
        check_property(option, name.strip(" "), value.strip(" "))
        properties[name.strip(" ")] = value.strip(" ")
    return properties


def check_property(origin: str, name: str, value: str) -> None:
    """Raises InvalidArgument for a name with blanks or control characters, or a value with control characters or line breaks.

    `spark-conf` and `lake-conf` print each property on one line, so a line break in a value would begin another property.
    """
    if not 0 < len(name) <= _NAME_LIMIT or any(character.isspace() or not character.isprintable() for character in name):
        raise InvalidArgument(f"{origin} {name!r}: a name has no blanks, no control characters, and at most {_NAME_LIMIT} characters")
    if any(unicodedata.category(character) in _INVISIBLE for character in value):
        raise InvalidArgument(f"{origin} {name!r} has a value with a control character or a line break", hint="Leave the character out.")
