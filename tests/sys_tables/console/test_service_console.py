"""The console of a service, over HTTP: links of several users, what each of them sees, and sessions that end with their token."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from support.services.guarded_service import GuardedService, guarded_service
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.live import NEWEST_EVENT
from sys_tables.console.reader import Reader, Row
from sys_tables.console.service.application import ServiceConsole
from sys_tables.console.service.callers import CallerCatalog
from sys_tables.registry import default_registry
from tiering.access.client_access import ClientAccess
from tiering.access.tokens import id_of, revoke_token
from tiering.cli.terminal.console_options import ConsoleOptions
from tiering.errors import InvalidArgument, Unauthenticated
from tiering.model.tables import TablePath

POLICIES = """
permit (principal == User::"olga", action, resource);
permit (principal in Group::"staff", action, resource is Table in Database::"hr");
forbid (principal in Group::"staff", action, resource == Table::"hr.layoffs");
"""
HIDDEN, VISIBLE = TablePath("hr", "layoffs"), TablePath("hr", "people")
ROLES = {"ana": ("staff",), "olga": (), "gone": (), "left": ()}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    """Olga may do everything. For Ana hr.layoffs does not exist."""
    with guarded_service(tmp_path_factory.mktemp("service"), POLICIES, ROLES, ConsoleOptions(bound_port=0)) as running:
        for path in (HIDDEN, VISIBLE):
            running.ensure_table(path)
        yield running


@pytest.fixture
def link_of(service: GuardedService, tmp_path: Path) -> Callable[[str], str]:
    """Returns a new sign-in link of a user."""

    def link(user: str) -> str:
        token = tmp_path / f"{user}.token"
        token.write_text(service.tokens[user])
        with SystemCatalog(service.running.uri, access=ClientAccess(token_file=token)) as catalog:
            address = catalog.console_link()
        assert address is not None
        return address

    return link


@pytest.fixture
def signed_in(link_of: Callable[[str], str]) -> Iterator[Callable[[str], httpx2.Client]]:
    """Returns a browser of a user at the console's root."""
    browsers: list[httpx2.Client] = []

    def browser(user: str) -> httpx2.Client:
        link = link_of(user)
        browsers.append(httpx2.Client(timeout=60, base_url=link.partition("/sign-in")[0], follow_redirects=True))
        assert browsers[-1].post(link).status_code == 200
        return browsers[-1]

    yield browser
    for opened in browsers:
        opened.close()


def test_a_link_works_once_and_leaves_the_address(link_of: Callable[[str], str]) -> None:
    link = link_of("olga")
    root = link.partition("/sign-in")[0]
    with httpx2.Client(timeout=60) as browser:
        first = browser.post(link)
        assert (first.status_code, f'content="0; url={root}/"' in first.text) == (200, True)
        assert (browser.get(f"{root}/").status_code, first.headers["Referrer-Policy"]) == (200, "no-referrer")
    again = httpx2.post(timeout=60, url=link)
    assert (again.status_code, "set-cookie" in again.headers) == (403, False)


def test_each_user_sees_the_own_tables(signed_in: Callable[[str], httpx2.Client]) -> None:
    ana, olga = signed_in("ana"), signed_in("olga")
    for browser, shown in ((ana, [False, True]), (olga, [True, True])):
        page = browser.get("/").text
        assert [str(path) in page for path in (HIDDEN, VISIBLE)] == shown
    hidden, missing = ana.get("/tables/hr/layoffs"), ana.get("/tables/hr/laypigs")
    assert hidden.status_code == missing.status_code == 404
    assert hidden.text.replace("layoffs", "laypigs") == missing.text


def test_addresses_stay_below_the_root(signed_in: Callable[[str], httpx2.Client]) -> None:
    browser = signed_in("olga")
    for path in ("/", "/actions", "/system", "/tables/hr/people"):
        assert 'href="/' not in (text := browser.get(path).text)
        assert f'href="{browser.base_url}static/console.css"' in text
    assert browser.get("/static/console.css").status_code == 200
    bare = str(browser.base_url).removesuffix("/ui/")
    assert [httpx2.get(timeout=60, url=bare + path, follow_redirects=False).headers.get("location") for path in ("", "/ui")] == [
        "/ui/",
        "/ui/",
    ]
    assert httpx2.get(timeout=60, url=f"{bare}/uix").status_code == 404


