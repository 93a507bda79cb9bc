"""Two users with different privileges: a hidden table is nowhere for one of them, and the audit log names the user who acted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from support.console.browser import console
from support.console.walk import walk
from support.services.guarded_service import GuardedService, guarded_service
from tiering.access.client_access import TOKEN_FILE
from tiering.model.names import table_path

POLICIES = """
permit (principal == User::"olga", action, resource);
permit (principal == User::"ana", action, resource is Table in Database::"hr");
permit (principal == User::"ana", action == Action::"OPERATE", resource == Service::"lakeward");
forbid (principal == User::"ana", action, resource == Table::"hr.layoffs");
forbid (principal == User::"ana", action, resource is Table in Database::"secretprojects");
"""
HIDDEN = (table_path("hr", "layoffs"), table_path("secretprojects", "moon"))
VISIBLE = (table_path("hr", "people"), table_path("hr", "rooms"))
WORDS = ("layoffs", "secretprojects", "moon")
PROMISES = re.compile(r"\d+ (kept|at risk|broken|not known)")
"""Counts that change while a page is open: no tierer runs."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    with guarded_service(tmp_path_factory.mktemp("service"), POLICIES, {"olga": (), "ana": ()}) as running:
        for path in (*HIDDEN, *VISIBLE):
            running.ensure_table(path)
        yield running


@pytest.fixture(scope="module")
def page_of(service: GuardedService, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Page]]:
    """Opens the console of a user, once, in a browser context of its own."""
    folder, pages = tmp_path_factory.mktemp("consoles"), dict[str, Page]()
    with ExitStack() as stack:

        def of_user(user: str) -> Page:
            if user not in pages:
                token = folder / f"{user}.token"
                token.write_text(service.tokens[user])
                started = stack.enter_context(console(service.running.uri, folder / f"{user}.log", {TOKEN_FILE: str(token)}))
                pages[user] = started.signed_in(browser)
            return pages[user]

        yield of_user


def pause(page: Page, table: str, reason: str) -> None:
    page.goto(f"/actions/pause_tiering?table={table}&reason={reason}")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Make this change").click()
    expect(page.get_by_role("heading", name="Result")).to_be_visible()


def test_hidden_tables_are_nowhere_on_the_pages_of_a_user_who_may_not_describe_them(page_of: Callable[[str], Page]) -> None:
    olga, ana = page_of("olga"), page_of("ana")
    for path in (*HIDDEN, VISIBLE[0]):
        pause(olga, str(path), "moon landing" if path in HIDDEN else "as usual")
    hers = {address: word for address, _ in walk(ana) for word in WORDS if word in ana.content()}
    assert hers == {}
    ana.goto("/?person=yes")
    assert (ana.locator(".cards tbody tr").count(), "2 Scheduled" in ana.locator(".counts").first.inner_text()) == (1, True)
    olga.goto("/?person=yes")
    assert (olga.locator(".cards tbody tr").count(), "4 Scheduled" in olga.locator(".counts").first.inner_text()) == (3, True)


@pytest.mark.parametrize(
    ("hidden", "unknown"),
    [
        ("/?q=layoffs", "/?q=unknown"),
        ("/tables/hr/layoffs", "/tables/hr/unknown"),
        ("/tables/secretprojects/moon", "/tables/secretprojects/unkn"),
        ("/system/tiering_events?column=table_name&text=layoffs", "/system/tiering_events?column=table_name&text=unknown"),
        (
            "/sql?statement=SELECT event_type FROM sys.tiering_events WHERE table_name = 'layoffs'",
            "/sql?statement=SELECT event_type FROM sys.tiering_events WHERE table_name = 'unknown'",
        ),
        (
            "/system/lake_tiering_status?column=database_name&text=secretprojects",
            "/system/lake_tiering_status?column=database_name&text=unknown",
        ),
    ],
)
def test_an_address_with_a_hidden_name_is_answered_as_one_with_an_unknown_name(
    page_of: Callable[[str], Page], hidden: str, unknown: str
) -> None:
    ana = page_of("ana")
    texts = []
    for address, name in ((hidden, hidden), (unknown, unknown)):
        answer = ana.goto(address)
        assert answer is not None
        words = [word for word in (*WORDS, "unknown", "unkn") if word in name]
        text = ana.locator("main").inner_text()
        for word in words:
            text = text.replace(word, "NAME")
        texts.append((answer.status, PROMISES.sub("#", text).replace("Live values.\n", "")))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("user", "count"), [("ana", "2"), ("olga", "4")])
def test_the_sql_page_counts_the_tables_that_the_user_may_describe(page_of: Callable[[str], Page], user: str, count: str) -> None:
    page = page_of(user)
    page.goto("/sql")
    page.get_by_label("Statement").fill("SELECT count(*) AS tables FROM sys.lake_tiering_status")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("section[role=status] tbody td")).to_have_text([count])


def test_a_form_for_a_hidden_table_is_refused_as_for_an_unknown_one(page_of: Callable[[str], Page]) -> None:
    ana, answers = page_of("ana"), []
    for table in ("layoffs", "unknown"):
        ana.goto(f"/actions/pause_tiering?table=hr.{table}")
        ana.get_by_role("button", name="Check").click()
        answers.append(ana.get_by_role("alert").inner_text().replace(table, "NAME"))
    assert answers[0] == answers[1]


def test_the_audit_log_names_who_acted_from_the_console(page_of: Callable[[str], Page]) -> None:
    olga = page_of("olga")
    pause(olga, "hr.rooms", "for the audit")
    olga.goto("/system/audit?column=action&text=sys.pause_tiering")
    line = olga.locator("tbody tr").first.inner_text()
    assert [word in line for word in ("olga", "hr.rooms", "console-", "ANSWERED")] == [True] * 4
