"""The console of a service, at `/ui`: sign-in by links, users with their own tokens, and a service that stops and returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.console.browser import PATIENCE_MS, problems_of, use_link
from support.console.scene import ORDERS
from support.running.cluster_of_processes import Deployment
from support.running.processes import Process
from sys_tables.console.middleware import SECURITY_HEADERS
from sys_tables.console.pages import NAVIGATION
from tiering.access.client_access import TOKEN_FILE
from tiering.access.tokens import add_token, new_token
from tiering.model.names import table_path

ADDRESS = re.compile(r"^lakeward console: (http://127\.0\.0\.1:\d+/ui)$", re.MULTILINE)
LAYOFFS = table_path("hr", "layoffs")
POLICIES = """
permit (principal == User::"olga", action, resource);
permit (principal == User::"ana", action in [Action::"DESCRIBE", Action::"OPERATE"], resource is Table in Database::"sales");
"""
INLINE_SCRIPT = """() => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    return window.ran === true;
}"""


def options(folder: Path, console_port: str = "0") -> tuple[str, ...]:
    """Returns the options of a service with a console, and with tokens and policies of its users."""
    access = ("--auth", "token", "--tokens", str(folder / "tokens.json"), "--policy", str(folder / "policies.cedar"))
    return (*access, "--console-port", console_port)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A `lakeward up` whose users are Olga, who may do everything, Ana, for whom hr.layoffs does not exist, and its owner."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "policies.cedar").write_text(POLICIES)
    for user in ("ana", "olga"):
        token, stored = new_token(user, datetime.now(UTC))
        add_token(folder / "tokens.json", stored)
        (folder / f"{user}.token").write_text(token)
    running = Deployment(folder)
    try:
        running.start_up(*options(folder))
        for path in (ORDERS, LAYOFFS):
            running.create(path, freshness="1 h")
        yield running
    finally:
        running.close()


def address_of(deployment: Deployment) -> str:
    """Returns the address of the console that the service printed."""
    [address] = ADDRESS.findall(deployment.processes[0].output())
    return str(address)


def opened(browser: Browser, deployment: Deployment) -> Page:
    """Returns the sign-in page, to which the printed address leads."""
    page = browser.new_context(base_url=f"{address_of(deployment)}/").new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address_of(deployment))
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    return page


def sign_in(page: Page, folder: Path, token: Path | None = None) -> str:
    """Runs the command that the page names, as the owner or with another user's token, and uses its link. Returns the link."""
    program, *command = page.locator("pre code").inner_text().split()
    assert program == "lakeward"
    process = Process(*command, log=folder / "link.log", env=None if token is None else {TOKEN_FILE: str(token)})
    assert process.wait_ended() == 0, process.output()
    link = process.output().split()[0]
    use_link(page, link)
    return link


@pytest.fixture
def of_user(browser: Browser, deployment: Deployment, tmp_path: Path) -> Iterator[dict[str, Page]]:
    """The overview of each user."""
    pages = {user: opened(browser, deployment) for user in ("ana", "olga")}
    for user, page in pages.items():
        sign_in(page, tmp_path, deployment.folder / f"{user}.token")
    yield pages
    for page in pages.values():
        page.context.close()


def change(page: Page) -> None:
    """Checks the form of a procedure, and makes the change."""
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Make this change").click()
    expect(page.get_by_role("heading", name="Result")).to_be_visible()


def test_from_the_printed_address_to_a_change_and_to_the_end_of_the_session(
    browser: Browser, deployment: Deployment, tmp_path: Path
) -> None:
    page = opened(browser, deployment)
    problems = problems_of(page)
    link = sign_in(page, tmp_path)
    page.get_by_role("link", name=str(ORDERS), exact=True).click()
    page.get_by_text("Actions on this table").click()
    page.get_by_role("link", name="pause_tiering", exact=True).click()
    page.get_by_label("reason").fill("a walk through the console")
    change(page)
    page.get_by_role("link", name=f"Page of {ORDERS}").click()
    expect(page.locator("#live")).to_contain_text("a walk through the console")
    page.get_by_text("Actions on this table").click()
    page.get_by_role("link", name="resume_tiering", exact=True).click()
    change(page)
    page.get_by_role("link", name=f"Page of {ORDERS}").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert problems == []
    page.goto(link)
    expect(page.get_by_text("This link is not valid any more.")).to_be_visible()
    page.context.close()


