"""Any value of any type of a Fluss table that Fluss's own reader returns: rows go through that reader to the client.

That reader fails for a timestamp before 1970 that is no whole millisecond.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from support.values.any_values import NO_TIMES, columns, flat, nested

_DAY_MS = 86_400_000


def _times(parts: int) -> st.SearchStrategy[int]:
    """Timestamps of a unit, of which a millisecond has `parts`. Fluss holds 64 bits of milliseconds."""
    return st.integers(0, 2**63 - 1) | st.integers(-(2**63) // parts + 1, 0).map(lambda ms: ms * parts)


def _times_of_day(kind: pa.DataType, parts: int) -> Any:
    return flat(kind, st.integers(0, _DAY_MS - 1).map(lambda ms: ms * parts))


_SECONDS = st.integers(-(2**63) // 1_000 + 1, 2**63 // 1_000 - 1)
_TIMESTAMPS = (("s", _SECONDS), ("ms", _times(1)), ("us", _times(1_000)), ("ns", _times(1_000_000)))
_ROW_FLAT = st.one_of(
    NO_TIMES,
    *(flat(pa.timestamp(unit, zone), times) for unit, times in _TIMESTAMPS for zone in (None, "UTC")),
    st.integers(1, 20).flatmap(lambda size: flat(pa.binary(size), st.binary(min_size=size, max_size=size))),
)
ROW_TYPES = nested(_ROW_FLAT)
"""Types of the rows in KV snapshots that Lakeward reads, and their values."""
ARROW_TYPES = nested(
    st.one_of(
        _ROW_FLAT,
        flat(pa.time32("s"), st.integers(0, _DAY_MS // 1_000 - 1)),
        *(_times_of_day(kind, parts) for kind, parts in ((pa.time32("ms"), 1), (pa.time64("us"), 1_000), (pa.time64("ns"), 1_000_000))),
    )
)
"""Types of a log in the format ARROW, and their values. Fluss holds times of a day in milliseconds."""


@st.composite
def fluss_rows(draw: st.DrawFn, types: st.SearchStrategy[Any], least: int = 0, columns_at_most: int = 4) -> pa.RecordBatch:
    """At least `least` rows of drawn columns."""
    count = draw(st.integers(least, 6))
    drawn = [draw(columns(count, types)) for _ in range(draw(st.integers(1, columns_at_most)))]
    return pa.RecordBatch.from_arrays(drawn, schema=pa.schema([(f"c{place}", column.type) for place, column in enumerate(drawn)]))
