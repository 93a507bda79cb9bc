"""A walk through all pages of the console that links lead to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

from playwright.sync_api import Page, Response

from sys_tables.registry import default_registry

ALIKE = 5
"""Pages of one kind that a walk visits, such as pages of tables. The forms of two procedures are of two kinds.

One page is visited for each choice of parameters of an address."""
_WORDS = {declared.name for declared in (*default_registry().procedures, *default_registry().tables)}
Kind = tuple[str, ...]


def walk(page: Page, *, every_form: bool = True) -> Iterator[tuple[str, Response]]:
    """Goes to each page that links lead to, and yields its address and the answer. The page must be at the address until the next one.

    Without `every_form`, forms of procedures are pages of one kind, and so are pages of system tables.
    """
    addresses, kinds = ["/"], Counter[Kind]({("",): 1})
    for address in addresses:
        response = page.goto(address)
        assert response is not None
        links = page.eval_on_selector_all("a[href]", "links => links.map(link => new URL(link.getAttribute('href'), location.href).href)")
        yield address, response
        for link in links:
            parts = urlsplit(link)
            if not page.url.startswith(f"{parts.scheme}://{parts.netloc}/"):
                continue
            target = parts._replace(scheme="", netloc="", fragment="").geturl()
            target_kind = kind(target, every_form=every_form)
            if target not in addresses and kinds[target_kind] < (1 if target_kind[-1] in _WORDS or urlsplit(target).query else ALIKE):
                kinds[target_kind] += 1
                addresses.append(target)


def kind(address: str, *, every_form: bool) -> Kind:
    """Returns the words of a path and the names of its parameters. Names of tables and of rounds are no words."""
    parts = urlsplit(address)
    first, *others = parts.path.removeprefix("/").split("/")
    if every_form and is_one_of_many(address):
        return (first, *others)
    return (first, *("*" for _ in others), *sorted(name for name, _ in parse_qsl(parts.query)))


def is_one_of_many(address: str) -> bool:
    """Returns whether the page is that of a procedure or of a system table: these pages are made from declarations, by one template."""
    return not _WORDS.isdisjoint(urlsplit(address).path.split("/"))
