"""Every page that a link leads to answers, obeys its policy, fits its screen, and passes the checks of axe-core for accessibility."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from starlette.routing import Route

from support.console.browser import Console, console, problems_of, screenshot
from support.console.scene import ORDERS, varied_tables
from support.console.walk import is_one_of_many, walk
from support.running.cluster_of_processes import Deployment
from sys_tables.console.app import console_app
from sys_tables.console.overview import BY_STATE
from sys_tables.console.sign_in_pages import Site
from sys_tables.console.signing_in import SignInCodes
from sys_tables.registry import default_registry

NO_PAGES = ("changes", "table_names")
"""Routes that are read by scripts alone."""
AXE = Axe()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with varied_tables(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def started(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with console(deployment.uri, tmp_path_factory.mktemp("console") / "console.log") as running:
        yield running


def faults_of(page: Page) -> list[str]:
    """Returns the violations that axe-core finds on the page, and whether the page is wider than the screen."""
    violations = AXE.run(page).response["violations"]
    faults = [f"{violation['id']}: {[node['target'] for node in violation['nodes'][:3]]}" for violation in violations]
    is_wider = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    return faults + (["wider than the screen"] if is_wider else [])


LINES = "SELECT TIMESTAMP '2026-11-01 00:00:00' + INTERVAL 1 DAY * n AS at, n - 2 AS a, nullif(n, 2) AS b, 3 * n AS c FROM range(5) AS t(n)"


def test_a_chart_of_lines_is_drawn_over_its_picture(browser: Browser, started: Console) -> None:
    page = started.signed_in(browser, viewport={"width": 1280, "height": 900})
    problems = problems_of(page)
    page.goto("/sql?" + urlencode({"statement": LINES, "as": "chart"}))
    expect(page.locator("figure.chart canvas")).to_be_visible()
    expect(page.locator(".u-legend")).to_contain_text("abc")
    screenshot(page, "sql-lines")
    assert faults_of(page) + problems == []


@pytest.mark.parametrize(("scheme", "width", "every_form"), [("light", 1280, True), ("dark", 390, False)])
def test_a_walk_over_all_pages_finds_no_fault(browser: Browser, started: Console, scheme: Any, width: int, every_form: bool) -> None:
    page = started.signed_in(browser, color_scheme=scheme, viewport={"width": width, "height": 900})
    problems, faults, visited = problems_of(page), dict[str, list[str]](), list[str]()
    for address, answer in walk(page, every_form=every_form):
        expect(page.locator("h1")).to_be_visible()
        faults[address] = [*([] if answer.ok else [f"status {answer.status}"]), *faults_of(page)]
        screenshot(page, f"{scheme}-{width}-{address}")
        if not is_one_of_many(address):
            page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
            faults[address] += faults_of(page)
            page.emulate_media(color_scheme=scheme)
        faults[address] += problems
        problems.clear()
        visited.append(address.partition("?")[0])
    page.context.close()
    assert {address: texts for address, texts in faults.items() if texts} == {}
    assert [address for address in pages_without_visit(visited) if every_form or is_one_of_many(address) is False] == []


def pages_without_visit(visited: list[str]) -> list[str]:
    """Returns the routes of pages, forms of procedures and pages of system tables that no visited address is of."""
    routes = console_app(cast(Any, None), SignInCodes(), Site(1)).routes
    pages = [route for route in routes if isinstance(route, Route) and "GET" in (route.methods or ()) and route.name not in NO_PAGES]
    missing = [page.path for page in pages if not page.path.startswith("/sign-in") and not any(map(page.path_regex.match, visited))]
    registry = default_registry()
    expected = [f"/actions/{procedure.name}" for procedure in registry.procedures] + [f"/system/{table.name}" for table in registry.tables]
    return missing + [address for address in expected if address not in visited]


def test_the_page_of_a_link_has_no_fault_and_one_key_signs_in(browser: Browser, started: Console) -> None:
    page = browser.new_context(viewport={"width": 390, "height": 900}).new_page()
    problems = problems_of(page)
    page.goto(started.link)
    assert faults_of(page) == []
    page.reload()  # the link is not used up
    expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{started.root}/")
    assert problems == []
    page.context.close()


def test_pages_can_be_read_without_scripts(browser: Browser, started: Console) -> None:
    page = started.signed_in(browser, java_script_enabled=False)
    page.get_by_role("link", name=str(ORDERS), exact=True).click()
    expect(page.get_by_role("heading", name="Buckets")).to_be_visible()
    assert "UTC" in page.locator("#live time").first.inner_text()
    page.context.close()


def test_times_are_in_the_zone_of_the_reader_with_utc_beside_and_sql_is_copied(browser: Browser, started: Console) -> None:
    settings = {"timezone_id": "Asia/Tokyo", "locale": "en-GB", "permissions": ["clipboard-read", "clipboard-write"]}
    page = started.signed_in(browser, **settings)
    page.get_by_text("SQL of the numbers by state").click()
    page.locator("#sql-states").get_by_role("button", name="Copy").click()
    expect(page.locator("#sql-states").get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == BY_STATE.sql()
    page.goto("/sql?" + urlencode({"statement": "SELECT TIMESTAMP '2026-11-01 20:00:00' AS at"}))
    expect(page.locator("tbody time")).to_have_attribute("title", "2026-11-01 20:00:00 UTC")
    expect(page.locator("tbody time")).to_have_text("02/11/2026, 05:00:00")
    page.context.close()


def test_the_time_line_of_rounds_has_times_of_the_reader_and_leads_to_rounds_by_keyboard(browser: Browser, started: Console) -> None:
    page = started.signed_in(browser, timezone_id="Asia/Tokyo", locale="en-GB", viewport={"width": 390, "height": 900})
    problems = problems_of(page)
    page.goto(f"/tables/{ORDERS.database_name}/{ORDERS.table_name}?rounds=50")
    page.get_by_role("button", name="Pause live values").click()
    line = page.locator(".timeline svg[role=group]")
    expect(line).to_have_attribute("aria-label", re.compile("took .* with its waiting time"))
    mark = line.locator("text").first
    moment = datetime.fromisoformat(mark.get_attribute("data-time") or "")
    expect(mark).to_contain_text(f"{moment.astimezone(ZoneInfo('Asia/Tokyo')):%H:%M}")
    expect(mark.locator("title")).to_have_text(f"{moment:%Y-%m-%d %H:%M:%S} UTC")
    bar = line.locator("a").first
    assert re.search(r"UTC, \w+: ", bar.get_attribute("aria-label") or "")
    screenshot(page, "time-line")
    assert faults_of(page) + problems == []
    bar.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/rounds/*")
    page.context.close()


def test_the_keyboard_reaches_the_content_first(browser: Browser, started: Console) -> None:
    page = started.signed_in(browser)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    page.context.close()


def test_keys_move_to_pages_to_the_search_and_in_rows(browser: Browser, started: Console) -> None:
    page = started.signed_in(browser)
    problems = problems_of(page)
    page.keyboard.press("j")
    expect(page.locator("tbody a:focus")).to_have_count(1)
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/sql")
    page.keyboard.press("/")
    expect(page.get_by_label("Statement")).to_be_focused()
    page.keyboard.type(f"SELECT table_name FROM sys.tables WHERE table_name = '{ORDERS.table_name}' -- g o ?")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="1 row")).to_be_visible()
    page.wait_for_load_state()  # its scripts listen to keys
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.get_by_role("button", name="Turn keys off").click()
    page.keyboard.press("/")
    page.keyboard.press("g")
    page.keyboard.press("o")
    assert page.url.endswith("/help")
    assert problems == []
    page.context.close()
