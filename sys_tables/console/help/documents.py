"""The documentation as pages: Markdown of the project's own docs/, with links that lead to pages of the console. Pure but for the files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from sys_tables.console.help.shipped import shipped_folder

_PAGE_LINK = re.compile(r"(?P<page>[\w-]+)\.md(?P<anchor>#[\w-]+)?")
_SCROLL = '<div class="scroll" tabindex="0" role="group" aria-label="Table">'
_EXAMPLES = "../sql_examples/README.md"


@cache
def documents() -> Mapping[str, str]:
    """Returns the Markdown of each page by its name, such as `concepts`."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(shipped_folder("docs").glob("*.md"))}


@cache
def title(name: str) -> str:
    """Returns the first heading of a page."""
    return next((line.removeprefix("# ") for line in documents()[name].splitlines() if line.startswith("# ")), name)


def section(name: str, heading: str) -> str:
    """Returns the Markdown of a page below a heading of the second level; empty without such a heading."""
    _, _, following = documents()[name].partition(f"\n## {heading}\n")
    return following.partition("\n## ")[0]


def rendered(markdown: str, root: str) -> str:
    """Returns Markdown as HTML. `root` is the address of the console, with a slash at its end. HTML in the text stays text."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    _name_headings(tokens)
    for token in tokens:
        if token.children:
            token.children = list(_with_links(token.children, root))
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html.replace("<table>", f"{_SCROLL}<table>").replace("</table>", "</table></div>")


def _name_headings(tokens: Sequence[Token]) -> None:
    """Gives headings the names that links of the documentation use."""
    used: dict[str, int] = {}
    for token, text in pairwise(tokens):
        if token.type != "heading_open":
            continue
        plain = "".join(child.content for child in text.children or () if child.type in ("text", "code_inline"))
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        repeated = used.get(name, 0)
        used[name] = repeated + 1
        token.attrSet("id", f"{name}-{repeated}" if repeated else name)


def _with_links(tokens: Sequence[Token], root: str) -> list[Token]:
    """Returns inline tokens whose links lead to pages of the console. Links to other files of the repository, and pictures, become text."""
    kept: list[Token] = []
    dropped: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            address = _address(str(token.attrGet("href") or ""), root)
            dropped.append(address is None)
            if address is not None:
                token.attrSet("href", address)
        if token.type == "image":
            token.type, token.tag, token.attrs = "text", "", {}
        if not (token.type in ("link_open", "link_close") and dropped[-1]):
            kept.append(token)
        if token.type == "link_close":
            dropped.pop()
    return kept


def _address(target: str, root: str) -> str | None:
    if target.startswith(("#", "https://")):
        return target
    if target.startswith(_EXAMPLES):
        return f"{root}sql"
    match = _PAGE_LINK.fullmatch(target)
    return f"{root}docs/{match['page']}{match['anchor'] or ''}" if match and match["page"] in documents() else None
