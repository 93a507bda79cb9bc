"""The pages show the rows that SQL shows the same user, and nothing of other tables."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.services.guarded_service import GuardedService
from support.services.sys_catalog import serving
from support.worlds.memory_coordinator import NOON, MemoryCoordinator, table_status
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.app import console_app
from sys_tables.console.overview import (
    BY_PROMISE,
    BY_STATE,
    COLUMNS,
    PERSONS,
    PROMISES,
    STATUS_TABLE,
    UNKNOWN_PROMISE,
    URGENT,
    Search,
    overview,
    promise_is,
)
from sys_tables.console.query import Query, equal
from sys_tables.console.reader import FilledPanel, Panel, Reader
from sys_tables.console.sign_in_pages import Site
from sys_tables.console.signing_in import SignInCodes
from sys_tables.console.views.round_page import panels as round_panels
from sys_tables.console.views.table_page import panels, table_page
from sys_tables.declare.scan import Order
from sys_tables.registry import default_registry
from sys_tables.server.messages import scan_request_from_pb
from tiering.access.client_access import TOKEN_FILE, ClientAccess
from tiering.cli.sql.service_engine import ServiceDuckDbEngine
from tiering.errors import LakewardError, ServiceUnreachable, UnknownTable
from tiering.model.reading.conditions import Condition, Filter, Operator
from tiering.model.status import TableStatus

Browser = Callable[[str], TestClient]
Access = Callable[[str], ClientAccess]


def linked_tables(text: str) -> list[str]:
    return re.findall(r'href="http://127\.0\.0\.1:7717/tables/([^"]+)"', text)


def text_of(page: str) -> str:
    """The text that a reader sees."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_overview_shows_each_table_with_its_state_and_promise(signed_in: Browser) -> None:
    page = signed_in("olga").get("/")
    assert linked_tables(page.text) == ["hr/layoffs", "hr/people"]
    assert ("2 Scheduled" in text_of(page.text), "2 kept" in text_of(page.text)) == (True, True)
    assert [query.sql() in html.unescape(page.text) for query in (BY_STATE, BY_PROMISE, PERSONS)] == [True] * 3


def test_a_hidden_table_is_nowhere(signed_in: Browser) -> None:
    olga, ana = signed_in("olga"), signed_in("ana")
    pages = ["/", "/?q=layoffs", "/?q=hr.", "/?sort=name&promise=kept&state=Scheduled", "/?person=yes"]
    assert any("layoffs" in text_of(olga.get(page).text) for page in pages)
    for page in pages:
        answer = ana.get(page)
        shown = re.sub(r'value="layoffs"|contains\(lower\(\w+\), &#39;layoffs&#39;\)|layoffs&amp;', "", answer.text)
        assert (answer.status_code, "layoffs" in shown) == (200, False), page
    assert "1 Scheduled" in text_of(ana.get("/?q=layoffs").text)
    assert [len(re.findall("<option", browser.get("/table-names?table=L").text)) for browser in (olga, ana)] == [2, 1]
    hidden, unknown = ana.get("/tables/hr/layoffs"), ana.get("/tables/hr/nothing")
    assert (hidden.status_code, hidden.text.replace("layoffs", "nothing")) == (404, unknown.text.replace("layoffs", "nothing"))


def test_without_tables_the_overview_says_how_to_begin(signed_in: Browser) -> None:
    text = text_of(signed_in("nina").get("/").text)
    assert ("There is no lake table yet" in text, "lakeward ingest" in text) == (True, True)


def test_the_page_of_a_table_explains_it_and_says_what_empty_panels_mean(signed_in: Browser) -> None:
    answer = signed_in("ana").get("/tables/hr/people")
    text = text_of(answer.text)
    assert answer.status_code == 200
    assert "the lake copy may be at most 3 min old" in text
    for words in (
        "No round of this table has failed.",
        "No round has been queued yet.",
        "No commit has been granted yet.",
        "No record waits because the lake cannot hold it.",
        "The table has not been proved.",
        "LOG",
    ):
        assert words in text


