"""Open pages show commits, changes of other clients, and a service that stops and returns, without a reload."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.console.browser import console, problems_of
from support.console.scene import FRESH, ORDERS, TABLES, varied_tables
from support.running.cluster_of_processes import Deployment
from tiering.client import LakewardClient

ORDERS_PAGE = f"/tables/{ORDERS.database_name}/{ORDERS.table_name}"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with varied_tables(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def page(deployment: Deployment, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with console(deployment.uri, tmp_path_factory.mktemp("console") / "console.log") as running:
        yield running.signed_in(browser)


def is_live(page: Page) -> None:
    expect(page.get_by_role("status")).to_contain_text("Live values.")


def test_a_commit_is_shown_without_a_reload_and_what_the_reader_opened_and_focused_stays(page: Page, deployment: Deployment) -> None:
    problems = problems_of(page)
    page.goto(ORDERS_PAGE)
    page.get_by_text("All columns of the status").click()
    page.evaluate("window.stays = true")
    page.get_by_role("link", name="Overview", exact=True).focus()
    is_live(page)
    deployment.append(ORDERS, 30, 27)
    expect(page.locator("#live")).to_contain_text("0: 19, 1: 19, 2: 19")
    assert page.evaluate("window.stays")
    assert page.locator("#columns").evaluate("details => details.open")
    expect(page.get_by_role("link", name="Overview", exact=True)).to_be_focused()
    assert problems == []


def test_a_change_by_another_client_is_shown_on_the_overview(page: Page, deployment: Deployment) -> None:
    page.goto(f"/?q={ORDERS.table_name}")
    is_live(page)
    with LakewardClient(deployment.uri) as client:
        client.pause_tiering(ORDERS, reason="a browser looks on")
        try:
            expect(page.locator("#live")).to_contain_text("a browser looks on")
        finally:
            client.resume_tiering(ORDERS)
    expect(page.locator("#live .state.paused")).to_have_count(0)


def test_values_stay_while_live_values_are_paused(page: Page, deployment: Deployment) -> None:
    page.goto(ORDERS_PAGE)
    is_live(page)
    page.get_by_role("button", name="Pause live values").click()
    before = page.locator("#live").inner_text()
    with LakewardClient(deployment.uri) as client:
        client.pause_tiering(ORDERS, reason="not shown yet")
        assert page.locator("#live").inner_text() == before
        page.get_by_role("button", name="Resume live values").click()
        expect(page.locator("#live")).to_contain_text("not shown yet")
        client.resume_tiering(ORDERS)


def test_charts_are_drawn_and_follow_a_round(page: Page, deployment: Deployment) -> None:
    problems = problems_of(page)
    page.goto(f"/tables/{FRESH.database_name}/{FRESH.table_name}")
    expect(page.get_by_text("No round has brought rows to the lake yet.")).to_be_visible()
    is_live(page)
    deployment.append(FRESH, 0, 30)
    with LakewardClient(deployment.uri) as client:
        client.tier_table(FRESH)
    expect(page.locator("#chart-lag canvas")).to_be_visible()
    assert page.locator("#chart-lag [role=img]").get_attribute("aria-label")
    expect(page.locator(".timeline svg a")).not_to_have_count(0)
    expect(page.locator(".buckets li")).not_to_have_count(0)
    page.goto("/")
    expect(page.locator("#chart-throughput canvas")).to_be_visible()
    expect(page.get_by_text("slots are busy")).to_be_visible()
    expect(page.locator("main .strip").first).to_have_attribute("aria-label", re.compile("of the last 6 h|kept for 6 h"))
    assert problems == []


def test_a_console_that_stops_leaves_its_last_values_and_asks_for_a_sign_in_when_it_returns(
    deployment: Deployment, browser: Browser, tmp_path: Path
) -> None:
    with console(deployment.uri, tmp_path / "first.log") as first:
        page, port = first.signed_in(browser), first.root.rpartition(":")[2]
        is_live(page)
        first.process.send(signal.SIGINT)
        first.process.wait_ended()
        expect(page.get_by_role("status")).to_contain_text("The console does not answer")
        assert page.locator(".cards tbody tr").count() == TABLES
    with console(deployment.uri, tmp_path / "second.log", port=port):
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.context.close()


def test_a_service_that_stops_is_said_with_its_last_values_and_shown_again_when_it_returns(page: Page, deployment: Deployment) -> None:
    page.goto("/")
    is_live(page)
    port, tables = deployment.port, page.locator(".cards tbody tr")
    assert tables.count() == TABLES
    deployment.kill_coordinator()
    expect(page.get_by_role("status")).to_contain_text("The service does not answer")
    assert tables.count() == TABLES
    page.context.new_page().goto(ORDERS_PAGE)
    stopped = page.context.pages[-1]
    expect(stopped.get_by_role("heading", name="This page cannot be shown")).to_be_visible()
    stopped.close()
    deployment.start_coordinator(port=port)
    is_live(page)
    with LakewardClient(deployment.uri) as client:
        client.pause_tiering(ORDERS, reason="after the return")
        expect(page.locator("#live")).to_contain_text("after the return")
