"""The Python client in a notebook: rows of system tables, HTML of rows, and pictures."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from support.services.guarded_service import GuardedService, guarded_service
from support.worlds.memory_coordinator import NOON, table_status
from sys_tables.catalog_client import SystemCatalog
from tiering.access.client_access import ClientAccess
from tiering.client import AsyncLakewardClient, LakewardClient, pictures
from tiering.errors import SetupError, UnknownTable
from tiering.html.rows import SHOWN_ROWS, HtmlRows
from tiering.model.tables import TablePath
from tiering.round_history import COLUMNS

POLICIES = """
permit (principal == User::"olga", action, resource);
permit (principal == User::"ana", action == Action::"DESCRIBE", resource);
forbid (principal == User::"ana", action, resource == Table::"hr.layoffs");
"""
HOSTILE = "<script>alert('1')</script> & \x1b[2J"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    """Olga sees both tables. For Ana there is no table hr.layoffs."""
    with guarded_service(tmp_path_factory.mktemp("service"), POLICIES, {"ana": (), "olga": ()}) as running:
        for name in ("layoffs", "people"):
            running.ensure_table(TablePath("hr", name))
        yield running


@pytest.fixture
def access(service: GuardedService, tmp_path: Path) -> Callable[[str], ClientAccess]:
    return lambda user: service.access(user, tmp_path)


@pytest.fixture
def client(service: GuardedService, access: Callable[[str], ClientAccess]) -> Iterator[LakewardClient]:
    """The client of Ana."""
    with LakewardClient(service.running.uri, access("ana")) as lakeward:
        yield lakeward


class Cells(HTMLParser):
    """The texts of the cells of a table, row by row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1][-1] += data


def test_rows_are_those_that_sql_shows_the_caller(
    service: GuardedService, access: Callable[[str], ClientAccess], client: LakewardClient
) -> None:
    for user, names in (("olga", ["layoffs", "people"]), ("ana", ["people"])):
        with (
            LakewardClient(service.running.uri, access(user)) as lakeward,
            SystemCatalog(service.running.uri, access=access(user)) as catalog,
        ):
            rows = lakeward.read_system_table("tables", ("table_name", "table_id"), database_name="hr")
            assert sorted(row["table_name"] for row in rows) == names
            assert rows == catalog.read("tables", ("table_name", "table_id"), database_name="hr")
            assert len(lakeward.read_system_table("options", newest_by="name", limit=2)) == 2

    async def use() -> list[dict[str, Any]]:
        async with AsyncLakewardClient(service.running.uri, access("ana")) as lakeward:
            return await lakeward.read_system_table("tables", ("table_name",))

    assert asyncio.run(use()) == [{"table_name": "people"}]


def test_a_notebook_shows_rows_as_a_table_without_empty_columns(client: LakewardClient) -> None:
    statuses = client.list_tiering_statuses()
    cells = Cells(statuses._repr_html_())
    assert cells.rows[0][:3] == ["database_name", "table_name", "status"]
    assert cells.rows[1][:2] == ["hr", "people"]
    assert "last_error" not in cells.rows[0]
    fields = Cells(statuses[0]._repr_html_())
    assert ["table_name", "people"] in fields.rows
    assert "last_error" not in [row[0] for row in fields.rows]
    assert "TableStatus" in statuses[0]._repr_html_()


def test_texts_of_rows_are_escaped_and_times_are_in_utc() -> None:
    zone = NOON.astimezone(tz=None)
    rows: HtmlRows[dict[str, Any]] = HtmlRows([{"a": None, "b": HOSTILE, "at": zone}, {"a": None, "b": None, "at": None}])
    cells = Cells(rows._repr_html_())
    assert cells.tags == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert cells.rows == [["b", "at"], ["<script>alert('1')</script> & \\x1b[2J", "2026-03-01 12:00:00 UTC"], ["", ""]]
    assert "none" in HtmlRows([])._repr_html_()


def test_a_long_list_is_shown_in_part_and_says_so() -> None:
    html = HtmlRows([{"n": number} for number in range(12_345)])._repr_html_()
    assert f"The first {SHOWN_ROWS} of 12,345 rows" in html
    assert len(Cells(html).rows) == SHOWN_ROWS + 1


