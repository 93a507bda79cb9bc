"""Access to the pages: codes that work once, sessions, forms of other pages, names of other hosts, and headers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from support.services.guarded_service import GuardedService
from sys_tables.console.app import console_app
from sys_tables.console.middleware import SECURITY_HEADERS
from sys_tables.console.service.callers import THIS_USER, Caller
from sys_tables.console.sign_in_pages import Site
from sys_tables.console.signing_in import CODE_SECONDS, MAX_CODES, MAX_SESSIONS, Sessions, SignInCodes

Console = Callable[[str], tuple[TestClient, SignInCodes]]
Browser = Callable[[str], TestClient]


def routes_of(app: Starlette) -> list[Route]:
    return [route for route in app.routes if isinstance(route, Route)]


def test_a_link_signs_one_browser_in_once(console: Console) -> None:
    browser, code = console("olga")
    link = f"/sign-in/{code.new()}"
    answer = browser.post(link)
    cookie = answer.headers["set-cookie"]
    assert (answer.status_code, browser.get("/").status_code) == (200, 200)
    assert [word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/")] == [True] * 3
    other = TestClient(browser.app, base_url=browser.base_url)
    for again in (other.post(link), other.get(link)):
        assert (again.status_code, "set-cookie" in again.headers, other.get("/").url.path) == (403, False, "/sign-in")


def test_a_preview_of_a_link_does_not_use_it_up(console: Console) -> None:
    browser, codes = console("olga")
    link = f"/sign-in/{codes.new(Caller('olga', 'token'))}"
    previews = [browser.request(method, link) for method in ("HEAD", "GET", "OPTIONS", "GET")]
    assert [preview.status_code for preview in previews] == [200, 200, 405, 200]
    assert ["set-cookie" in preview.headers for preview in previews] == [False] * 4
    [action] = re.findall(r'<form method="post" action="([^"]+)">\s*<button[^>]*>Sign in as olga</button>', previews[-1].text)
    signed_in = browser.post(action)
    assert (signed_in.status_code, "set-cookie" in signed_in.headers) == (200, True)


def test_a_form_of_another_site_uses_no_link_up(console: Console) -> None:
    browser, codes = console("olga")
    link = f"/sign-in/{codes.new()}"
    for site in ("cross-site", "same-site", "none"):
        answer = browser.post(link, headers={"Sec-Fetch-Site": site})
        assert ("Sign in</button>" in answer.text, "set-cookie" in answer.headers) == (True, False)
    assert "set-cookie" in browser.post(link, headers={"Sec-Fetch-Site": "same-origin"}).headers


def test_a_form_of_another_site_uses_no_link_up_where_browsers_name_only_its_origin(console: Console) -> None:
    browser, codes = console("olga")
    link = f"/sign-in/{codes.new()}"
    for origin in ("http://other.example:7717", "http://127.0.0.1:80", "null"):
        answer = browser.post(link, headers={"Origin": origin})
        assert ("Sign in</button>" in answer.text, "set-cookie" in answer.headers) == (True, False)
    assert '<meta name="referrer" content="same-origin">' in browser.get(link).text  # without it, the form's Origin is null, too
    assert "set-cookie" in browser.post(link, headers={"Origin": str(browser.base_url)}).headers


def test_a_code_is_valid_for_five_minutes_and_names_its_caller() -> None:
    seconds = [0.0]
    codes = SignInCodes(lambda: seconds[0])
    ana, bob = (codes.new(Caller(name, f"token of {name}")) for name in ("ana", "bob"))
    seconds[0] = CODE_SECONDS - 1
    assert (codes.take(bob), codes.take(ana)) == (Caller("bob", "token of bob"), Caller("ana", "token of ana"))
    assert (codes.take(ana), codes.take("")) == (None, None)
    expired = codes.new()
    seconds[0] += CODE_SECONDS
    assert codes.take(expired) is None


def test_the_oldest_of_too_many_codes_and_sessions_is_void() -> None:
    codes, sessions = SignInCodes(), Sessions()
    first, *others = (codes.new() for _ in range(MAX_CODES + 1))
    assert (codes.take(first), codes.take(others[0])) == (None, THIS_USER)
    first_cookie, *cookies = (sessions.open() for _ in range(MAX_SESSIONS + 1))
    assert [sessions.session(cookie) is None for cookie in (first_cookie, cookies[0])] == [True, False]


def test_a_cookie_of_another_process_or_of_an_ended_or_expired_session_is_void() -> None:
    sessions = Sessions()
    cookie = sessions.open()
    session = sessions.session(cookie)
    assert session is not None
    assert Sessions().session(cookie) is None
    assert sessions.session(cookie[:-2]) is None
    sessions.close(session)
    assert sessions.session(cookie) is None
    expired = Sessions(seconds=-1)
    assert expired.session(expired.open()) is None


def test_without_a_session_every_page_leads_to_sign_in(console: Console) -> None:
    browser, _ = console("olga")
    assert isinstance(browser.app, Starlette)
    pages = [route for route in routes_of(browser.app) if not route.path.startswith("/sign-in")]
    assert len(pages) > 2
    for route in pages:
        path = re.sub(r"\{(\w+)\}", r"\1", route.path)
        answer = browser.request(min(route.methods or {"GET"}), path, follow_redirects=False)
        assert (path, answer.status_code, answer.headers["location"]) == (path, 303, "/sign-in")


def test_every_form_needs_the_token_of_its_session(signed_in: Browser) -> None:
    browser, other = signed_in("olga"), signed_in("olga")
    assert isinstance(browser.app, Starlette)
    forms = [route.path for route in routes_of(browser.app) if route.methods is not None and "POST" in route.methods]
    [token] = re.findall(r'name="csrf_token" value="(\w+)"', other.get("/").text)
    assert "/sign-out" in forms
    for path in forms:
        assert browser.post(path).status_code == 403
        assert browser.post(path, data={"csrf_token": token}).status_code == 403
    assert browser.get("/").url.path == "/"


class Broken:
    """A catalog with an error that no page expects."""

    def rows(self, request: Any) -> list[dict[str, Any]]:
        raise ZeroDivisionError("a secret")

    call = stream = rows


def test_an_error_of_the_console_itself_is_a_page_that_names_no_more() -> None:
    codes = SignInCodes()
    browser = TestClient(console_app(Broken(), codes, Site(7717)), "http://127.0.0.1:7717", raise_server_exceptions=False)
    browser.post(f"/sign-in/{codes.new()}")
    answer = browser.get("/")
    assert (answer.status_code, "The console itself has an error." in answer.text, "secret" in answer.text) == (500, True, False)
    assert {name: answer.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_a_form_that_is_too_long_is_not_read(signed_in: Browser) -> None:
    assert signed_in("olga").post("/sign-out", content=b"x" * 100_000).status_code == 413


def test_signing_out_ends_the_session_also_for_a_copy_of_the_cookie(signed_in: Browser) -> None:
    browser = signed_in("olga")
    copy = TestClient(browser.app, base_url=browser.base_url, cookies=dict(browser.cookies))
    [token] = re.findall(r'name="csrf_token" value="(\w+)"', browser.get("/").text)
    assert browser.post("/sign-out", data={"csrf_token": token}).url.path == "/sign-in"
    assert (browser.get("/").url.path, copy.get("/").url.path) == ("/sign-in", "/sign-in")


def test_another_hosts_name_that_leads_here_gets_nothing(signed_in: Browser) -> None:
    assert signed_in("olga").get("/", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("path", ["/", "/sign-in", "/tables/hr/people", "/tables/hr/nothing", "/nothing", "/static/console.css"])
def test_every_answer_has_the_security_headers(signed_in: Browser, path: str) -> None:
    browser = signed_in("olga")
    for answer in (browser.get(path), browser.get(path, headers={"Host": "evil.example"}), browser.post("/sign-out")):
        assert {name: answer.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS


@pytest.mark.parametrize(
    "path", ["/", "/?q=nothing", "/sign-in", "/tables/hr/people", "/tables/hr/nothing", "/actions", "/system", "/system/procedures"]
)
def test_no_page_has_scripts_or_styles_of_its_own_or_names_another_host(signed_in: Browser, path: str) -> None:
    text = signed_in("olga").get(path).text
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", text) == []
    assert set(re.findall(r"(?:href|src|action)=\"https?://([^/\"]+)", text)) <= {"127.0.0.1:7717"}


def test_the_services_token_is_in_no_answer(signed_in: Browser, service: GuardedService) -> None:
    browser = signed_in("olga")
    token = service.tokens["olga"]
    for path in ("/", "/tables/hr/people", "/sign-in"):
        answer = browser.get(path)
        assert token not in answer.text + str(answer.headers)
