"""Every type of a table's columns, with values at its edges: one NULL each, four rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

ROWS = 4
LONG_TEXT = "ab\U0001f600" * 350_000
"""More than 1 MB of UTF-8."""
FAR = Decimal("99999999999999999999.999999999999999999")

POINT = pa.struct([("x", pa.int32()), ("label", pa.string())])
CASES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "a_boolean": (pa.bool_(), [True, None, False, True]),
    "a_byte": (pa.int8(), [-128, None, 127, 0]),
    "a_short": (pa.int16(), [-32768, None, 32767, 0]),
    "an_int": (pa.int32(), [-(2**31), None, 2**31 - 1, 0]),
    "a_long": (pa.int64(), [-(2**63), None, 2**63 - 1, 0]),
    "a_float": (pa.float32(), [-3.4028234663852886e38, None, float("inf"), 1e-45]),
    "a_double": (pa.float64(), [float("-inf"), None, 1.7976931348623157e308, 5e-324]),
    "a_decimal_9": (pa.decimal128(9, 2), [Decimal("-9999999.99"), None, Decimal("9999999.99"), Decimal("0.00")]),
    "a_decimal_18": (pa.decimal128(18, 18), [Decimal("-0.999999999999999999"), None, Decimal("0.999999999999999999"), Decimal("1e-18")]),
    "a_decimal_38": (pa.decimal128(38, 18), [FAR.copy_negate(), None, FAR, Decimal("0.000000000000000001")]),
    "a_whole_decimal": (pa.decimal128(38, 0), [Decimal(-(10**38) + 1), None, Decimal(10**38 - 1), Decimal(0)]),
    "a_text": (pa.string(), ["", None, "grün \U0001f469\u200d\U0001f680 \u0000 \U0010ffff", "'; -- \" \\ \n"]),
    "a_long_text": (pa.string(), [LONG_TEXT, None, "", "\ud7ff" * 20]),
    "a_binary": (pa.binary(), [b"", None, b"\x00\xff" * 40, b"\xff" * 20]),
    "a_date": (pa.date32(), [date(1, 1, 1), None, date(9999, 12, 31), date(1969, 12, 31)]),
    "a_timestamp": (pa.timestamp("us"), [datetime(1, 1, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1582, 10, 10)]),
    "an_instant": (
        pa.timestamp("us", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), None, datetime(9999, 12, 31, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
    ),
    "only_nulls": (pa.float64(), [None] * ROWS),
    "a_list": (pa.list_(pa.string()), [["", None, "\U0001f600"], None, [], ["x"] * 3]),
    "a_map": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("", None)], None, [], [("\U0001f600", -(2**63))]]),
    "a_struct": (POINT, [{"x": 1, "label": ""}, None, {"x": None, "label": None}, {"x": -5, "label": "l"}]),
    "lists_of_lists": (pa.list_(pa.list_(pa.int16())), [[[1, None], None, []], None, [], [[-32768]]]),
    "lists_of_structs": (pa.list_(POINT), [[{"x": 1, "label": "a"}, None, {"x": None, "label": None}], None, [], [{"x": 2, "label": ""}]]),
    "maps_of_lists": (pa.map_(pa.int32(), pa.list_(pa.date32())), [[(1, [date(1900, 1, 1), None]), (2, None)], None, [], [(-1, [])]]),
    "maps_of_maps": (
        pa.map_(pa.string(), pa.map_(pa.string(), pa.decimal128(38, 18))),
        [[("a", [("b", FAR), ("c", None)])], None, [("d", [])], [("e", None)]],
    ),
    "structs_of_all": (
        pa.struct([("l", pa.list_(pa.binary())), ("m", pa.map_(pa.string(), POINT)), ("s", pa.struct([("t", pa.timestamp("us", "UTC"))]))]),
        [
            {"l": [b"\x00", None], "m": [("k", {"x": 1, "label": None}), ("n", None)], "s": {"t": datetime(1969, 1, 1, tzinfo=UTC)}},
            None,
            {"l": None, "m": None, "s": None},
            {"l": [], "m": [], "s": {"t": None}},
        ],
    ),
}
LATER = pa.field("added_later", pa.list_(POINT))
LATER_VALUES = [[{"x": 1, "label": "later"}], None, [], [None]]
