"""Elements of HTML pages and of SVG pictures, whose texts and attributes are escaped when the page is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element, tostring

from tiering.redaction.visible_text import visible


def element(tag: str, attributes: Mapping[str, str], *contents: Element | str | None) -> Element:
    """Returns an element. Of the contents, None is left out; control characters in texts are shown as escapes."""
    built = Element(tag, {name: visible(value) for name, value in attributes.items()})
    for content in contents:
        if isinstance(content, Element):
            built.append(content)
        elif content is not None:
            if len(built):
                built[-1].tail = (built[-1].tail or "") + visible(content)
            else:
                built.text = (built.text or "") + visible(content)
    return built


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Element:
    """Returns a table with a caption; below it a note if there are no rows."""
    head = element("tr", {}, *(element("th", {"scope": "col"}, name) for name in columns))
    body = [element("tr", {}, *(element("td", {}, cell) for cell in row)) for row in rows]
    empty = [element("tr", {}, element("td", {"colspan": str(len(columns))}, "none"))]
    return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, *(body or empty)))


def page(title: str, style: str, *contents: Element) -> str:
    """Returns the text of an HTML document that loads nothing: its policy forbids scripts and other files."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = element(
        "head",
        {},
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        element("meta", {"name": "viewport", "content": "width=device-width"}),
        element("title", {}, title),
        element("style", {}, style),
    )
    document = element("html", {"lang": "en"}, head, element("body", {}, element("main", {}, *contents)))
    return "<!doctype html>\n" + tostring(document, encoding="unicode", method="html") + "\n"
