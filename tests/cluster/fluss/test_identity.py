"""Another cluster under the address of the one that tables were tiered from."""

from __future__ import annotations

import pytest

from tiering.cluster.fluss.cluster import CLOCK_SKEW_MS, check_identity
from tiering.cluster.fluss.memory import RecordedTable
from tiering.errors import ClusterUnavailable
from tiering.model.tables import TablePath

HOUR_MS = 3_600_000


def table(table_id: int, name: str = "orders", created_ms: int = HOUR_MS) -> RecordedTable:
    return RecordedTable(table_id, TablePath("sales", name), created_ms)


KNOWN = {known.table_id: known for known in (table(3), table(8, "planes", 2 * HOUR_MS))}


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [table(3), table(8, "planes", 2 * HOUR_MS)],
        [table(9, "orders", 3 * HOUR_MS)],
        [table(5, "flights", 2 * HOUR_MS + CLOCK_SKEW_MS)],
    ],
    ids=["all tables dropped", "the same", "dropped and made anew", "missed before"],
)
def test_the_same_cluster_is_recognised_whatever_became_of_its_tables(listed: list[RecordedTable]) -> None:
    check_identity("north", KNOWN, listed)


@pytest.mark.parametrize(
    "listed",
    [[table(3, "flights")], [table(3, created_ms=HOUR_MS + 1)], [table(0, "flights", 5 * HOUR_MS)]],
    ids=["another name", "another time", "an early id made late"],
)
def test_another_cluster_is_told_by_its_tables(listed: list[RecordedTable]) -> None:
    with pytest.raises(ClusterUnavailable, match="another Fluss cluster answers where 'north' was") as refused:
        check_identity("north", KNOWN, listed)
    assert "--fluss" in refused.value.hint