def test_the_sql_of_each_panel_returns_the_rows_of_the_panel(
    service: GuardedService, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    olga = access("olga")
    monkeypatch.setenv(TOKEN_FILE, str(olga.token_file))
    engine = ServiceDuckDbEngine(service.running.uri)
    with SystemCatalog(service.running.uri, access=olga) as catalog:
        reader = Reader(catalog, default_registry())
        page = table_page(reader, "hr", "people")
        queries = [page.query, page.lag.panel.query, *(filled.panel.query for filled in page.panels)]
        searches = [Search(), Search("people"), Search("R.peo", "Scheduled", "kept", sort="last tiered"), Search(needs_person=True, page=2)]
        queries += [search.query() for search in searches]
        queries += [Query(STATUS_TABLE, conditions=(promise_is(promise),)) for promise in PROMISES]
        round_of_table = {"database_name": "hr", "table_name": "people", "finished_time": None}
        queries += [
            BY_STATE,
            BY_PROMISE,
            PERSONS,
            URGENT,
            *(panel.query for panel in round_panels((equal("round_id", "none"),), round_of_table)),
        ]
        assert [filled.error for filled in page.panels] == [None] * len(page.panels)
        compared = 0
        for query in queries:
            rows, answer = reader.rows(query), engine.execute(query.sql())
            assert (query.sql(), shape(rows)) == (query.sql(), shape([dict(zip(answer.columns, row, strict=True)) for row in answer.rows]))
            compared += len(rows)
    engine.close()
    assert compared > 10


def shape(rows: Any) -> list[dict[str, Any]]:
    """The rows without values that change from one read to the next. Engines name a count differently."""
    changing = (
        "observed_time",
        "heartbeat_time",
        "last_checked_time",
        "offsets_observed_time",
        "lag_ms",
        "freshness_deadline",
        "status_reason",
    )
    return [{name.partition("(")[0]: str(value) for name, value in row.items() if name not in changing} for row in rows]


STATUSES = [
    table_status(f"d.t{number}{status}", status=status, paused=paused, lag_ms=lag_ms, next_action="CALL x" if number == 3 else None)
    for number, (paused, lag_ms) in enumerate([(False, None), (True, 180_000), (False, 180_000), (True, 180_001), (True, 0)])
    for status in ("Scheduled", "Failed")
]


def with_console(statuses: list[TableStatus], look: Callable[[Reader], None]) -> None:
    """Runs `look` with a reader of a real gRPC service that has these statuses."""

    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=statuses)) as client:
            with SystemCatalog(f"127.0.0.1:{client.port}") as catalog:
                await asyncio.to_thread(look, Reader(catalog, default_registry()))

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_each_table_is_counted_and_found_under_the_promise_that_its_row_shows() -> None:
    def look(reader: Reader) -> None:
        page = overview(reader, Search(sort="name"), NOON)
        shown = {row["table_name"]: row["promise"] or UNKNOWN_PROMISE for row in page.listed.rows}
        listed = {row["table_name"]: promise for promise in PROMISES for row in overview(reader, Search(promise=promise), NOON).listed.rows}
        assert (len(shown), set(shown.values())) == (len(STATUSES), set(PROMISES))
        assert listed == shown
        assert {count.name: count.tables for count in page.promises} == {name: list(shown.values()).count(name) for name in PROMISES}

    with_console(STATUSES, look)


def test_a_number_is_left_out_only_where_no_promise_is_unknown() -> None:
    def look(reader: Reader) -> None:
        counts = {count.name: count.tables for count in overview(reader, Search(), NOON).promises}
        assert counts == {"kept": 1, "at risk": 0, "broken": 0}

    with_console([table_status("d.t", lag_ms=0)], look)