def test_a_call_is_made_as_the_user_who_is_signed_in(service: GuardedService, signed_in: Callable[[str], httpx2.Client]) -> None:
    for user in ("ana", "olga"):
        browser = signed_in(user)
        [token] = re.findall(r'name="csrf_token" value="(\w+)"', browser.get("/").text)
        assert browser.post("/actions/pause_tiering/check", data={"csrf_token": token, "argument_table": str(VISIBLE)}).status_code == 200
    lines = map(json.loads, (service.data / "audit.jsonl").read_text().splitlines())
    done = {(line["principal"], re.findall(r"\w+", line["action"])[-1]) for line in lines if line["outcome"] == "ANSWERED"}
    assert done >= {(user, action) for user in ("ana", "olga") for action in ("OpenConsole", "pause_tiering")}


def test_a_revoked_token_ends_its_sessions(service: GuardedService, signed_in: Callable[[str], httpx2.Client]) -> None:
    browser, other = signed_in("gone"), signed_in("olga")
    assert browser.get("/").url.path == "/ui/"
    cookies = dict(browser.cookies)
    revoke_token(service.data.parent / "tokens.json", id_of(service.tokens["gone"]) or "", datetime.now(UTC))
    assert browser.get("/").url.path == "/ui/sign-in"
    with httpx2.Client(timeout=60, cookies=cookies) as copy:
        assert copy.get(f"{browser.base_url}system").headers["location"] == "/ui/sign-in"
    assert other.get("/").url.path == "/ui/"


def test_an_open_page_of_a_revoked_token_is_told_that_its_session_ended(link_of: Callable[[str], str], service: GuardedService) -> None:
    link = link_of("left")
    with httpx2.Client(timeout=60) as browser:
        browser.post(link)
        with browser.stream("GET", link.partition("/sign-in")[0] + "/changes") as stream:
            revoke_token(service.data.parent / "tokens.json", id_of(service.tokens["left"]) or "", datetime.now(UTC))
            assert [line for line in stream.iter_lines() if line.startswith("event:")] == ["event: ended"]


def test_an_event_of_a_hidden_table_changes_no_page_of_a_user_who_may_not_know_it(service: GuardedService, tmp_path: Path) -> None:
    def newest(user: str) -> Sequence[Row]:
        token = tmp_path / f"{user}.token"
        token.write_text(service.tokens[user])
        with SystemCatalog(service.running.uri, access=ClientAccess(token_file=token)) as catalog:
            if user == "olga":
                catalog.call("pause_tiering", table=str(HIDDEN))
                catalog.call("resume_tiering", table=str(HIDDEN))
            return Reader(catalog, default_registry()).rows(NEWEST_EVENT)

    before = newest("ana")
    assert newest("olga")[0]["table_name"] == HIDDEN.table_name
    assert newest("ana") == before


def test_before_the_service_leads_the_console_says_who_does() -> None:
    console = ServiceConsole("http://127.0.0.1:7717", 7717, ["127.0.0.1"])
    browser = TestClient(console, base_url="http://127.0.0.1:7717")
    starting = browser.get("/ui/")
    console.stand_by("10.0.0.2:7707")
    standing_by = browser.get("/ui/tables/hr/people")
    console.stand_by(None)
    alone = browser.get("/ui/")
    assert [answer.status_code for answer in (starting, standing_by, alone)] == [503, 503, 503]
    assert ("The service is starting" in starting.text, "The coordinator at 10.0.0.2:7707 leads" in standing_by.text) == (True, True)
    assert ("No coordinator leads" in alone.text, alone.headers["Retry-After"], alone.headers["X-Frame-Options"]) == (True, "2", "DENY")


def test_outside_of_a_session_no_call_is_made(service: GuardedService) -> None:
    with CallerCatalog(service.running.uri, ClientAccess()) as catalog, pytest.raises(Unauthenticated, match="no user is signed in"):
        catalog.read("tables")


def test_a_service_gets_no_link_for_one_of_its_users(service: GuardedService) -> None:
    with pytest.raises(InvalidArgument, match="for one of its users"):
        service.call("/sys_tables.rpc.v1.SysCatalog/OpenConsole", "olga", acting_for=b"ana")
