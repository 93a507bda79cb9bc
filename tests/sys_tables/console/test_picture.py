"""The picture of the console in the README: small, harmless where it is shown, and the page of today."""

from __future__ import annotations

from xml.etree import ElementTree

from support.console_picture.__main__ import PICTURE, SEPARATOR, Headings, overview_page
from support.repository import ROOT

MAX_BYTES = 60_000
SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "title", "desc", "style", "rect", "text", "g", "line", "path", "polyline", "polygon", "circle"}


def test_it_is_small_and_the_first_picture_of_the_readme() -> None:
    assert PICTURE.stat().st_size < MAX_BYTES
    readme = (ROOT / "README.md").read_text()
    assert readme.index("(docs/console.svg)") < readme.index("(docs/overview.svg)")


def test_it_runs_and_loads_nothing() -> None:
    parts = list(ElementTree.parse(PICTURE).getroot().iter())
    assert {part.tag.removeprefix(SVG) for part in parts} <= DRAWN
    attributes = [(name, value) for part in parts for name, value in part.attrib.items()]
    assert [name for name, _ in attributes if name.startswith("on") or name.endswith("href")] == []
    text = PICTURE.read_text()
    assert [word for word in ("url(", "@import", "javascript:", "<!") if word in text] == []


def test_it_has_the_headings_and_columns_of_the_page() -> None:
    root = ElementTree.parse(PICTURE).getroot()
    headings = Headings(overview_page(hours=1)).texts
    run_again = "the page has changed: run `PYTHONPATH=.:tests python -m support.console_picture`"
    assert root.findtext(f"{SVG}desc", "").split(SEPARATOR) == headings, run_again
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert [heading for heading in headings if heading not in texts] == [], run_again
    assert len(headings) > 15
