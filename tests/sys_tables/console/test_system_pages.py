"""Pages of system tables show the rows of SELECT, narrowed by the service, and nothing of other tables."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from support.services.guarded_service import GuardedService
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.reader import Reader
from sys_tables.console.system_pages import TableSearch
from sys_tables.registry import default_registry
from tiering.access.client_access import TOKEN_FILE, ClientAccess
from tiering.cli.sql.service_engine import ServiceDuckDbEngine
from tiering.model.tables import TablePath

Browser = Callable[[str], TestClient]
TABLES = [table.name for table in default_registry().tables]


@pytest.mark.parametrize("name", TABLES)
def test_every_system_table_has_a_page_with_all_its_columns(signed_in: Browser, name: str) -> None:
    browser = signed_in("olga")
    page = browser.get(f"/system/{name}")
    assert page.status_code == 200
    assert f"FROM fluss.sys.{name}" in page.text
    assert f"/system/{name}" in browser.get("/system").text


@pytest.mark.parametrize("name", TABLES)
def test_no_page_of_a_system_table_shows_a_hidden_table(signed_in: Browser, name: str) -> None:
    page = signed_in("ana").get(f"/system/{name}")
    assert page.status_code in (200, 403)
    assert "layoffs" not in page.text


def test_a_table_for_administrators_is_refused_with_the_privilege_that_is_missing(signed_in: Browser) -> None:
    page = signed_in("ana").get("/system/audit")
    assert (page.status_code, "ADMIN" in page.text) == (403, True)
    assert signed_in("olga").get("/system/nothing").status_code == 404


def test_rows_are_narrowed_and_paged_by_the_service(
    service: GuardedService, access: Callable[[str], ClientAccess], signed_in: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys_tables.console.system_pages.PAGE_ROWS", 2)
    for number in range(3):
        service.ensure_table(TablePath("many", f"t{number}"))
    browser = signed_in("olga")
    first, second = (browser.get(f"/system/tables?column=database_name&text=many&page={page}").text for page in (1, 2))
    assert [sorted(set(re.findall(r">(t\d)<", text))) for text in (first, second)] == [["t0", "t1"], ["t2"]]
    assert [("Next page" in text, "Previous page" in text) for text in (first, second)] == [(True, False), (False, True)]
    olga = access("olga")
    monkeypatch.setenv(TOKEN_FILE, str(olga.token_file))
    query = TableSearch("database_name", "many", 2).query(default_registry().table("tables"))
    engine = ServiceDuckDbEngine(service.running.uri)
    with SystemCatalog(service.running.uri, access=olga) as catalog:
        page = Reader(catalog, default_registry()).page(query, 2)
    assert [row["table_name"] for row in page.rows] == [row[1] for row in engine.execute(page.query.sql()).rows] == ["t2"]
    engine.close()


def test_an_unknown_column_is_no_filter() -> None:
    assert TableSearch.of({"column": "x; DROP", "text": "y"}, ["name"]) == TableSearch("", "y")
