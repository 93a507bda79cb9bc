"""Draws `docs/console.svg`, the picture with which the README opens, from the console's overview of a service with sample tables.

Run `PYTHONPATH=.:tests python -m support.console_picture` in the root of the repository; it needs Debian's Chromium. A screenshot would be
a binary in git, and a PDF that is converted to SVG has each letter as a path and is ten times as large. So Chromium lays the page out
without scripts, and `drawing.js` writes its boxes and its lines of text as SVG. Its description lists the headings and columns of the page,
so that a test sees when the page has others.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from pathlib import Path

from playwright.sync_api import sync_playwright
from starlette.testclient import TestClient

from support.console_picture.sample import HOURS, sample_service
from support.repository import ROOT
from support.services.sys_catalog import serving
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console import app as console
from sys_tables.console.sign_in_pages import Site
from sys_tables.console.signing_in import SignInCodes

PICTURE = ROOT / "docs" / "console.svg"
WIDTH, PORT = 1380, 7717
TITLE = "The console of Lakeward: which tables keep their promise, how fast rows reach the lake, and what needs a person."
SEPARATOR = " · "
"""Between the headings in the description."""
_DRAWING = Path(__file__).with_name("drawing.js")
_STYLES = Path(console.__file__).parent / "static" / "console.css"


def overview_page(hours: int = HOURS) -> str:
    """Returns the HTML of the overview of a service with sample tables, as the console serves it."""
    world = sample_service(hours)

    def read(uri: str) -> str:
        with SystemCatalog(uri) as catalog:
            code = SignInCodes()
            app = console.console_app(catalog, code, Site(PORT), now=world.clock.now)
            with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as browser:
                browser.post(f"/sign-in/{code.new()}")
                return browser.get("/").text

    return asyncio.run(_served(world.coordinator, read))


async def _served(coordinator: object, read: Callable[[str], str]) -> str:
    async with serving(coordinator) as client:  # type: ignore[arg-type]
        return await asyncio.to_thread(read, f"127.0.0.1:{client.port}")


class Headings(HTMLParser):
    """The texts of the navigation, the headings and the columns of a page, in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._is_open = False
        self._in_navigation = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._in_navigation |= tag == "nav" and attributes.get("aria-label") != "Pages of tables"
        is_heading = tag in ("h1", "h2") or (tag == "th" and attributes.get("scope") == "col")
        self._is_open |= is_heading or (tag == "a" and self._in_navigation)

    def handle_endtag(self, tag: str) -> None:
        self._in_navigation &= tag != "nav"
        self._is_open &= tag not in ("h1", "h2", "th", "a")

    def handle_data(self, data: str) -> None:
        if self._is_open and data.strip():
            self.texts.append(" ".join(data.split()))


def picture_of(html: str) -> str:
    """Returns a page as SVG. Its scripts do not run, and it loads nothing."""
    styled = html.replace("<head>", f"<head><style>{_STYLES.read_text()}</style>", 1)
    executable = shutil.which("chromium")
    assert executable is not None, "Chromium was not found: install Debian's package chromium"
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_context(java_script_enabled=False, viewport={"width": WIDTH, "height": 800}, offline=True).new_page()
        page.set_content(styled)
        drawn = page.evaluate(_DRAWING.read_text())
        browser.close()
    size = f'width="{drawn["width"]}" height="{drawn["height"]}" viewBox="0 0 {drawn["width"]} {drawn["height"]}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="system-ui, sans-serif">\n'
        f"<title>{TITLE}</title>\n<desc>{escape(SEPARATOR.join(Headings(html).texts))}</desc>\n<style>text{{white-space:pre}}{drawn['looks']}</style>\n"
        f'<rect width="100%" height="100%" fill="#fff"/>\n{drawn["drawn"]}\n</svg>\n'
    )


def main() -> None:
    """Writes the picture."""
    PICTURE.write_text(picture_of(overview_page()), encoding="utf-8")
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
