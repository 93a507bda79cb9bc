"""The report about one table: what is promised and kept, where the time of its rounds went, what is wrong, what was proved. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import Element

from tiering.cli.report.charts import lag_chart, rounds_chart
from tiering.cli.status.detail import status_lines
from tiering.cli.terminal.output import as_text
from tiering.durations import short_duration
from tiering.html.elements import element, page, table
from tiering.model.status import Promise, TableStatus
from tiering.procedures.prove_table import counts_text
from tiering.round_history import FAILED_COLOUR, LAG_COLOUR, PART_COLOURS, PROMISE_COLOUR, lag_points
from tiering.round_timeline import timeline

Rows = Sequence[Mapping[str, Any]]
SHOWN_ROUNDS, SHOWN_COMMITS, SHOWN_BUCKETS = 40, 20, 200
LEFT_OUT = "Rounds without anything to do are left out."
_STYLE = """
:root { color-scheme: light dark; --line: #8886; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
svg { width: 100%; height: auto; }
svg text { font-size: 11px; fill: currentColor; }
.grid { stroke: var(--line); }
rect.frame { fill: none; stroke: Canvas; }
table { border-collapse: collapse; width: 100%; margin: 0 0 1.5rem; } caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
""" + "\n".join(
    (
        f".promise {{ stroke: {PROMISE_COLOUR}; stroke-dasharray: 6 4; }}",
        f".lag {{ fill: none; stroke: {LAG_COLOUR}; stroke-width: 1.5; }}",
        f"rect.failed {{ fill: {FAILED_COLOUR}; }}",
        *(f"rect.{name} {{ fill: {colour}; }}" for name, colour in PART_COLOURS.items()),
    )
)


@dataclass(frozen=True)
class TableHistory:
    """The rows of the system tables about one table. `rounds`, `commits` and `proofs` have the newest first."""

    rounds: Rows
    buckets: Rows
    errors: Rows
    commits: Rows
    health: Rows
    checks: Rows
    proofs: Rows


def table_report(status: TableStatus, history: TableHistory) -> str:
    """Returns the text of the HTML page."""
    name = f"{status.database_name}.{status.table_name}"
    lines = [(line, value.plain) for line, value in status_lines(status)]
    return page(
        f"{name}: tiering report",
        _STYLE,
        element("h1", {}, name),
        element("p", {}, f"{status.table_type} table {status.table_id}, as of {as_text(status.observed_time)} UTC. All times are in UTC."),
        element("p", {}, verdict(status, history)),
        table("State", ("name", "value"), lines),
        *_freshness(status, history.rounds),
        *_rounds(history.rounds, status.observed_time),
        table(
            "Last proofs",
            ("proved", "by", "verdict", "snapshot", "rows counted", "archive", "key"),
            [_proof(row) for row in history.proofs],
        ),
        table("Validation", ("check", "scope", "agrees", "details"), [_check(row) for row in history.checks]),
        table("Errors", ("class", "message", "count", "last seen", "resolved"), [_error(row) for row in history.errors]),
        _of("Health of the lake table", history.health, ("score", "reason", "data_files", "small_files", "delete_files", "snapshots")),
        _of("Commits", history.commits[:SHOWN_COMMITS], ("lake_committed_at", "state", "lake_snapshot_id", "records", "files", "round_id")),
        _buckets(history.buckets),
    )


def verdict(status: TableStatus, history: TableHistory) -> str:
    """Returns in one or two sentences whether the copy is right and fresh enough, as far as that is known."""
    promised = short_duration(status.freshness_ms)
    match status.promise:
        case Promise.KEPT:
            freshness = f"The lake copy keeps its promise of {promised}"
        case Promise.AT_RISK:
            hindrance = "the table is paused" if status.paused else "the table fails"
            freshness = f"The lake copy keeps its promise of {promised} so far, but {hindrance}"
        case Promise.BROKEN:
            freshness = f"The lake copy is {short_duration(status.lag_ms)} old, and its promise is {promised}"
        case _:
            freshness = "The age of the lake copy is unknown"
    return f"{freshness}. {_proved(history.checks)}"


def _proved(checks: Rows) -> str:
    if not checks:
        return "It was not compared with the log since the service started: CALL sys.validate_table does that."
    newest: datetime = max(row["validated_at"] for row in checks)
    latest = [row for row in checks if row["validated_at"] == newest]
    wrong = sum(row["ok"] is False for row in latest)
    unknown = sum(row["ok"] is None for row in latest)
    when = f"The comparison of {as_text(newest)} with the log (level {latest[0]['level']})"
    if wrong:
        return f"{when} found differences in {wrong} of {len(latest)} checks."
    return f"{when} found no difference" + (f"; {unknown} of {len(latest)} checks could not be made." if unknown else ".")


def _freshness(status: TableStatus, rounds: Rows) -> list[Element]:
    points = lag_points(rounds, status)
    if not points:
        return [element("p", {}, "No round has brought rows and the lake up to date yet.")]
    text = "The line shows the age of the oldest row that the lake lacked. The dashed line is the promise."
    return [element("h2", {}, "Lag"), element("p", {}, text), lag_chart(points, status.freshness_ms)]


def _rounds(rounds: Rows, now: datetime) -> list[Element]:
    ended = [row for row in rounds if row["duration_ms"] is not None]
    drawn = [row for row in ended if row["state"] != "EMPTY"][:SHOWN_ROUNDS]
    columns = ("queued", "state", "trigger", "duration", "rows", "files", "error")
    rows = [
        (
            as_text(row["pending_time"]),
            row["state"],
            row["trigger"],
            short_duration(row["duration_ms"]),
            as_text(row["records_written"]),
            as_text(row["files_written"]),
            as_text(row["error_class"]),
        )
        for row in drawn
    ]
    empty = sum(row["state"] == "EMPTY" for row in ended)
    title = f"Rounds: of the newest {len(rounds)}, {len(ended)} have ended, {empty} of them without anything to do"
    picture = timeline(drawn, now)
    heading = element("h2", {}, "When rounds ran, and where their time went")
    if picture is None:
        return [heading, table(title, columns, rows)]
    words = f"{picture.span}. {picture.label}. {LEFT_OUT} {picture.explanation}".strip()
    return [heading, rounds_chart(picture), element("p", {}, words), table(title, columns, rows)]


def _check(row: Mapping[str, Any]) -> tuple[str, ...]:
    agrees = "unknown" if row["ok"] is None else "yes" if row["ok"] else "NO"
    return row["check"], row["scope"], agrees, as_text(row["details"])


def _proof(row: Mapping[str, Any]) -> tuple[str, ...]:
    verdict = row["verdict"] if row["details"] is None else f"{row['verdict']} ({row['details']})"
    names = ("lake_snapshot_id", "archive_sha256", "fingerprint")
    snapshot, archive, key = (as_text(row[name]) for name in names)
    return as_text(row["proved_at"]), row["principal"], verdict, snapshot, counts_text(row["readers"]), archive, key


def _error(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(as_text(row[name]) for name in ("error_class", "message", "count", "last_seen", "resolved_at"))


def _buckets(buckets: Rows) -> Element:
    columns = ("partition_name", "bucket_id", "log_start_offset", "log_end_offset", "lake_offset", "lag_records", "error_class")
    title = f"Buckets: the {min(len(buckets), SHOWN_BUCKETS)} with the largest lag of {len(buckets)}"
    behind = sorted(buckets, key=lambda row: -(row["lag_records"] or 0))
    return _of(title, behind[:SHOWN_BUCKETS], columns)


def _of(title: str, rows: Rows, columns: Sequence[str]) -> Element:
    return table(title, [name.replace("_", " ") for name in columns], [[as_text(row[name]) for name in columns] for row in rows])