def test_tables_that_need_a_person_are_those_with_an_action_a_pause_or_an_error_without_retries() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"next_action": "CALL x"},
        {"paused": True},
        {"last_error": "x", "error_retryable": True},
        {"last_error": "x", "error_retryable": False},
        {"last_error": "x", "error_retryable": None},
    ]
    statuses = [table_status(f"d.t{number}", **change) for number, change in enumerate(changes)]

    def look(reader: Reader) -> None:
        page = overview(reader, Search(needs_person=True, sort="name"), NOON)
        assert [row["table_name"] for row in page.listed.rows] == ["t1", "t2", "t4", "t5"]
        assert (page.persons.tables, page.persons.name) == (4, "need a person")

    with_console(statuses, look)


def test_pages_follow_each_other_in_the_order_of_the_service() -> None:
    statuses = [table_status(f"d.t{number:03}", lag_ms=number if number % 3 else None) for number in range(120)]

    def look(reader: Reader) -> None:
        pages = [overview(reader, Search(sort="lag", page=number), NOON) for number in (1, 2, 3, 4)]
        assert [(len(page.listed.rows), page.listed.has_next) for page in pages] == [(50, True), (50, True), (20, False), (0, False)]
        lags = [row["lag_ms"] for page in pages for row in page.listed.rows]
        assert lags == sorted((lag for lag in lags if lag is not None), reverse=True) + [None] * 40
        assert len({row["table_name"] for page in pages for row in page.listed.rows}) == 120
        assert pages[0].tables == 120

    with_console(statuses, look)


def test_tables_that_fail_come_first_and_then_those_whose_round_has_to_end_first() -> None:
    def at(seconds: int) -> dict[str, Any]:
        return {"freshness_deadline": NOON + timedelta(seconds=seconds)}

    changes: dict[str, dict[str, Any]] = {
        "rests": {"lag_ms": 10},
        "later": {**at(9), "lag_ms": 9},
        "broken": {**at(-9), "paused": True, "lag_ms": 1},
        "soon": at(5),
        "fails": {**at(20), "consecutive_failures": 2},
    }
    statuses = [table_status(f"d.{name}", **change) for name, change in changes.items()]

    def look(reader: Reader) -> None:
        assert [row["table_name"] for row in overview(reader, Search(), NOON).listed.rows] == ["fails", "broken", "soon", "later", "rests"]

    with_console(statuses, look)


def test_a_panel_leaves_out_columns_without_a_value() -> None:
    panel = Panel("Rounds", Query("tiering_rounds", ("round_id", "triggered_by", "read_ms")), "empty")
    rows = [{"round_id": "a", "triggered_by": "", "read_ms": None}, {"round_id": "b", "triggered_by": None, "read_ms": 0}]
    headings = Reader(Unreachable(UnknownTable("not here")), default_registry()).headings(panel.query)
    filled = FilledPanel(panel, headings, rows)
    assert [(heading.name, heading.is_numeric) for heading in filled.filled_headings] == [("round_id", False), ("read_ms", True)]


def test_a_search_reads_names_literally() -> None:
    statuses = [table_status(f"{name}") for name in ("a_b.c_d", "axb.cxd", "sales.orders", "sales.my_orders")]

    def look(reader: Reader) -> None:
        def names(text: str) -> list[str]:
            rows = overview(reader, Search(text, sort="name"), NOON).listed.rows
            return [f"{row['database_name']}.{row['table_name']}" for row in rows]

        assert (names("_"), names("%"), names("a_b.c_")) == (["a_b.c_d", "sales.my_orders"], [], ["a_b.c_d"])
        assert (names("ALES.My"), names("ORDERS"), names("C_D")) == (["sales.my_orders"], ["sales.my_orders", "sales.orders"], ["a_b.c_d"])
        assert (names("sales.or"), names("orders"), names("' OR true")) == (["sales.orders"], ["sales.my_orders", "sales.orders"], [])

    with_console(statuses, look)


@pytest.mark.parametrize("page", ["-1", "0", "x", "²", "9" * 5_000])
def test_an_address_with_nonsense_is_the_first_page(page: str) -> None:
    assert Search.of({"page": page, "sort": "nonsense", "state": "nonsense", "promise": "nonsense"}).page in (1, 2_000)
    assert Search.of({"page": page, "sort": "nonsense"}).sort == "urgency"


