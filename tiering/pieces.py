"""Items in pieces of a bounded size, as `itertools.batched` of Python 3.12 yields them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def pieces(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Yields the items in order, `size` at a time; the last piece may have fewer. Yields nothing for no items."""
    remaining = iter(items)
    return iter(lambda: tuple(islice(remaining, size)), ())
