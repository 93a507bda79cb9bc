"""Drawn queries have the same rows on Spark and on DuckDB.

The queries of a seed are one statement of Spark, which needs half a second for a statement. DuckDB runs each query alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.depth import examples
from support.slt.drawn_batches import differences
from support.slt.queries import Queries
from tiering.cli.sql.engine import Engine

QUERIES_OF_A_SEED = 10
SEEDS_IN_CI = 30
SECONDS_OF_A_SEED = 30
"""Upper bound on a machine with other work, so that the limit of a test does not end a long draw. In CI it is the limit of all tests."""


@pytest.mark.timeout(SECONDS_OF_A_SEED * examples(SEEDS_IN_CI))
@settings(max_examples=examples(SEEDS_IN_CI), phases=(Phase.generate,))  # 300 queries in CI; a seed does not shrink
@given(seed=st.integers(0, 2**32 - 1))
def test_drawn_queries_have_the_same_rows(seed: int, engines: Mapping[str, Engine]) -> None:
    queries = Queries(Random(seed))
    assert differences([queries.query() for _ in range(QUERIES_OF_A_SEED)], engines["spark"], engines["duckdb"]) == []
