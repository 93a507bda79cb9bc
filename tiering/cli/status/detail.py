"""A page about the tiering of one table: its state, what to do, and then the numbers. Pure.

Lines without a value are left out, which keeps the page short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tiering.cli.spark.properties import CATALOG
from tiering.cli.status.view import lag_style, status_style
from tiering.cli.terminal.consoles import printable
from tiering.cli.terminal.output import as_text
from tiering.counts import counted
from tiering.durations import short_duration
from tiering.errors import LakewardError
from tiering.model.rounds import RanOn, RoundState
from tiering.model.states import TableState
from tiering.model.status import Promise, TableStatus

Line = tuple[str, Text]

LastRounds = Sequence[Mapping[str, Any]] | LakewardError
"""Rows of `sys.tiering_rounds` with ROUND_COLUMNS, the newest first, or the error that prevented the read."""

ROUND_COLUMNS = (
    "table_id",
    "state",
    "pending_time",
    "started_time",
    "duration_ms",
    "records_written",
    "ran_on",
    "spark_job_id",
    "error_class",
    "error_message",
)
SHOWN_ROUNDS = 5
READ_ROUNDS = 60
"""Rounds that are read. Successive rounds that found nothing to do are shown as one line."""
_ROUND_STYLES = {RoundState.FAILED: "red", RoundState.FENCED: "yellow", RoundState.CANCELLED: "yellow", RoundState.RUNNING: "cyan"}
_STATE_WIDTH = max(len(state) for state in RoundState)
_ERROR_LENGTH = 80
"""Shown characters of a former round's error. The page shows the current error in full."""
_FAILURES_TO_WAIT_FOR = 5
"""Failures in a row. Most temporary errors end before."""
_LEAST_WIDTH = 20
"""Smallest width of a value in cells, also on a narrow terminal."""


class StatusPage:
    """The page about one table, for a console."""

    def __init__(self, status: TableStatus, rounds: LastRounds = ()) -> None:
        self._status = status
        self._rounds = rounds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        status = self._status
        yield Text(printable(f"{status.database_name}.{status.table_name}"), style="bold").append(
            f"  {status.table_type}, id {status.table_id}, as of {as_text(status.observed_time)} UTC", style="not bold dim"
        )
        lines = [*status_lines(status), *round_lines(self._rounds, status.observed_time)]
        pad = max(cell_len(name) for name, _ in lines) + 4
        for name, value in lines:
            # Wrapped here, so that lines of a long error are aligned behind the names. A file or a pipe has no width.
            wrapped = value.wrap(console, max(options.max_width - pad, _LEAST_WIDTH)) if console.is_terminal else [value]
            yield Text(f"  {name}".ljust(pad)).append_text(Text("\n" + " " * pad).join(wrapped))


def status_lines(status: TableStatus) -> Iterator[Line]:
    """Yields names and values, the most urgent first."""
    yield "state", _state(status)
    yield from _text_line("why", status.status_reason)
    if status.paused:
        yield from _text_line("paused", _pause(status), "magenta")
    yield "lag", _lag(status)
    if status.last_error is not None:
        where = f" in {status.error_phase}" if status.error_phase else ""
        yield "error", Text(f"{status.error_class}{where}: ", style="red").append(printable(status.last_error), style="not red")
        yield from _text_line("since", _failures(status))
        yield from _text_line("hint", status.error_hint, "green")
    yield "what to do", Text(what_to_do(status), style="bold" if needs_action(status) else "")
    yield from _text_line("next action", status.next_action, "bold green")
    yield from _text_line("next retry", _moment(status.next_retry_time, status.observed_time))
    yield from _text_line("round", _round(status))
    yield from _text_line("tiered", _tiered(status))
    yield "lake", Text(_lake(status))


def round_lines(rounds: LastRounds, now: datetime) -> Iterator[Line]:
    """Yields a line per round: its begin or entry into the queue, state, duration, records, place, and error."""
    if isinstance(rounds, LakewardError):
        yield "rounds", Text(printable(f"unknown: {rounds.message}"))
        return
    for number, (row, *earlier) in enumerate(islice(_runs(rounds), SHOWN_ROUNDS)):
        text = _former_round(row, now)
        if earlier:
            text.append(f", the last of {len(earlier) + 1} since {as_text(earlier[-1]['started_time'] or earlier[-1]['pending_time'])}")
        yield "" if number else "rounds", text