def ended(minutes_ago: int, lag_s: int, **more: Any) -> dict[str, Any]:
    """Returns a round that brought rows, for a table with the promise 180 s."""
    finished = NOON - timedelta(minutes=minutes_ago)
    began = finished - timedelta(seconds=4)
    row = dict.fromkeys(COLUMNS) | {
        "table_id": 1,
        "state": "SUCCEEDED",
        "trigger": "schedule",
        "pending_time": began,
        "started_time": began,
    }
    deadline = finished + timedelta(seconds=180 - lag_s)
    times = {"finished_time": finished, "deadline": deadline, "missed_by_ms": max(0, lag_s - 180) * 1_000, "duration_ms": 4_000}
    return row | times | {"plan_ms": 1_000, "read_ms": 10, "write_ms": 30, "records_written": 5} | more


@pytest.fixture
def axes() -> Any:
    return Figure().subplots()


def test_the_lag_is_drawn_against_the_promise(axes: Any) -> None:
    status = table_status("a.b", observed_time=NOON, lag_ms=5_000)
    assert pictures.lag_plot(status, [ended(2, 30), ended(10, 200)], axes) is axes
    lag, promise = axes.get_lines()
    assert max(lag.get_ydata()) == 200
    assert list(lag.get_ydata())[-1] == 5
    assert list(promise.get_ydata()) == [180, 180]
    assert axes.get_title() == "a.b: lag, promise 3 min"
    assert axes.get_xlabel() == "UTC"


def test_rounds_are_bars_on_a_time_line_split_into_their_parts(axes: Any) -> None:
    status = table_status("a.b", observed_time=NOON)
    rounds = [ended(0, 30), ended(2, 0, state="EMPTY"), ended(3, 0, duration_ms=None), ended(2, 30, state="FAILED")]
    pictures.rounds_plot(status, rounds, axes)
    assert axes.get_legend_handles_labels()[1] == ["plan", "read", "write", "failed"]
    plan, read, write, failed = ([(bar.get_x(), bar.get_width()) for bar in container] for container in axes.containers)
    assert [x for x, _ in plan] == [0, pytest.approx(1 - 4 / 124)]
    assert [x for x, _ in failed] == [0]
    assert sum(width for _, width in (plan[0], read[0], write[0])) == pytest.approx(4 / 124)
    assert (len(read), len(write)) == (2, 2)
    assert axes.get_xlabel() == "2026-03-01 11:57:56 to 2026-03-01 12:00:00 UTC"
    axes.figure.savefig("/dev/null", format="svg")


def test_the_newest_rounds_are_drawn(axes: Any) -> None:
    rounds = [ended(minutes, 30) for minutes in range(pictures.SHOWN_ROUNDS + 10)]
    pictures.rounds_plot(table_status("a.b", observed_time=NOON), rounds, axes)
    assert len(axes.containers[0]) == pictures.SHOWN_ROUNDS
    assert axes.get_title() == f"a.b: the last {pictures.SHOWN_ROUNDS} rounds"


def test_the_worst_health_comes_first_with_its_reason(axes: Any) -> None:
    row = {"database_name": "a", "table_name": "b", "score": 90, "reason": None, "next_action": None}
    poor = row | {"table_name": "c", "score": 10, "reason": "small files: $9 $", "next_action": "CALL ..."}
    pictures.health_plot([row, poor, row | {"score": None}], axes)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a.c", "a.b"]
    assert axes.texts[0].get_text() == "small files: $9 $"
    assert len({bar.get_facecolor() for bar in axes.patches}) == 2
    assert axes.get_title() == "Health of 2 of 3 lake tables; 1 not observed yet"
    axes.figure.savefig("/dev/null", format="svg")


def test_the_client_draws_what_the_caller_may_see(client: LakewardClient) -> None:
    for axes in (client.plot_lag("hr.people"), client.plot_rounds("hr.people"), client.plot_health(), client.plot_health("hr.people")):
        assert "hr.people" in axes.get_title() or "of 1 lake table" in axes.get_title()
    with pytest.raises(UnknownTable):
        client.plot_lag("hr.layoffs")
    assert "of 0 lake tables" in client.plot_health("hr.layoffs").get_title()


def test_without_the_extra_an_error_says_how_to_install_it(client: LakewardClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for plot in (client.plot_lag, client.plot_rounds, client.plot_health):
        with pytest.raises(SetupError) as raised:
            plot("hr.people")
        assert raised.value.message == "the pictures of the Python client need the package matplotlib"
        assert "[notebook]'" in str(raised.value.hint)


def test_the_client_loads_matplotlib_only_for_pictures() -> None:
    program = "import sys, tiering.client; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
