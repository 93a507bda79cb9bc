"""The help: the documentation as pages without links that lead nowhere, the words, and the keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import sys_tables.console
from support.repository import ROOT
from sys_tables.console.help.documents import documents, rendered, section
from sys_tables.console.help.page import TOPICS
from sys_tables.console.help.shipped import shipped_folder
from sys_tables.console.pages import NAVIGATION
from sys_tables.console.views.declared import VIEWS

Browser = Callable[[str], TestClient]
ROOT_ADDRESS = "http://console/"


def test_every_page_of_the_documentation_is_a_page_of_the_console(signed_in: Browser) -> None:
    assert set(documents()) == {file.stem for file in (ROOT / "docs").glob("*.md")}
    browser = signed_in("nina")
    for name in ("concepts", "on-call", "index"):
        assert browser.get(f"/docs/{name}").status_code == 200
    for name in ("nothing", "..%2Fpyproject", "%2e%2e", "concepts.md"):
        assert browser.get(f"/docs/{name}").status_code == 404


def test_links_of_the_documentation_lead_to_pages_and_headings_of_the_console() -> None:
    pages = {name: rendered(text, ROOT_ADDRESS) for name, text in documents().items()}
    names = {name: set(re.findall(r' id="([^"]+)"', page)) for name, page in pages.items()}
    links = {(name, link) for name, page in pages.items() for link in re.findall(r'<a href="([^"]*)"', page)}
    assert len(links) > 300
    for name, link in links:
        if link.startswith("https://") or link == f"{ROOT_ADDRESS}sql":
            continue
        match = re.fullmatch(rf"(?:{ROOT_ADDRESS}docs/([\w-]+))?(?:#(.+))?", link)
        assert match is not None, (name, link)
        page, anchor = match[1] or name, match[2]
        assert page in pages, (name, link)
        assert anchor is None or anchor in names[page], (name, link)


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](https://example.org/x.png)", "[x](../README.md)", "[x](//example.org)"],
)
def test_no_text_becomes_a_script_a_picture_or_a_foreign_link(text: str) -> None:
    page = rendered(text, ROOT_ADDRESS)
    assert not re.search(r"<script|<img|<a ", page)
    assert "x" in page or "alert" in page


def test_the_help_explains_words_and_keys(signed_in: Browser) -> None:
    page = signed_in("nina").get("/help").text
    assert section("concepts", "Words")
    for words in ("tiering epoch", "KV snapshot", "<kbd>g o</kbd>", "<kbd>j, k</kbd>", "/docs/on-call"):
        assert words in page


def test_topics_and_lists_name_pages_that_are_there() -> None:
    assert {name for _, names in TOPICS for name in names} | {view.document for view in VIEWS} <= set(documents())


def test_each_page_of_the_navigation_has_a_key_of_its_own(signed_in: Browser) -> None:
    keys = [key for _, _, key in NAVIGATION]
    assert len(set(keys)) == len(keys)
    page = signed_in("nina").get("/").text
    assert re.findall(r'data-key="(\w)"', page) == keys
    assert "keys.js" in page


def test_a_wheel_has_its_own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipped_folder("docs") == ROOT / "docs"
    monkeypatch.setattr("sys_tables.console.help.shipped._CONSOLE", tmp_path)
    (tmp_path / "shipped" / "docs").mkdir(parents=True)
    assert shipped_folder("docs") == tmp_path / "shipped" / "docs"
    assert not (Path(sys_tables.console.__file__).parent / "shipped").exists()
