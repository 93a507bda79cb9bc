"""Options that several commands share, and how moments and `NAME=VALUE` options are read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.spark.properties import LakeJars
from tiering.cli.terminal.completion import table_names
from tiering.cli.terminal.logs import LogFormat
from tiering.cli.terminal.output import OutputFormat
from tiering.durations import parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.wire.channel import DEFAULT_PORT

DEFAULT_URI = f"127.0.0.1:{DEFAULT_PORT}"

_NAME_LIMIT = 200
"""Of a property. YAML allows 1024 for what `lake-conf` prints (1.2, section 7.4.2)."""
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of what nobody sees: control, format (bidi) and surrogate characters, ends of lines and paragraphs."""

DEFAULT_SLOTS = 4
"""Tables of a tierer at a time: a CALL need not wait for a long round of another table."""

DEFAULT_STALLED_AFTER = "30 min"
"""Far longer than a split rests that works: what a bucket's rows were folded to is written in one go, without a report."""
LEAST_STALLED_AFTER_MS = 60_000

UriOption = Annotated[
    str,
    typer.Option(
        "--uri", envvar="LAKEWARD_URI", help="The service: host:port; of IPv6 [::1]:port; several with commas between.", show_default=True
    ),
]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="For people, or for programs: everything, and no colours.")]
TableArgument = Annotated[str, typer.Argument(help="db.table", autocompletion=table_names)]
AnyTableArgument = Annotated[str | None, typer.Argument(help="Only this table: db.table.", autocompletion=table_names, show_default=False)]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; do nothing.")]
KeyOption = Annotated[
    str | None, typer.Option("--idempotency-key", help="Names the operation: a repeat gets its result instead of doing it again.")
]
LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="A line an event: for people, or a JSON object for programs.")]

MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=0, max=65_535, help="Serve metrics and health over HTTP there; 0 picks a free one. Default: not at all."
    ),
]
MetricsHostOption = Annotated[str, typer.Option("--metrics-host", help="Address for metrics and health, such as 127.0.0.1 or ::1.")]
MetricsTablesOption = Annotated[int, typer.Option("--metrics-tables", min=0, help="Tables with series of their own; the worst come first.")]
TiererMetricsPortOption = Annotated[
    int | None, typer.Option("--tierer-metrics-port", min=0, max=65_535, help="The same of the tierer; it is named in its log.")
]

DataOption = Annotated[Path, typer.Option("--data", help="The data folder; made if need be.")]
StateOption = Annotated[
    str | None,
    typer.Option(
        "--state",
        envvar="LAKEWARD_STATE",
        help="Keep the state in PostgreSQL: postgresql://user@host/database; the password in PGPASSWORD or ~/.pgpass. A second "
        "coordinator on it stands by. Default: a file in the data folder.",
    ),
]
AdvertiseOption = Annotated[
    str | None, typer.Option("--advertise", help="host:port where other coordinators on the same --state reach this one.")
]
PortOption = Annotated[int, typer.Option("--port", envvar="LAKEWARD_PORT", min=0, max=65_535, help="0 picks a free one.")]
HostOption = Annotated[str, typer.Option(help="Address to listen on, such as 127.0.0.1 or ::1.")]
TimeoutOption = Annotated[int, typer.Option(min=1, help="A tierer silent for this long has lost its tables.")]
InlineOption = Annotated[int, typer.Option(min=0, help="Rounds of at most this many estimated bytes need no Spark job.")]
HistoryAgeOption = Annotated[int, typer.Option("--history-age-ms", min=1, help="For how long rounds, commits, errors and events are kept.")]
HistoryRoundsOption = Annotated[int, typer.Option("--history-rounds", min=1, help="Newest rounds of one table that are kept.")]
HistoryEventsOption = Annotated[int, typer.Option("--history-events", min=1, help="Newest events of one table that are kept.")]
HistoryTotalRoundsOption = Annotated[int, typer.Option("--history-total-rounds", min=1, help="Newest rounds of all tables that are kept.")]
HistoryTotalEventsOption = Annotated[int, typer.Option("--history-total-events", min=1, help="Newest events of all tables that are kept.")]
BacklogResetOption = Annotated[
    int, typer.Option("--backlog-reset-after-ms", min=0, help="A table left alone for so long is in backlog; 0: ten times its freshness.")
]
BacklogFactorOption = Annotated[
    int, typer.Option("--backlog-duration-factor", min=1, help="Freshnesses that a round of a backlog may run for; 1: as all rounds.")
]
InsecureOption = Annotated[bool, typer.Option(help="Listen off loopback although nothing is encrypted or checked.")]
LakePropertyOption = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE of the lake's catalog, as pyiceberg takes them; repeat it. Default: a SQL catalog in the data folder."),
]
MasterOption = Annotated[str, typer.Option(help="Spark master of the tierer: local[N], spark://..., yarn, k8s://...")]
ConfOption = Annotated[list[str] | None, typer.Option("--conf", help="NAME=VALUE for the tierer's Spark; repeat it.")]
MAX_SLOTS = 200
"""A heartbeat that reports all of a tierer's rounds stays within what the coordinator takes."""
SlotsOption = Annotated[int, typer.Option(min=1, max=MAX_SLOTS, help=f"Tables the tierer moves at a time, at most {MAX_SLOTS}.")]
StalledAfterOption = Annotated[
    str, typer.Option("--stalled-after", help="A round whose splits make no progress for so long is given up: '30 min'; 0: never.")
]

