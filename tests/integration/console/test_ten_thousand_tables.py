"""10,000 tables in the browser: pages, search and order. `bench/console_pages.py` measures how long they take."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from support.console.browser import console, screenshot
from support.services.sys_catalog import serving
from support.worlds.memory_coordinator import MemoryCoordinator, table_status

TABLES = 10_000
PAGE_ROWS = 50
FAILS, BROKEN = 7_000, 3_000
"""Numbers of the table that fails, and of the one whose promise is broken."""
LONG_MS = 3_600_000
"""A lag above the promise."""


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """A service with the tables `d00.t00000`, `d01.t00001`, ... of 100 databases. The lag grows with the number, except for `BROKEN`."""
    soon, over = datetime.now(UTC) + timedelta(days=1), datetime.now(UTC) - timedelta(hours=1)
    statuses = [
        table_status(
            f"d{number % 100:02}.t{number:05}",
            lag_ms=LONG_MS if number == BROKEN else number,
            observed_time=datetime.now(UTC),
            status="Failed" if number == FAILS else "Scheduled",
            consecutive_failures=int(number == FAILS),
            freshness_deadline=over if number == BROKEN else soon,
        )
        for number in range(TABLES)
    ]
    loop, ready, ended, ports = asyncio.new_event_loop(), threading.Event(), asyncio.Event(), list[int]()

    async def serve() -> None:
        async with serving(MemoryCoordinator(statuses=statuses)) as client:
            ports.append(client.port)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    yield f"127.0.0.1:{ports[0]}"
    loop.call_soon_threadsafe(ended.set)
    thread.join(60)
    loop.close()


@pytest.fixture(scope="module")
def page(uri: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with console(uri, tmp_path_factory.mktemp("console") / "console.log") as running:
        yield running.signed_in(browser)


def names(page: Page) -> list[str]:
    """Returns the names of the tables on the page."""
    return page.locator(".cards tbody th a").all_inner_texts()


def test_the_first_page_counts_all_tables_and_begins_with_what_is_urgent(page: Page) -> None:
    page.goto("/")
    screenshot(page, "ten-thousand-tables")
    counts = page.locator(".counts").all_inner_texts()
    assert [text in " ".join(counts) for text in ("9,999 Scheduled", "1 Failed", "1 broken", "1 at risk")] == [True] * 4
    assert (len(names(page)), names(page)[:2]) == (PAGE_ROWS, [f"d00.t{FAILS:05}", f"d00.t{BROKEN:05}"])
    assert page.locator(".cards tbody .state.broken").count() == 1


def test_pages_follow_each_other_without_a_gap_to_the_last_one(page: Page) -> None:
    page.goto("/?sort=name")
    first = names(page)
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_text("Page 2", exact=True)).to_be_visible()
    second = names(page)
    assert (len({*first, *second}), [*first, *second]) == (2 * PAGE_ROWS, sorted([*first, *second]))
    page.goto(f"/?sort=name&page={TABLES // PAGE_ROWS}")
    assert names(page)[-1] == "d99.t09999"
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)
    page.get_by_role("link", name="Previous page").click()
    expect(page.get_by_role("link", name="Next page")).to_be_visible()


def test_a_search_finds_one_table_of_all(page: Page) -> None:
    page.goto("/")
    page.get_by_role("combobox", name="Name", exact=True).fill("t04321")
    page.keyboard.press("Enter")
    expect(page.locator(".cards tbody th a")).to_have_text(["d21.t04321"])
    page.get_by_role("link", name="Show all").click()
    expect(page.locator(".cards tbody th a")).to_have_count(PAGE_ROWS)


def test_a_field_for_a_table_suggests_names_that_contain_its_text(page: Page) -> None:
    page.goto("/actions/pause_tiering")
    page.get_by_label("table (required)").press_sequentially("T0432")
    expect(page.locator("#table-names option")).to_have_count(10)
    assert page.locator("#table-names option").first.get_attribute("value") == "d20.t04320"


def test_a_click_on_a_heading_sorts_all_tables_in_the_service(page: Page) -> None:
    page.goto("/")
    page.get_by_role("columnheader", name="lag").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="lag")).to_have_attribute("aria-sort", "descending")
    assert names(page)[:3] == [f"d00.t{BROKEN:05}", "d99.t09999", "d98.t09998"]
