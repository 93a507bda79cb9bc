"""The console in Debian's Chromium: each page under its own policy, live values, actions by clicks, a service that stops and returns."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from support.running.cluster_of_processes import Deployment
from support.running.processes import Process, wait_for
from tiering.client import LakewardClient
from tiering.model.names import table_path

ORDERS = table_path("sales", "orders")
PATIENCE_MS = 60_000
PAGES = (
    *("/", "/?q=orders", "/tables/sales/orders", "/tables/sales/nothing", "/actions", "/actions/pause_tiering?table=sales.orders"),
    *("/system", "/system/tiering_events", "/events?table=sales.orders", "/tierers", "/leases", "/privileges", "/audit", "/options"),
    *("/sql?statement=SELECT+*+FROM+sys.tables", "/sql?statement=SHOW+NAMESPACES&as=chart", "/help", "/docs/concepts"),
)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A coordinator without a tierer, with one table and rows that are not tiered."""
    running = Deployment(tmp_path_factory.mktemp("console"))
    try:
        running.start_coordinator(port=running.held_port())
        running.create(ORDERS, freshness="1 h")
        running.append(ORDERS, 0, 30)
        with LakewardClient(running.uri) as client:
            wait_for("the coordinator knows the table", client.list_tiering_statuses)
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium is not None, "Chromium was not found: run `make test-setup`, or install Debian's package chromium"
    opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    yield opened
    opened.close()


@pytest.fixture
def console(deployment: Deployment, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Starts the command and returns its sign-in link."""
    started: list[Process] = []

    def link() -> str:
        log = tmp_path / f"console-{len(started)}.log"
        started.append(Process("console", "--uri", deployment.uri, "--port", "0", "--print", log=log))
        match = wait_for("the link", lambda: re.search(r"^http\S+/sign-in/\S+$", started[-1].output(), re.MULTILINE))
        return match[0]

    yield link
    for process in started:
        process.close()


@pytest.fixture
def problems() -> list[str]:
    """Errors in the browser: scripts that fail, and what the Content-Security-Policy blocks."""
    return []


@pytest.fixture
def page(browser: Browser, console: Callable[[], str], problems: list[str]) -> Iterator[Page]:
    """A page that is signed in, at the overview."""
    context = browser.new_context()
    opened = context.new_page()
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.goto(console())
    opened.wait_for_url("**/", timeout=PATIENCE_MS)
    opened.set_default_timeout(PATIENCE_MS)
    yield opened
    context.close()


def to(page: Page, path: str) -> None:
    root = "/".join(page.url.split("/")[:3])
    page.goto(root + path)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_obeys_its_policy_and_fits_a_narrow_screen(page: Page, problems: list[str], path: str) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    to(page, path)
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert [problem for problem in problems if "404 (Not Found)" not in problem] == []


def test_the_keyboard_reaches_the_content_first(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()


def test_a_change_by_another_client_is_shown_without_a_reload_and_open_parts_stay_open(
    page: Page, deployment: Deployment, problems: list[str]
) -> None:
    to(page, "/tables/sales/orders")
    page.get_by_text("All columns of the status").click()
    page.evaluate("window.stays = true")
    expect(page.get_by_text("Live values.")).to_be_visible()
    with LakewardClient(deployment.uri) as client:
        client.pause_tiering(ORDERS, reason="a browser looks on")
        try:
            expect(page.locator("#live")).to_contain_text("a browser looks on", timeout=PATIENCE_MS)
        finally:
            client.resume_tiering(ORDERS)
    expect(page.locator("#live .state.paused")).to_have_count(0)
    assert page.evaluate("window.stays")
    assert page.locator("#columns").evaluate("details => details.open")
    assert problems == []


def test_a_table_is_paused_and_resumed_by_clicks(page: Page, deployment: Deployment) -> None:
    page.get_by_role("link", name="sales.orders").click()
    page.get_by_text("Actions on this table").click()
    page.get_by_role("link", name="pause_tiering", exact=True).click()
    page.get_by_label("reason").fill("by clicks")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="This is what would change")).to_be_visible()
    assert not deployment.status(ORDERS).paused
    page.get_by_role("button", name="Make this change").click()
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    assert deployment.status(ORDERS).paused_reason == "by clicks"
    to(page, "/?person=yes")
    page.get_by_role("link", name="Do this").click()
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Make this change").click()
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    assert not deployment.status(ORDERS).paused


def test_pages_can_be_read_without_scripts(browser: Browser, console: Callable[[], str]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(console())
    page.wait_for_url("**/", timeout=PATIENCE_MS)
    page.get_by_role("link", name="sales.orders").click()
    expect(page.get_by_role("heading", name="Buckets")).to_be_visible()
    assert "UTC" in page.locator("#live time").first.inner_text()
    context.close()


def test_a_service_that_stops_and_returns_is_said_and_shown_again(page: Page, deployment: Deployment) -> None:
    expect(page.get_by_text("Live values.")).to_be_visible()
    port = deployment.port
    deployment.kill_coordinator()
    expect(page.get_by_role("status")).to_contain_text("The service does not answer", timeout=PATIENCE_MS)
    expect(page.get_by_role("link", name="sales.orders")).to_be_visible()
    deployment.start_coordinator(port=port)
    expect(page.get_by_role("status")).to_contain_text("Live values.", timeout=PATIENCE_MS)
    expect(page.get_by_role("link", name="sales.orders")).to_be_visible()


def test_charts_are_drawn_and_follow_a_round(page: Page, deployment: Deployment, problems: list[str]) -> None:
    to(page, "/tables/sales/orders")
    expect(page.get_by_text("No round has brought rows to the lake yet.")).to_be_visible()
    expect(page.get_by_text("Live values.")).to_be_visible()
    tierer = deployment.start_inline_tierer("drawn")
    with LakewardClient(deployment.uri) as client:
        client.tier_table(ORDERS)
    deployment.wait_tiered(ORDERS)
    expect(page.locator("#chart-lag canvas")).to_be_visible(timeout=PATIENCE_MS)
    assert page.locator("#chart-lag [role=img]").get_attribute("aria-label", timeout=PATIENCE_MS)
    expect(page.locator(".rounds a")).not_to_have_count(0)
    expect(page.locator(".buckets li")).not_to_have_count(0)
    to(page, "/")
    expect(page.locator("#chart-throughput canvas")).to_be_visible()
    expect(page.get_by_text("slots are busy")).to_be_visible()
    expect(page.locator("main .strip")).to_have_attribute("aria-label", re.compile("of the last 6 h|kept for 6 h"))
    tierer.close()
    assert problems == []


def test_keys_move_to_pages_to_the_search_and_in_rows(page: Page, problems: list[str]) -> None:
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="sales.orders")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/sql")
    page.keyboard.press("/")
    expect(page.get_by_label("Statement")).to_be_focused()
    page.keyboard.type("SELECT table_name FROM sys.tables -- g o ?")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="1 row")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.get_by_role("button", name="Turn keys off").click()
    page.keyboard.press("/")
    page.keyboard.press("g")
    page.keyboard.press("o")
    assert page.url.endswith("/help")
    assert problems == []