LakeJarsOption = Annotated[
    LakeJars,
    typer.Option(help="How Spark gets Iceberg: as files that `lakeward fetch-jars` put on this machine, or by itself from Maven Central."),
]


def parse_moment(text: str | None, option: str) -> datetime | None:
    """A moment as people write it behind `option`; UTC unless it names a zone. Raises InvalidArgument."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"{option} {text[:60]!r} is no moment", hint="Write it as 2026-03-01T08:00:00Z.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_end(text: str | None, option: str) -> datetime | None:
    """A moment, or one as far from now as a duration says: `2026-03-01T08:00:00Z`, `2 h`. Raises InvalidArgument."""
    try:
        return parse_moment(text, option)
    except InvalidArgument:
        assert text is not None
        try:
            return datetime.now(UTC) + timedelta(milliseconds=parse_duration_ms(text, option))
        except InvalidArgument:
            hint = "Write it as 2026-03-01T08:00:00Z, or as a time from now: '2 h'."
            raise InvalidArgument(f"{option} {text[:60]!r} is neither a moment nor a duration", hint=hint) from None


def read_stalled_after(text: str) -> int:
    """The milliseconds of `--stalled-after`, 0 = never. Raises InvalidArgument, also for less than a busy round may rest."""
    milliseconds = parse_duration_ms(text, "--stalled-after")
    if 0 < milliseconds < LEAST_STALLED_AFTER_MS:
        raise InvalidArgument(
            f"--stalled-after {text!r} is less than a minute", hint="A split of a busy round may rest for seconds; 0: never."
        )
    return milliseconds


def read_pairs(pairs: Iterable[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` options as a mapping; raises InvalidArgument naming the option.

    Blanks around a name or a value are not part of it.
    """
    properties: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidArgument(f"{option} {pair!r} is not of the form NAME=VALUE")
        check_property(option, name.strip(" "), value.strip(" "))
        properties[name.strip(" ")] = value.strip(" ")
    return properties


def read_lake_properties(pairs: list[str] | None) -> dict[str, str] | None:
    """`--lake-property` options as a mapping; None without any, which stands for the data folder's own lake."""
    return read_pairs(pairs, "--lake-property") if pairs else None


def check_property(origin: str, name: str, value: str) -> None:
    """Raises InvalidArgument for a name with blanks or control characters, a value with control characters or line ends.

    Properties are printed as files of one line each (`spark-conf`, `lake-conf`): a line end in one would begin another.
    """
    if not 0 < len(name) <= _NAME_LIMIT or any(character.isspace() or not character.isprintable() for character in name):
        raise InvalidArgument(f"{origin} {name!r}: a name has no blanks, no control characters, and at most {_NAME_LIMIT} characters")
    if any(unicodedata.category(character) in _UNSEEN for character in value):
        raise InvalidArgument(f"{origin} {name!r} has a value with a control character or a line end", hint="Leave it out.")
