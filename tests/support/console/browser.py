"""Debian's Chromium, and pages of the console in it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.repository import ROOT
from support.running.processes import Process, wait_for

PATIENCE_MS = 180_000
"""Longest time for a page on a machine with much other work: it has the result of a CALL, such as a proof of a table."""
SCREENSHOTS = ROOT / "build" / "console"
LINK = re.compile(r"^http\S+/sign-in/\S+$", re.MULTILINE)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Starts Chromium. A module has one: Playwright keeps an event loop in the thread, so tests of other modules could not run theirs."""
    executable = shutil.which("chromium")
    assert executable is not None, "Chromium was not found: run `make test-setup`, or install Debian's package chromium"
    with sync_playwright() as running:
        expect.set_options(timeout=PATIENCE_MS)
        opened = running.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield opened
        opened.close()


def use_link(page: Page, link: str) -> None:
    """Opens a sign-in link, and clicks its button. The link is used up."""
    page.goto(link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{link.partition('/sign-in/')[0]}/")


@dataclass(frozen=True)
class Console:
    """A `lakeward console`, and the link that signs one browser in."""

    process: Process
    link: str

    @property
    def root(self) -> str:
        return self.link.partition("/sign-in/")[0]

    def signed_in(self, browser: Browser, **settings: Any) -> Page:
        """Returns the overview in a browser that is signed in. The link is used up."""
        page = browser.new_context(base_url=self.root, **settings).new_page()
        page.set_default_timeout(PATIENCE_MS)
        use_link(page, self.link)
        return page


@contextmanager
def console(uri: str, log: Path, env: Mapping[str, str] | None = None, port: str = "0") -> Iterator[Console]:
    """Starts the command for the service."""
    process = Process("console", "--uri", uri, "--port", port, "--print", log=log, env=env)
    try:
        yield Console(process, wait_for("the link", lambda: LINK.search(process.output()))[0])
    finally:
        process.close()


def problems_of(page: Page) -> list[str]:
    """Returns a list that gets the errors of the page: scripts that fail, and what the Content-Security-Policy blocks."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    return problems


def screenshot(page: Page, name: str) -> None:
    """Keeps a picture of the whole page, for people."""
    page.screenshot(path=SCREENSHOTS / f"{re.sub(r'[^A-Za-z0-9_.=-]+', '_', name)[:120]}.png", full_page=True)
