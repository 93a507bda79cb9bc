"""`lakeward status`, once and as a watch: what one screen shows, and how a watch ends."""

from __future__ import annotations

import csv
import io
import json
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from support.repository import ROOT
from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from support.running.processes import Process, wait_for
from support.running.terminals import Terminal
from support.worlds.memory_coordinator import NOON, table_status
from sys_tables.catalog_client import SystemCatalog
from tiering.cli.commands.status import LEFT_OUT_FIRST, Watch
from tiering.cli.status.detail import ROUND_COLUMNS, LastRounds, StatusPage
from tiering.cli.status.view import StatusScreen, status_style
from tiering.cli.terminal.output import as_text
from tiering.durations import short_duration
from tiering.errors import AccessDenied, ServiceUnreachable
from tiering.model.states import TableState
from tiering.model.status import TableStatus
from tiering.round_history import WAIT_COLUMNS, Round

URI = "127.0.0.1:7707"
FAILED: dict[str, Any] = {
    "status": "Failed",
    "last_error": "the lake table web.b has the column 'checked_by'\n" + "and much more " * 60,
    "error_class": "SchemaDrift",
    "error_phase": "PLAN",
    "error_hint": "Mend it.",
}


def page(status: TableStatus, width: int = 100, rounds: LastRounds = ()) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(StatusPage(status, rounds))
    return [line.rstrip() for line in str(console.file.getvalue()).splitlines()]  # type: ignore[attr-defined]


def drawn(statuses: Sequence[TableStatus], width: int = 120, height: int = 40, trouble: str = "") -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    console.print(StatusScreen(statuses, URI, NOON, trouble))
    return str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined]


