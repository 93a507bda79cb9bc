"""Kept listings are bounded: the one used longest ago goes first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.worlds.coordinator_world import START, CountingIds
from support.worlds.memory_coordinator import table_status
from tiering.access.grants import EVERYTHING
from tiering.coordinator.server.listings import KEPT_ITEMS, KEPT_LISTINGS, PAGE_BYTES, Listing, Listings
from tiering.errors import InvalidArgument
from tiering.model.status import TableStatus

BYTES = 100


def sized(size_of: Callable[[TableStatus], int]) -> Listings[TableStatus, TableStatus]:
    """Listings whose items are answered as they are, with a size of the test's."""
    return Listings(CountingIds(), lambda status: status, size_of)


def few_bytes() -> Listings[TableStatus, TableStatus]:
    """Listings whose items are small."""
    return sized(lambda status: BYTES)


TWO = Listing((table_status("sales.a"), table_status("sales.b")), START, EVERYTHING)


def test_a_listing_that_fits_on_one_page_is_not_kept() -> None:
    page = few_bytes().first(TWO, 2)
    assert (page.items, page.next_token) == (TWO.items, "")


def test_the_listing_used_longest_ago_is_forgotten_first() -> None:
    listings = few_bytes()
    oldest = listings.first(TWO, 1).next_token
    second = listings.first(TWO, 1).next_token
    for _ in range(KEPT_LISTINGS - 2):
        listings.first(TWO, 1)
    assert listings.next(oldest, 1, EVERYTHING).items == TWO.items[1:]
    listings.first(TWO, 1)
    assert listings.next(oldest, 1, EVERYTHING).next_token == ""
    with pytest.raises(InvalidArgument, match="too old"):
        listings.next(second, 1, EVERYTHING)


def test_kept_listings_have_a_size_together_and_the_newest_is_always_kept() -> None:
    listings, large = few_bytes(), Listing(TWO.items * (KEPT_ITEMS // 4), START, EVERYTHING)
    first, second, third = (listings.first(large, 1).next_token for _ in range(3))
    with pytest.raises(InvalidArgument, match="too old"):
        listings.next(first, 1, EVERYTHING)
    assert listings.next(second, 1, EVERYTHING).items == listings.next(third, 1, EVERYTHING).items == TWO.items[1:]
    alone = listings.first(Listing(TWO.items * KEPT_ITEMS, START, EVERYTHING), 1).next_token
    assert listings.next(alone, 1, EVERYTHING).items == TWO.items[1:]


@pytest.mark.parametrize("position", ["9" * 5_000, "-1", "x", "\u0663" * 20, ""])
def test_a_position_that_none_of_ours_has_is_refused(position: str) -> None:
    listings = few_bytes()
    name = listings.first(TWO, 1).next_token.rpartition(":")[0]
    with pytest.raises(InvalidArgument, match="unknown or too old"):
        listings.next(f"{name}:{position}", 1, EVERYTHING)


def test_a_page_ends_where_its_items_would_be_more_than_an_answer_carries() -> None:
    listings = sized(lambda status: PAGE_BYTES // 3)
    seven = Listing(tuple(table_status(f"sales.t{number}") for number in range(7)), START, EVERYTHING)
    pages = [listings.first(seven, 5)]
    while pages[-1].next_token:
        pages.append(listings.next(pages[-1].next_token, 5, EVERYTHING))
    assert [len(page.items) for page in pages] == [3, 3, 1]
    assert tuple(item for page in pages for item in page.items) == seven.items


def test_an_item_larger_than_an_answer_is_a_page_of_its_own() -> None:
    listings = sized(lambda status: PAGE_BYTES + 1)
    first = listings.first(TWO, 0)
    assert (first.items, listings.next(first.next_token, 0, EVERYTHING).items) == (TWO.items[:1], TWO.items[1:])


def test_a_whole_listing_is_one_page_or_an_error_that_names_page_size() -> None:
    assert sized(lambda status: PAGE_BYTES // 2).whole(TWO).items == TWO.items
    with pytest.raises(InvalidArgument, match="page_size"):
        sized(lambda status: PAGE_BYTES // 2 + 1).whole(TWO)