def test_no_page_runs_inline_scripts_or_shows_its_token(browser: Browser, deployment: Deployment, tmp_path: Path) -> None:
    page = opened(browser, deployment)
    token = deployment.folder / "olga.token"
    sign_in(page, tmp_path, token)
    problems = problems_of(page)
    for name, title, _ in NAVIGATION:
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=title, exact=True).click()
        page.wait_for_url("**/ui/" if name == "overview" else f"**/ui/{name}")
        answer = page.reload()
        assert answer is not None
        assert {header: answer.headers.get(header.lower()) for header in SECURITY_HEADERS} == SECURITY_HEADERS
        assert (answer.status, token.read_text() in page.content(), problems) == (200, False, [])
        assert not page.evaluate(INLINE_SCRIPT)
        assert [text for text in problems if "Content Security Policy" in text] == problems != []
        problems.clear()
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], token.read_text() in cookie["value"]) == (True, "Strict", False)
    readable = page.evaluate("JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])")
    assert [secret in readable for secret in (token.read_text(), cookie["value"])] == [False, False]
    page.context.close()


def test_two_users_of_one_console_see_and_do_what_their_tokens_allow(of_user: dict[str, Page], deployment: Deployment) -> None:
    ana, olga = of_user["ana"], of_user["olga"]
    shown = [[page.get_by_role("link", name=str(path), exact=True).count() for path in (ORDERS, LAYOFFS)] for page in (ana, olga)]
    assert shown == [[1, 0], [1, 1]]
    for name, title, _ in NAVIGATION:
        ana.get_by_role("navigation", name="Pages").get_by_role("link", name=title, exact=True).click()
        ana.wait_for_url("**/ui/" if name == "overview" else f"**/ui/{name}")
        assert "layoffs" not in ana.content()
    olga.goto(f"tables/{ORDERS.database_name}/{ORDERS.table_name}")
    expect(olga.get_by_role("status")).to_contain_text("Live values.")
    ana.goto(f"actions/pause_tiering?table={ORDERS}&reason=by+ana")
    change(ana)
    expect(olga.locator("#live")).to_contain_text("Paused by ana: by ana")
    ana.goto(f"actions/pause_tiering?table={LAYOFFS}")
    ana.get_by_role("button", name="Check").click()
    assert "UnknownDatabase: there is no database 'hr'" in ana.get_by_role("alert").inner_text()
    olga.goto(f"actions/resume_tiering?table={ORDERS}")
    change(olga)
    olga.goto("audit?outcome=ANSWERED&object=orders")
    lines = olga.locator("section").first.locator("tbody tr").all_inner_texts()
    assert [
        [user in line and name in line for line in lines].count(True) > 0
        for user, name in (("ana", "pause_tiering"), ("olga", "resume_tiering"))
    ] == [True, True]


def test_a_service_that_stops_and_returns_leads_each_open_page_to_the_sign_in_page(
    browser: Browser, deployment: Deployment, tmp_path: Path
) -> None:
    page = opened(browser, deployment)
    sign_in(page, tmp_path)
    tables = page.locator(".cards tbody tr")
    expect(page.get_by_role("status")).to_contain_text("Live values.")
    assert tables.count() == 2
    deployment.processes[0].kill()
    expect(page.get_by_role("status")).to_contain_text("The console does not answer")
    assert tables.count() == 2
    port = address_of(deployment).removesuffix("/ui").rpartition(":")[2]
    deployment.start_coordinator(*options(deployment.folder, port), port=deployment.port)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    sign_in(page, tmp_path)
    assert tables.count() == 2
    page.context.close()