class FileInEncoding(io.StringIO):
    """A text file whose encoding rich asks for."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def brought(minutes_ago: float, lag_ms: int, rows: int, freshness_ms: int = 180_000) -> dict[str, Any]:
    """Returns a round that brought rows to the lake, the oldest of which had waited for the lag."""
    finished = NOON - timedelta(minutes=minutes_ago)
    row = dict.fromkeys(WAIT_COLUMNS) | {"table_id": 1, "state": "SUCCEEDED", "trigger": "schedule", "pending_time": finished}
    times = {"finished_time": finished, "deadline": finished + timedelta(milliseconds=freshness_ms - lag_ms), "duration_ms": 1_000}
    return row | times | {"missed_by_ms": max(0, lag_ms - freshness_ms), "records_written": rows}


LAGS = [brought(3, 0, 100), brought(2, 90_000, 400), brought(1, 180_000, 800), brought(0, 400_000, 0)]


def sparklines(width: int = 160, encoding: str = "utf-8", **console: Any) -> list[str]:
    """Returns the line of one table with LAGS."""
    file = FileInEncoding(encoding)
    screen = StatusScreen([table_status("a.b")], URI, NOON, rounds={1: LAGS})
    Console(width=width, height=40, file=file, force_terminal=True, legacy_windows=False, **console).print(screen)
    return [line for line in file.getvalue().splitlines() if "a.b" in line]


def test_sparklines_show_the_last_lags_against_the_promise_and_the_throughput() -> None:
    [line] = sparklines(color_system=None)
    assert "▁▅██ │" in line
    assert "▂▅█ │" in line
    [line] = sparklines(color_system="standard", _environ={})
    assert line.count("\x1b[31m█\x1b[0m") == 1  # only the broken promise is red


@pytest.mark.parametrize(
    "plain",
    [
        {"encoding": "ascii", "color_system": None},
        {"color_system": "standard", "_environ": {"NO_COLOR": "1"}},
        {"_environ": {"TERM": "dumb"}},
    ],
)
def test_sparklines_are_ascii_without_blocks_or_without_colours(plain: dict[str, Any]) -> None:
    [line] = sparklines(**plain)
    assert " _=#! " in line
    assert " .=# " in line
    assert not set("▁▂▃▄▅▆▇█") & set(line)


def test_sparklines_have_the_last_rounds_of_their_own_table() -> None:
    statuses = [table_status("a.b"), table_status("a.c", table_id=2)]
    console = Console(width=160, height=40, file=FileInEncoding("utf-8"), force_terminal=True, color_system=None)
    console.print(StatusScreen(statuses, URI, NOON, rounds={1: [brought(minute, 0, 1) for minute in range(40)]}))
    lines = [line for line in str(console.file.getvalue()).splitlines() if "a." in line]  # type: ignore[attr-defined]
    assert [line.count("▁" * 12) for line in lines] == [1, 0]
    assert "▁" * 13 not in "".join(lines)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_a_narrow_terminal_goes_without_sparklines_and_not_without_the_state(width: int) -> None:
    [line] = sparklines(width, color_system=None)
    assert cell_len(line) <= width
    assert "Scheduled" in line
    assert ("▁▅██" in line) == (width >= 60)


def test_every_state_has_a_colour() -> None:
    assert all(status_style(state.value) for state in TableState)


def test_one_line_sums_up_and_tables_that_need_an_operator_come_first() -> None:
    statuses = [table_status("a.fine"), table_status("a.busy", status="Tiering", paused=True), table_status("web.b", **FAILED)]
    lines = drawn(statuses)
    assert lines[0] == "3 lake tables: 1 Failed, 1 Scheduled, 1 Tiering, 1 paused; 12:00:00 UTC, 127.0.0.1:7707"
    assert [line.split("│")[1].strip() for line in lines if line.startswith("│")] == ["web.b", "a.busy", "a.fine"]


def test_an_error_is_told_with_phase_and_class_in_a_few_lines() -> None:
    lines = drawn([table_status("web.b", **FAILED)], width=60)
    start = next(index for index, line in enumerate(lines) if line.startswith("web.b: SchemaDrift in PLAN: the lake table"))
    assert len(lines) - start == 3
    assert lines[-1].rstrip().endswith("…")
    short = drawn([table_status("web.b", **(FAILED | {"last_error": "bad \x1b[2J"}))])
    assert short[-1] == r"web.b: SchemaDrift in PLAN: bad \x1b[2J -> Mend it."
    helped = drawn([table_status("web.b", **(FAILED | {"last_error": "bad"}), next_action="CALL fluss.sys.retry_tiering('web.b')")])
    assert helped[-1] == "web.b: SchemaDrift in PLAN: bad -> CALL fluss.sys.retry_tiering('web.b')"


def test_lag_progress_and_counts_are_for_people() -> None:
    running = table_status(
        "a.t",
        status="Tiering",
        lag_ms=90_000,
        fraction_completed=0.5,
        pending_records=1_234_567,
        last_tiered_time=NOON - timedelta(minutes=90),
        observed_time=NOON,
    )
    [row] = [line for line in drawn([running]) if line.startswith("│")]
    assert "1.5 min" in row
    assert "1,234,567" in row
    assert "1.5 h ago" in row
    assert "━━━━" in row


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, ""), (0, "0 ms"), (850, "850 ms"), (3_200, "3.2 s"), (240_000, "4 min"), (9_000_000, "2.5 h"), (3 * 86_400_000, "3 d")],
)
def test_durations_are_short(milliseconds: int | None, text: str) -> None:
    assert short_duration(milliseconds) == text


@pytest.mark.parametrize("width", [20, 30, 50, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    statuses = [table_status("web.b", **FAILED), table_status(f"{'d' * 60}.{'t' * 60}", status_reason="why " * 30, lag_ms=5)]
    lines = drawn(statuses, width=width, trouble="no Lakeward service answers")
    assert max(len(line) for line in lines) <= width
    assert any("Failed" in line for line in lines if line.startswith("│"))


@pytest.mark.parametrize("height", [8, 12, 24])
def test_what_does_not_fit_is_counted(height: int) -> None:
    lines = drawn([table_status(f"a.t{number:03}") for number in range(100)], height=height)
    shown = sum(line.startswith("│") for line in lines)
    assert len(lines) <= height
    assert f"... and {100 - shown} more tables, {100 - shown} Scheduled" in lines


def watch(looks: Sequence[Sequence[TableStatus] | Exception], read_rounds: Callable[[], Sequence[Round]] = list) -> Watch:
    """One look after the other, then Ctrl-C."""
    remaining = list(looks)

    def look() -> Sequence[TableStatus]:
        answer = remaining.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pause(_: float) -> None:
        if not remaining:
            raise KeyboardInterrupt

    return Watch(look, read_rounds, URI, 1.0, pause, lambda: NOON)


AWAY = ServiceUnreachable("no Lakeward service answers at 127.0.0.1:7707")
FINE, BUSY = [table_status("a.t")], [table_status("a.t", status="Tiering")]


def test_a_service_that_goes_away_is_waited_for_and_the_last_answer_stays() -> None:
    console = Console(width=100, height=30, file=io.StringIO(), force_terminal=True, color_system=None)
    watch([FINE, AWAY, BUSY]).on_terminal(console)
    screens = console.file.getvalue().split("\x1b[2K\x1b[1m")  # type: ignore[attr-defined]
    text = "".join(screens)
    assert text.index("Scheduled") < text.index("no Lakeward service answers") < text.rindex("Tiering")


def test_the_first_screen_has_the_history_of_the_service() -> None:
    console = Console(width=160, height=30, file=FileInEncoding("utf-8"), force_terminal=True, color_system=None)
    watch([FINE], lambda: LAGS).on_terminal(console)
    assert "▁▅██" in str(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_service_that_shows_no_rounds_is_watched_without_them() -> None:
    def refuse() -> Sequence[Round]:
        raise AccessDenied("you may not read rounds")

    console = Console(width=160, height=30, file=FileInEncoding("utf-8"), force_terminal=True, color_system=None)
    watch([FINE, BUSY], refuse).on_terminal(console)
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert "without the history of rounds: you may not read rounds" in text
    assert "Tiering" in text


def test_outside_a_terminal_every_look_is_shown_and_every_failed_one_told() -> None:
    shown: list[Sequence[TableStatus]] = []
    complaints: list[str] = []
    watch([FINE, AWAY, BUSY]).elsewhere(shown.append, complaints.append)
    assert shown == [FINE, BUSY]
    assert complaints == [AWAY.message]


@pytest.mark.parametrize(
    "run", [lambda screen: screen.on_terminal(Console(file=io.StringIO())), lambda screen: screen.elsewhere(print, print)]
)
def test_no_service_at_the_first_look_is_an_error(run: Callable[[Watch], None]) -> None:
    with pytest.raises(ServiceUnreachable):
        run(watch([AWAY]))


def test_one_table_is_a_page_that_says_what_to_do() -> None:
    status = table_status(
        "web.b",
        **FAILED,
        error_retryable=False,
        consecutive_failures=3,
        error_count=7,
        last_error_time=NOON - timedelta(minutes=2),
        lag_ms=400_000,
        pending_records=1_200,
        status_since=NOON - timedelta(minutes=5),
        last_tiered_time=NOON - timedelta(hours=1),
        lake_snapshot_id=77,
        lake_records=5_000,
    )
    lines = page(status)
    assert lines[0].startswith("web.b  LOG, id 1, as of ")
    named = {line[2:14].strip(): line[14:].strip() for line in lines[1:] if line[2:3].strip()}
    assert named["state"].startswith("Failed  for 5 min")
    assert named["lag"] == "6.7 min; promised 3 min; 1,200 records wait"
    assert named["hint"] == "Mend it."
    assert named["what to do"] == "follow the hint, and then: lakeward tier web.b"
    assert "3 in a row, 7 in all" in named["since"]
    assert "1 h ago" in named["tiered"]
    assert named["lake"] == "iceberg snapshot 77, 5,000 records"
    assert list(named) == ["state", "lag", "error", "since", "hint", "what to do", "tiered", "lake"]
    assert " ".join(line.strip() for line in lines).count("and much more") == 60  # nothing is cut
    assert all(len(line) <= 100 for line in lines)


def test_a_page_says_when_it_tries_again_and_how_far_a_round_is() -> None:
    failing = page(table_status("a.b", **FAILED, error_retryable=True, next_retry_time=NOON + timedelta(seconds=30)))
    assert "  what to do  nothing yet: it is retried automatically" in failing
    assert any(line.startswith("  next retry  ") and line.endswith("in 30 s") for line in failing)
    running = page(table_status("a.b", status="Tiering", round_id="r1", tiering_epoch=4, tierer_id="t1", fraction_completed=0.25))
    assert "  round       r1, epoch 4, 25% done, on t1" in running
    resume = "CALL fluss.sys.resume_tiering('a.b')"
    paused = page(table_status("a.b", paused=True, paused_by="ann", paused_reason="a move", next_action=resume))
    assert "  paused       by ann: a move" in paused
    assert f"  next action  {resume}" in paused
    drifted = page(table_status("a.b", next_action="ALTER TABLE lake.a.b RENAME COLUMN w TO v"))
    assert "  what to do   the next action, in Spark SQL, with the lake's catalog: `lakeward sql --lake`" in drifted
    waiting = page(table_status("a.b", status="Pending", lag_ms=400_000))
    assert "  what to do  the lake copy is older than the freshness: see `why`" in waiting
    in_vain = page(table_status("web.b", **FAILED, error_retryable=True, consecutive_failures=6))
    assert "  what to do  the retries have failed so far: follow the hint" in in_vain
    hidden = page(table_status("a.b", **(FAILED | {"last_error": "bad \x1b[2J"})))
    assert any("bad \\x1b[2J" in line for line in hidden)


def last_round(state: str, minutes_ago: float, **fields: Any) -> dict[str, Any]:
    began = NOON - timedelta(minutes=minutes_ago)
    return dict.fromkeys(ROUND_COLUMNS) | {"state": state, "pending_time": began, "started_time": began} | fields


def test_a_page_ends_with_the_last_rounds() -> None:
    rounds = [
        last_round("QUEUED", 0, started_time=None),
        last_round("RUNNING", 1),
        last_round("FAILED", 2, duration_ms=300, error_class="SchemaDrift", error_message="the column\n" + "checked_by " * 20),
        last_round("SUCCEEDED", 3, duration_ms=2_100, records_written=1_200, ran_on="SPARK", spark_job_id=0),
        last_round("SUCCEEDED", 3, duration_ms=2_100, records_written=1, ran_on="SPARK"),
        last_round("SUCCEEDED", 3, duration_ms=2_100, records_written=1, ran_on="INLINE"),
        last_round("EMPTY", 4, duration_ms=20, records_written=0),
    ]
    ends = [page(table_status("a.b", observed_time=NOON), width=200, rounds=few)[-len(few) :] for few in (rounds[:4], rounds[4:])]
    assert [line.replace("  rounds  ", "          ") for lines in ends for line in lines] == [
        "              2026-03-01 12:00:00  QUEUED",
        "              2026-03-01 11:59:00  RUNNING         1 min",
        "              2026-03-01 11:58:00  FAILED          300 ms, SchemaDrift: the column checked_by checked_by checked_by "
        "checked_by checked_by checked_by ch…",
        "              2026-03-01 11:57:00  SUCCEEDED       2.1 s, 1,200 records, on Spark as job 0",
        "              2026-03-01 11:57:00  SUCCEEDED       2.1 s, 1 record, on Spark",
        "              2026-03-01 11:57:00  SUCCEEDED       2.1 s, 1 record, inline in the tierer",
        "              2026-03-01 11:56:00  EMPTY           20 ms",
    ]
    idle = page(table_status("a.b"), width=200, rounds=[last_round("EMPTY", minutes, duration_ms=20) for minutes in range(40)] + rounds)
    assert idle[-5] == "  rounds      2026-03-01 12:00:00  EMPTY           20 ms, the last of 40 since 2026-03-01 11:21:00"
    assert idle[-4].endswith("QUEUED")
    untold = page(table_status("a.b"), rounds=ServiceUnreachable("the store is away"))
    assert untold[-1] == "  rounds      unknown: the store is away"


def test_the_rounds_of_a_page_are_those_of_the_service(stocked: Deployment, lakeward: Lakeward) -> None:
    lakeward("tier", "sales.orders", "--no-wait")
    with SystemCatalog(stocked.uri) as catalog:
        newest = lambda: catalog.read("tiering_rounds", newest_by="pending_time", limit=1, table_name="orders")  # noqa: E731
        [queued] = wait_for("the round is queued", newest)
    assert lakeward("status", "sales.orders").out.splitlines()[-1].endswith(f"{as_text(queued['pending_time'])}  QUEUED")


def test_the_page_is_for_people_and_programs_get_the_row(lakeward: Lakeward) -> None:
    assert lakeward("status", "sales.orders").out.startswith("sales.orders  LOG, id ")
    [row] = json.loads(lakeward("status", "sales.orders", "--format", "json").out)
    assert row["table"] == "sales.orders"


def test_a_narrow_terminal_goes_without_columns_in_the_order_of_the_manual(stocked: Deployment) -> None:
    with Terminal("status", "--uri", stocked.uri, columns=60) as terminal:
        assert terminal.wait_ended() == 0
    note = next(line for line in terminal.text.splitlines() if line.startswith("too narrow for: "))
    left_out = note.removeprefix("too narrow for: ").partition(";")[0].split(", ")
    assert left_out == list(LEFT_OUT_FIRST[: len(left_out)])
    table = [line for line in terminal.text.splitlines() if "sales.orders" in line]
    assert table
    assert all(len(line) <= 60 for line in table)
    assert f"`{'`, `'.join(LEFT_OUT_FIRST)}`" in (ROOT / "docs" / "cli.md").read_text().replace("\n", " ")


def test_the_three_forms_have_the_same_tables(lakeward: Lakeward) -> None:
    names = ["sales.orders", "web.clicks"]
    assert [row["table"] for row in json.loads(lakeward("status", "--format", "json").out)] == names
    assert [row["table"] for row in csv.DictReader(io.StringIO(lakeward("status", "--format", "csv").out))] == names
    assert all(name in lakeward("status").out for name in names)


def test_an_interval_too_short_to_read_is_refused(lakeward: Lakeward) -> None:
    ended = lakeward("status", "--watch", "--interval", "1 ms")
    assert ended.status == 2
    assert "--interval '1 ms'" in ended.err


def test_a_watch_redraws_in_place_and_ends_on_ctrl_c(stocked: Deployment) -> None:
    with Terminal("status", "--watch", "--interval", "100 ms", "--uri", stocked.uri, columns=90, lines=20) as terminal:
        wait_for("three screens", lambda: terminal.text.count("2 lake tables: ") >= 3)
        terminal.type("\x03")
        assert terminal.wait_ended() == 0
    assert "\x1b[1A" in terminal.raw  # up to the first line of the last screen
    assert "\x1b[2J" not in terminal.raw  # never cleared: that flickers
    assert "without the history" not in terminal.text
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l")  # the cursor is back
    assert "Traceback" not in terminal.text


def test_a_watch_into_a_pipe_writes_a_line_of_json_a_look(stocked: Deployment, tmp_path: Path) -> None:
    log = tmp_path / "watch.log"
    process = Process("status", "--watch", "--interval", "100 ms", "--format", "json", "--uri", stocked.uri, log=log)
    try:
        wait_for("two looks", lambda: process.output().count("\n") >= 2)
        process.send(signal.SIGINT)
        assert process.wait_ended() == 0
    finally:
        process.close()
    looks = [json.loads(line) for line in process.output().splitlines()]
    assert all([row["table"] for row in look] == ["sales.orders", "web.clicks"] for look in looks)