SCRIPT = "<script>alert(1)</script>"
PATHS = ("/", "/tables/d/t", f"/?q={SCRIPT}", "/tables/<script>alert(1)/t")
"""Pages with a value of the service, and with a value of the address."""


def test_text_from_outside_is_text() -> None:
    status = table_status("d.t", status="Failed", last_error=SCRIPT, error_class=SCRIPT, status_reason=SCRIPT, next_action=SCRIPT)

    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=[status])) as client:
            with SystemCatalog(f"127.0.0.1:{client.port}") as catalog:
                code = SignInCodes()
                browser = TestClient(console_app(catalog, code, Site(7717)), base_url="http://127.0.0.1:7717")
                browser.post(f"/sign-in/{code.new()}")
                pages = [await asyncio.to_thread(browser.get, path) for path in PATHS]
        assert ["<script>alert" in page.text for page in pages] == [False] * 4
        assert ["alert(1)" in page.text for page in pages] == [True] * 4

    asyncio.run(asyncio.wait_for(scenario(), 60))


class Unreachable:
    """A service that does not answer, or that refuses one table."""

    def __init__(self, error: LakewardError) -> None:
        self.error = error

    def rows(self, request: Any) -> list[dict[str, Any]]:
        raise self.error


def test_a_service_that_does_not_answer_is_said_on_the_page_with_what_to_do() -> None:
    code = SignInCodes()
    error = ServiceUnreachable("no service answers at 127.0.0.1:1", hint="Start one.")
    browser = TestClient(console_app(Unreachable(error), code, Site(7717)), base_url="http://127.0.0.1:7717")
    browser.post(f"/sign-in/{code.new()}")
    answer = browser.get("/")
    assert answer.status_code == 503
    assert "no service answers at 127.0.0.1:1 Start one." in text_of(answer.text)


def test_a_panel_that_cannot_be_read_says_why_and_the_others_stay() -> None:
    panel = Panel("Audit", Query("audit", ("action",)), "empty")
    filled = Reader(Unreachable(UnknownTable("not here")), default_registry()).filled(panel)
    assert (filled.rows, str(filled.error)) == ((), "not here")
    with pytest.raises(ServiceUnreachable):
        Reader(Unreachable(ServiceUnreachable("gone")), default_registry()).filled(panel)


def test_the_service_is_asked_for_the_rows_of_one_table_in_the_form_by_which_it_narrows_its_work() -> None:
    """With `conditions` alone, the page of one of 10,000 tables would take ten times as long."""
    here: tuple[Condition, ...] = (Filter("database_name", Operator.EQUAL, ("d",)), Filter("table_name", Operator.EQUAL, ("t",)))
    for panel in panels(here):
        scan = scan_request_from_pb(panel.query.request(), ())
        assert (panel.title, scan.equals("database_name"), scan.equals("table_name")) == (panel.title, "d", "t")


def test_the_panel_of_dead_letters_shows_those_that_were_not_discarded_and_each_action_on_them_has_a_link(signed_in: Browser) -> None:
    [panel] = [panel for panel in panels((equal("table_name", "t"),)) if panel.query.table == "dead_letters"]
    assert "status IN ('waiting', 'superseded')" in panel.query.sql()
    assert panel.query.order[0] == Order("status", descending=True), "those that wait come first"
    page = signed_in("ana").get("/tables/hr/people").text
    for name in ("replay_dead_letters", "discard_dead_letters"):
        assert f"/actions/{name}?table=hr.people" in page


def test_the_page_of_a_table_has_every_column_of_its_status() -> None:
    def look(reader: Reader) -> None:
        assert set(table_page(reader, "d", "t").status) == {field.name for field in fields(TableStatus)} >= set(COLUMNS)

    with_console([replace(table_status("d.t"), table_id=7)], look)