def _runs(rounds: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yields each round in its own list, and successive rounds without rows and errors in one list."""
    for is_empty, group in groupby(rounds, lambda row: row["state"] == RoundState.EMPTY and row["error_class"] is None):
        run = list(group)
        yield from [run] if is_empty else [[row] for row in run]


def _former_round(row: Mapping[str, Any], now: datetime) -> Text:
    started, state = row["started_time"], row["state"]
    text = Text(f"{as_text(started or row['pending_time'])}  ").append(state, style=_ROUND_STYLES.get(state, ""))
    parts = []
    if started is not None:
        parts.append(_age(started, now) if row["duration_ms"] is None else short_duration(row["duration_ms"]))
    if row["records_written"]:
        parts.append(counted(row["records_written"], "record"))
    if row["ran_on"] is not None:
        parts.append(_place(row["ran_on"], row["spark_job_id"]))
    if row["error_class"] is not None:
        message = " ".join(printable(row["error_message"] or "").split())
        cut = message if len(message) <= _ERROR_LENGTH else f"{message[: _ERROR_LENGTH - 1]}…"
        parts.append(f"{row['error_class']}: {cut}")
    return text.append(" " * (_STATE_WIDTH - len(state) + 2) + ", ".join(parts), style="default") if parts else text


def _place(ran_on: str, spark_job_id: int | None) -> str:
    if ran_on != RanOn.SPARK:
        return "inline in the tierer"
    return "on Spark" if spark_job_id is None else f"on Spark as job {spark_job_id}"


def needs_action(status: TableStatus) -> bool:
    """Returns whether the table needs an action of a person."""
    return status.paused or (status.last_error is not None and not status.error_retryable)


def what_to_do(status: TableStatus) -> str:
    """Returns one sentence about what to do, for the person on call."""
    path = f"{status.database_name}.{status.table_name}"
    if status.next_action is not None:
        where = "" if status.next_action.startswith(f"CALL {CATALOG}.") else ", with the lake's catalog: `lakeward sql --lake`"
        return f"the next action, in Spark SQL{where}" + ("; nothing is tiered until the pause ends" if status.paused else "")
    if status.paused:
        return "nothing is tiered until the pause ends"
    if status.last_error is None:
        # A call does not help a table that waits for a tierer already.
        sooner = "" if status.status == TableState.PENDING else f"; `lakeward tier {path}` does not wait"
        return f"the lake copy is older than the freshness: see `why`{sooner}" if status.promise == Promise.BROKEN else "nothing"
    if status.error_retryable:
        in_vain = status.consecutive_failures > _FAILURES_TO_WAIT_FOR
        return "the retries have failed so far: follow the hint" if in_vain else "nothing yet: it is retried automatically"
    if status.status != TableState.FAILED:
        return "nothing yet: it is retried now"
    return f"follow the hint, and then: lakeward tier {path}"


def _state(status: TableStatus) -> Text:
    text = Text(status.status, style=status_style(status.status))
    if status.paused:
        text.append(" paused", style="magenta")
    return text.append(f"  for {_age(status.status_since, status.observed_time)}", style="not bold default")


def _pause(status: TableStatus) -> str:
    by = f"by {status.paused_by}" if status.paused_by else "yes"
    until = f", until {as_text(status.paused_until)}" if status.paused_until else ""
    return f"{by}{until}{f': {status.paused_reason}' if status.paused_reason else ''}"


def _lag(status: TableStatus) -> Text:
    lag = short_duration(status.lag_ms) or "unknown"
    text = Text(lag, style=lag_style(status)).append(f"; promised {short_duration(status.freshness_ms)}", style="default")
    if status.pending_records is not None:
        size = "" if status.pending_bytes is None else f", about {status.pending_bytes:,} bytes"
        text.append(
            f"; {counted(status.pending_records, 'record')} {'waits' if status.pending_records == 1 else 'wait'}{size}", style="default"
        )
    return text


def _failures(status: TableStatus) -> str | None:
    if status.last_error_time is None:
        return None
    return f"{as_text(status.last_error_time)}; {status.consecutive_failures:,} in a row, {status.error_count:,} in all"


def _moment(moment: datetime | None, now: datetime) -> str | None:
    if moment is None:
        return None
    wait_ms = int((moment - now).total_seconds() * 1_000)
    return f"{as_text(moment)}, {f'in {short_duration(wait_ms)}' if wait_ms > 0 else 'now'}"


def _round(status: TableStatus) -> str | None:
    if status.round_id is None:
        return None
    parts = [status.round_id, f"epoch {status.tiering_epoch}"]
    if status.fraction_completed is not None:
        parts.append(f"{status.fraction_completed:.0%} done")
    if status.tierer_id is not None:
        parts.append(f"on {status.tierer_id}")
    if status.round_started_time is not None:
        parts.append(f"for {_age(status.round_started_time, status.observed_time)}")
    return ", ".join(parts)


def _tiered(status: TableStatus) -> str:
    if status.last_tiered_time is None:
        return "never"
    duration = f", in {short_duration(status.last_round_duration_ms)}" if status.last_round_duration_ms is not None else ""
    return f"{as_text(status.last_tiered_time)}, {_age(status.last_tiered_time, status.observed_time)} ago{duration}"


def _lake(status: TableStatus) -> str:
    if status.lake_snapshot_id is None:
        return f"{status.lake_format}, no snapshot yet"
    sizes = ((status.lake_records, "records"), (status.lake_files, "files"), (status.lake_bytes, "bytes"))
    return ", ".join(
        [f"{status.lake_format} snapshot {status.lake_snapshot_id}", *(f"{size:,} {unit}" for size, unit in sizes if size is not None)]
    )


def _age(since: datetime, now: datetime) -> str:
    return short_duration(max(int((now - since).total_seconds()), 0) * 1_000)


def _text_line(name: str, text: str | None, style: str = "") -> Iterator[Line]:
    if text:
        yield name, Text(printable(text), style=style)
