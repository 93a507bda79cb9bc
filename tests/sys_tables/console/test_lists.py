"""Lists of events, tierers, leases, privileges, calls and options: what they show, their filters in the address, and who sees what."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from support.services.guarded_service import GuardedService
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.reader import Reader
from sys_tables.console.views.declared import VIEWS, Field, View
from sys_tables.registry import default_registry
from tiering.access.client_access import TOKEN_FILE, ClientAccess
from tiering.cli.sql.service_engine import ServiceDuckDbEngine
from tiering.errors import LakewardError

Browser = Callable[[str], TestClient]
Access = Callable[[str], ClientAccess]
NAMES = [view.name for view in VIEWS]
REGISTRY = default_registry()


def view_named(name: str) -> View:
    [view] = [view for view in VIEWS if view.name == name]
    return view


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.parametrize("view", VIEWS, ids=NAMES)
def test_a_list_names_columns_and_filters_that_its_tables_have(view: View) -> None:
    for part in view.parts:
        columns = set(REGISTRY.table(part.table).schema.names)
        filtered = {column for field in part.fields for column in field.columns}
        assert {*part.columns, *filtered, *(key.column for key in part.order)} <= columns
    assert len({part.name for part in view.parts}) == len(view.parts)
    assert {*view.actions} <= {procedure.name for procedure in REGISTRY.procedures}


@pytest.mark.parametrize("name", NAMES)
def test_each_list_is_in_the_navigation_and_shows_the_sql_of_its_parts(signed_in: Browser, name: str) -> None:
    page = signed_in("olga").get(f"/{name}")
    assert page.status_code == 200
    assert f'href="http://127.0.0.1:7717/{name}" aria-current="page"' in page.text
    for part in view_named(name).parts:
        assert f"FROM fluss.sys.{part.table}" in page.text
        assert f'id="{part.name}"' in page.text


@pytest.mark.parametrize("name", NAMES)
def test_no_list_shows_a_hidden_table(signed_in: Browser, name: str) -> None:
    for address in (f"/{name}", f"/{name}?table=hr."):
        page = signed_in("ana").get(address)
        assert (page.status_code, "layoffs" in page.text) == (200, False)


def test_a_part_that_the_caller_may_not_read_names_the_privilege_and_the_other_parts_stay(signed_in: Browser) -> None:
    browser = signed_in("ana")
    for name, privilege, other_part in (("audit", "ADMIN", "Calls that run now"), ("tierers", "OPERATE", "No round runs now.")):
        text = text_of(browser.get(f"/{name}").text)
        assert (privilege in text, other_part in text) == (True, True)


def test_a_user_sees_the_own_privileges_and_only_an_admin_those_of_others(signed_in: Browser) -> None:
    def rows(user: str) -> set[str]:
        part = signed_in(user).get("/privileges").text.partition('id="effective-privileges"')[2].partition("</table>")[0]
        return {text_of(row) for row in re.findall(r"<tr>.*?</tr>", part, re.DOTALL)}

    assert {row for row in rows("vera") if row.startswith(("vera", "olga"))} == {"vera hr layoffs DESCRIBE", "vera hr people DESCRIBE"}
    assert {row for row in rows("ana") if "layoffs" in row or "olga" in row} == set()
    assert {"vera hr people DESCRIBE", "olga hr layoffs DESCRIBE, SELECT, WRITE, TIER, OPERATE"} <= rows("olga")


def test_events_are_narrowed_by_table_kind_and_level(service: GuardedService, signed_in: Browser, access: Access) -> None:
    browser = signed_in("olga")
    with SystemCatalog(service.running.uri, access=access("olga")) as catalog:
        for _ in range(2):
            catalog.call("pause_tiering", table="hr.people", reason="a list looks on")
            catalog.call("resume_tiering", table="hr.people")

    def kinds(address: str) -> set[str]:
        return set(re.findall(r">(TABLE_(?:PAUSED|RESUMED))<", browser.get(address).text))

    assert kinds("/events?table=hr.people") == {"TABLE_PAUSED", "TABLE_RESUMED"}
    assert kinds("/events?table=HR.people&kind=paused") == {"TABLE_PAUSED"}
    assert kinds("/events?table=hr.layoffs") == kinds("/events?level=ERROR") == set()
    assert "No row matches the filter." in text_of(browser.get("/events?level=ERROR").text)
    page = browser.get("/events?table=hr.people&kind=PAUSED&level=nonsense").text
    assert 'name="kind" value="PAUSED"' in page


def test_without_a_tierer_the_page_says_how_to_start_one(signed_in: Browser) -> None:
    page = signed_in("olga").get("/tierers").text
    assert "lakeward tierer --uri HOST:7707" in page
    assert "No row matches the filter." in text_of(signed_in("olga").get("/tierers?state=LOST").text)


def test_options_can_be_found_by_their_meaning(signed_in: Browser) -> None:
    text = text_of(signed_in("olga").get("/options?scope=coordinator&text=events").text)
    assert "history" in text


def test_a_choice_that_is_not_offered_is_no_filter() -> None:
    level = Field("level", "Level", ("level",), ("INFO", "WARN"))
    assert [level.text({"level": text}) for text in ("INFO", "DEBUG", "")] == ["INFO", "", ""]
    assert len(Field("text", "Text", ("message",)).text({"text": "x" * 5_000})) == 200


def test_pages_of_a_list_keep_its_filters(service: GuardedService, signed_in: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys_tables.console.views.declared.PAGE_ROWS", 2)
    browser = signed_in("olga")
    first = browser.get("/options?scope=coordinator").text
    [following] = re.findall(r'rel="next" href="([^"]+)"', first)
    second = browser.get(html.unescape(following)).text
    assert ("scope=coordinator" in following, "page=2" in following) == (True, True)
    assert "OFFSET 2" in second
    [previous] = re.findall(r'rel="prev" href="([^"]+)"', second)
    assert "page" not in previous


def test_the_sql_of_each_part_returns_its_rows(service: GuardedService, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    olga = access("olga")
    monkeypatch.setenv(TOKEN_FILE, str(olga.token_file))
    filters = {"table": "hr.", "level": "INFO", "scope": "coordinator", "text": "history", "principal": "olga", "privilege": "DESCRIBE"}
    engine = ServiceDuckDbEngine(service.running.uri)
    compared = 0
    with SystemCatalog(service.running.uri, access=olga) as catalog:
        reader = Reader(catalog, REGISTRY)
        for part in (part for view in VIEWS for part in view.parts if part.table not in ("audit", "open_calls")):
            for parameters in ({}, filters):
                query = part.panel(parameters).query
                rows, answer = reader.rows(query), engine.execute(query.sql())
                assert [[str(row[name]) for name in part.columns] for row in rows] == [[str(cell) for cell in row] for row in answer.rows]
                compared += len(rows)
    engine.close()
    assert compared > 20


def test_an_error_of_the_first_part_is_shown_in_its_place() -> None:
    class Silent:
        def rows(self, request: object) -> list[dict[str, object]]:
            raise LakewardError("no")

    [part, *_] = view_named("events").parts
    filled = Reader(Silent(), REGISTRY).filled(part.panel({}), 1)
    assert (filled.rows, str(filled.error), filled.has_next) == ((), "no", False)
