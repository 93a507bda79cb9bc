"""A table of stock with a primary key: its lake copy is older than its log. Tests of each kind of cluster compare their answers with it."""

from __future__ import annotations

from collections.abc import Callable

CHANGES_OF_TWO_KEYS = sorted(
    [
        (3, "+I", "old 3"),
        (3, "-U", "old 3"),
        (3, "+U", "new 3"),
        (3, "-U", "new 3"),
        (3, "+U", "newest 3"),
        (22, "+I", "old 22"),
        (22, "-D", "old 22"),
    ]
)
"""The changelog of the keys 3 and 22: id, kind of the change, text."""


def fill_stock(upsert: Callable[[range, str], object], delete: Callable[[range], object], tier: Callable[[], object]) -> dict[int, str]:
    """Fills an empty table, and returns its rows: texts by key. The keys 0 to 29 are in the lake. `upsert` writes "<text> <key>"."""
    upsert(range(30), "old")
    tier()
    upsert(range(10), "new")
    upsert(range(5), "newest")
    upsert(range(30, 33), "new")
    delete(range(20, 25))
    return (
        {key: f"old {key}" for key in range(10, 30) if not 20 <= key < 25}
        | {key: f"new {key}" for key in (*range(5, 10), *range(30, 33))}
        | {key: f"newest {key}" for key in range(5)}
    )
