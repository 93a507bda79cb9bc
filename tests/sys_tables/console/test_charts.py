"""Charts: their points, their pictures for readers without scripts, and what they leave out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

import sys_tables.console
from support.services.guarded_service import GuardedService
from support.worlds.memory_coordinator import NOON, table_status
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.charts.activity import (
    CELLS,
    MAX_MISSES,
    TIERERS,
    bounds_query,
    commits_query,
    hours_before,
    misses_query,
    strips,
    throughput,
)
from sys_tables.console.charts.schemas import column_pairs
from sys_tables.console.charts.table_charts import bucket_cells, lag_chart
from sys_tables.console.charts.time_chart import HEIGHT, WIDTH, Line, Segment, TimeChart, segments, sums_over_time
from sys_tables.console.query import Query
from sys_tables.console.reader import Reader
from sys_tables.console.views.round_page import PARTS
from sys_tables.console.views.table_page import ROUND_CHOICES, ROUNDS, SHOWN_ROUNDS, shown_rounds
from sys_tables.registry import default_registry
from sys_tables.server.messages import scan_request_from_pb
from tiering.access.client_access import TOKEN_FILE, ClientAccess
from tiering.cli.sql.service_engine import ServiceDuckDbEngine
from tiering.model.sql_types import column_list
from tiering.round_history import PART_COLOURS, TIMELINE_COLUMNS

CONSOLE = Path(sys_tables.console.__file__).parent
MINUTE = timedelta(minutes=1)
HERE = {"database_name": "d", "table_name": "t"}


def status(lag_ms: int | None) -> dict[str, Any]:
    table = table_status("d.t", lag_ms=lag_ms)
    return HERE | {name: getattr(table, name) for name in ("promise", "lag_ms", "freshness_ms", "observed_time")}


def broken_for(minutes: int) -> int:
    """The lag of a table whose promise was broken so long ago."""
    return 180_000 + minutes * 60_000


def miss(deadline: datetime, minutes: float) -> dict[str, Any]:
    return HERE | {"pending_time": deadline, "deadline": deadline, "missed_by_ms": int(minutes * 60_000)}


def test_a_picture_has_the_points_of_its_chart() -> None:
    chart = TimeChart("a chart", "ms", [NOON, NOON + MINUTE, NOON + 2 * MINUTE], [Line("lag", [0, 30_000, 60_000], "value")])
    assert chart.points(chart.lines[0]) == [f"0.0,{HEIGHT}.0 {WIDTH / 2},{HEIGHT / 2} {WIDTH}.0,0.0"]
    assert chart.range_text == "up to 1 min"
    data = json.loads(chart.data)
    assert [time - data["times"][0] for time in data["times"]] == [0, 60, 120]
    assert data["lines"] == [{"name": "lag", "style": "value", "values": [0, 30_000, 60_000]}]


def test_a_chart_of_one_time_without_values_can_be_drawn() -> None:
    chart = TimeChart("a chart", "rows", [NOON], [Line("rows", [0], "value")], has_bars=True)
    point = f"0.0,{HEIGHT}.0"
    assert (chart.points(chart.lines[0]), chart.bars(chart.lines[0]), chart.range_text) == ([f"{point} {point}"], [], "up to 1 rows")


def test_a_line_has_gaps_where_its_value_is_unknown_and_a_scale_below_zero_where_it_is_negative() -> None:
    times, line = [NOON + number * MINUTE for number in range(4)], Line("x", [10, None, -10, 0], "value")
    point_part, line_part = "0.0,0.0 0.0,0.0", f"426.7,{HEIGHT}.0 {WIDTH}.0,{HEIGHT / 2}"
    assert TimeChart("a chart", "", times, [line]).points(line) == [point_part, line_part]
    assert TimeChart("a chart", "", times, [line], joins_gaps=True).points(line) == [f"0.0,0.0 {line_part}"]
    assert TimeChart("a chart", "", times, [line]).range_text == "-10 to 10"


def test_equal_neighbours_of_a_strip_are_one_part() -> None:
    assert segments(["a", "a", "b", "a"]) == [Segment(0, 2, "a"), Segment(2, 1, "b"), Segment(3, 1, "a")]


def test_rows_are_summed_in_equal_parts_of_a_time() -> None:
    rows = [{"at": NOON + second * timedelta(seconds=1), "records": 10} for second in (0, 14, 15, 59, 60)]
    assert sums_over_time(rows, "at", "records", NOON, NOON + MINUTE, 4) == [20, 10, 0, 20]


def test_throughput_begins_at_the_oldest_commit_and_counts_each_row() -> None:
    commits = [{"prepared_at": NOON - minutes * MINUTE, "records": 100 * minutes} for minutes in (0, 30, 60)]
    chart = throughput(commits, NOON)
    assert (chart.at[0], sum(chart.lines[0].values)) == (NOON - 60 * MINUTE, 9_000)
    assert chart.label == "3 commits added 9,000 rows to the lake in the last 1 h"


@pytest.mark.parametrize(
    ("lag_ms", "misses", "hours", "styles", "label"),
    [
        (None, [], 9, {"kept": CELLS}, "kept for 6 h"),
        (None, [miss(NOON - 60 * MINUTE, 2)], 9, {"kept": CELLS - 1, "partly": 1}, "broken for 2 min of the last 6 h"),
        (None, [miss(NOON - 60 * MINUTE, 15)], 9, {"kept": CELLS - 2, "broken": 2}, "broken for 15 min of the last 6 h"),
        (broken_for(40), [], 9, {"kept": CELLS - 4, "broken": 4}, "broken for 40 min of the last 6 h"),
        (180_000, [], 9, {"kept": CELLS}, "kept for 6 h"),
        (None, [miss(NOON - 600 * MINUTE, 100)], 9, {"kept": CELLS}, "kept for 6 h"),
        (
            None,
            [miss(NOON - 120 * MINUTE, 0.001)] * MAX_MISSES,
            9,
            {"unread": 24, "partly": 1, "kept": 11},
            "broken for 30 s of the last 6 h, 4 h not read",
        ),
        (None, [], 2, {"unrecorded": 24, "kept": 12}, "kept for 2 h, no record of 4 h"),
        (None, [], None, {"unrecorded": CELLS}, "no record of 6 h"),
        (
            broken_for(40),
            [],
            None,
            {"unrecorded": CELLS - 4, "broken": 4},
            "broken for 40 min of the last 6 h, no record of 5.3 h",
        ),
        (
            None,
            [miss(NOON - 60 * MINUTE, 15)],
            0.5,
            {"unrecorded": 31, "broken": 2, "kept": 3},
            "broken for 15 min of the last 6 h, no record of 5.2 h",
        ),
    ],
)
def test_a_strip_shows_broken_promises_of_the_past_and_of_now_and_what_is_not_recorded(
    lag_ms: int | None, misses: list[dict[str, Any]], hours: float | None, styles: dict[str, int], label: str
) -> None:
    bounds = [] if hours is None else [HERE | {"rounds_since": NOON - hours * 60 * MINUTE}]
    strip = strips([status(lag_ms)], misses, bounds, NOON)["d", "t"]
    cells: dict[str, int] = {}
    for part in strip.segments:
        cells[part.style] = cells.get(part.style, 0) + part.cells
    assert (cells, strip.label) == (styles, label)


def round_row(minutes_ago: float, **changes: Any) -> dict[str, Any]:
    """A round that took ten seconds, and ended that long before noon, a minute before its deadline."""
    end = NOON - minutes_ago * MINUTE
    times = {"pending_time": end - timedelta(seconds=10), "finished_time": end, "deadline": end + MINUTE, "duration_ms": 10_000}
    parts = {"waited_for_slot_ms": 10_000, "plan_ms": 1_000, "lease_ms": None, "read_ms": 0, "write_ms": 7, "commit_ms": 2_000, "ack_ms": 0}
    counts = {"table_id": 1, "missed_by_ms": 0, "records_written": 5, "round_id": f"r{minutes_ago}"}
    return HERE | times | parts | counts | {"state": "SUCCEEDED", "trigger": "schedule"} | changes


def test_the_lag_is_drawn_against_the_promise_until_now() -> None:
    table = table_status("d.t", freshness_ms=180_000, lag_ms=30_000)
    chart = lag_chart([round_row(5), round_row(9)], table)
    assert chart is not None
    lag, promise = chart.lines
    assert (max(lag.values), lag.values[-1], set(promise.values)) == (120_000, 30_000, {180_000})
    assert chart.at[-1] == table.observed_time
    assert chart.label == "The longest lag is 2 min, and the promise is 3 min"
    assert lag_chart([], table) is None


def test_the_panel_of_rounds_reads_what_its_picture_needs_and_as_many_rounds_as_the_reader_chose() -> None:
    assert set(TIMELINE_COLUMNS) <= set(ROUNDS)
    assert [shown_rounds({"rounds": str(choice)}) for choice in ROUND_CHOICES] == list(ROUND_CHOICES)
    assert [shown_rounds(parameters) for parameters in ({}, {"rounds": "7"}, {"rounds": "x"})] == [SHOWN_ROUNDS] * 3


def test_the_parts_of_a_round_have_the_same_colours_everywhere() -> None:
    style = (CONSOLE / "static" / "console.css").read_text()
    rules = {name: f".{name}_ms {{ fill: {colour}; background: {colour}; }}" for name, colour in PART_COLOURS.items()}
    assert [name for name, rule in rules.items() if rule not in style] == []
    assert [column for column in PARTS if f".{column} {{ fill:" not in style] == []


def test_a_bucket_shows_where_its_records_are() -> None:
    counts = {"log_only_records": 50, "both_records": 0, "lake_only_records": 150}
    cells = bucket_cells(
        [{"partition_name": None, "bucket_id": 3, **counts}, {"partition_name": "2026", "bucket_id": 0, **dict.fromkeys(counts)}]
    )
    assert [(cell.name, cell.shares) for cell in cells] == [("3", [("hot", 0.0, 25.0), ("cold", 25.0, 75.0)]), ("2026/0", [])]


def test_columns_of_source_and_lake_are_compared_by_name() -> None:
    nested = pa.struct([pa.field("a", pa.int64()), pa.field("b, c", pa.decimal128(9, 2))])
    odd = 'a `b`, "c" (d'
    source = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("small", pa.int8()), ("n", nested), (odd, pa.string()), ("new", pa.string())]
    )
    lake = pa.schema(
        [(odd, pa.string()), ("id", pa.int64()), ("small", pa.int32()), ("n", nested), ("__bucket", pa.int32()), ("old", pa.date32())]
    )
    pairs = column_pairs(column_list(source), column_list(lake))
    assert [(pair.name, pair.difference) for pair in pairs] == [
        ("id", ""),
        ("small", "another type"),
        ("n", ""),
        (odd, ""),
        ("new", "not in the lake yet"),
        ("__bucket", "a column that Lakeward adds"),
        ("old", "only in the lake"),
    ]
    assert (pairs[0].source_type, pairs[0].lake_type, pairs[-1].source_type) == ("BIGINT NOT NULL", "BIGINT", None)
    assert pairs[2].source_type == pairs[2].lake_type == "STRUCT<a: BIGINT, `b, c`: DECIMAL(9,2)>"


def test_the_service_reads_for_strips_only_rounds_of_the_listed_tables_that_missed_their_promise() -> None:
    """Without these bounds it would read all rounds of the last hours, which are many with 10,000 tables."""
    table = default_registry().table("tiering_rounds")
    ranges: list[Any] = []

    class History:
        def read_rounds(self, history_range: Any) -> list[Any]:
            ranges.append(history_range)
            return []

    class View:
        history = History()

    scan = scan_request_from_pb(misses_query([("a", "x"), ("b", "y")], NOON).request(), ())
    assert list(table.rows(View(), scan)) == []  # type: ignore[arg-type, call-overload]
    assert [(within.paths, within.is_missed, within.since) for within in ranges] == [(frozenset({("a", "x"), ("b", "y")}), True, NOON)]


def test_the_sql_of_the_overviews_panels_can_be_run(
    service: GuardedService, access: Callable[[str], ClientAccess], monkeypatch: pytest.MonkeyPatch
) -> None:
    olga = access("olga")
    monkeypatch.setenv(TOKEN_FILE, str(olga.token_file))
    queries: list[Query] = [
        TIERERS,
        commits_query(hours_before(NOON)),
        misses_query([("hr", "people"), ("hr", "layoffs")], hours_before(NOON)),
        bounds_query([("hr", "people"), ("hr", "layoffs")]),
    ]
    engine = ServiceDuckDbEngine(service.running.uri)
    with SystemCatalog(service.running.uri, access=olga) as catalog:
        reader = Reader(catalog, default_registry())
        assert [len(reader.rows(query)) for query in queries] == [len(engine.execute(query.sql()).rows) for query in queries]
    engine.close()


def test_the_overview_shows_its_charts_to_who_may_see_them_and_says_what_is_missing_to_others(
    signed_in: Callable[[str], TestClient],
) -> None:
    olga, ana = signed_in("olga").get("/").text, signed_in("ana").get("/").text
    assert "No commit reached the lake in the last 6 hours." in olga
    assert "No tierer is connected" in olga
    assert "ana lacks OPERATE on the service" in ana
    assert ('aria-label="no record of 6 h"' in olga, "SQL of the last 6 h" in olga) == (True, True)
    assert "Throughput" not in signed_in("olga").get("/?q=people").text


def test_no_page_has_inline_styles_or_scripts() -> None:
    texts = {file.name: file.read_text() for file in (CONSOLE / "templates").iterdir()}
    assert [name for name, text in texts.items() if " style=" in text or "<style" in text or "<script>" in text or " onclick" in text] == []
