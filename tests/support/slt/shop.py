"""A shop: the small tables with difficult values that the queries of sqllogictest files and drawn queries read.

Each table has rows in the lake and rows that are only in the log, except `shop.drafts` (log only) and `shop.nothing` (no rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN
from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from sys_tables.catalog_client import SystemCatalog
from tiering.model.tables import TablePath

ID = pa.field("id", pa.int64(), nullable=False)
VISITS = pa.schema(
    [
        ID,
        pa.field("country", pa.string(), nullable=False),
        pa.field("person", pa.int64()),
        pa.field("page", pa.string()),
        pa.field("seconds", pa.int32()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("bought", pa.bool_()),
    ]
)
PEOPLE = pa.schema(
    [
        ID,
        pa.field("name", pa.string()),
        pa.field("born", pa.date32()),
        pa.field("score", pa.float64()),
        pa.field("friend", pa.int64()),
        pa.field("active", pa.bool_()),
    ]
)
EDGES = pa.schema(
    [
        ID,
        pa.field("tiny", pa.int8()),
        pa.field("small", pa.int16()),
        pa.field("whole", pa.int32()),
        pa.field("big", pa.int64()),
        pa.field("half", pa.float32()),
        pa.field("real", pa.float64()),
        pa.field("money", pa.decimal128(9, 2)),
        pa.field("exact", pa.decimal128(38, 18)),
        pa.field("text", pa.string()),
        pa.field("truth", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("local", pa.timestamp("us")),
        pa.field("instant", pa.timestamp("us", "UTC")),
        pa.field("bytes", pa.binary()),
    ]
)
NAN, INF = float("nan"), float("inf")
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999)


def moment(text: str) -> datetime:
    """Returns an instant, written without its zone, UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


VISIT_ROWS: Sequence[tuple[Any, ...]] = (
    (1, "de", 1, "/", 30, Decimal("0.00"), date(2026, 2, 28), moment("2026-02-28T23:59:59.999999"), False),
    (2, "de", 1, "/buy", 120, Decimal("19.99"), date(2026, 3, 1), moment("2026-03-01T00:00:00"), True),
    (3, "de", 2, "/Buy", None, Decimal("-5.00"), date(2026, 3, 1), moment("2026-03-01T00:00:00.000001"), True),
    (4, "at", 3, None, 0, None, None, None, None),
    (5, "at", None, "", -1, Decimal("99999999.99"), date(1969, 12, 31), moment("1969-12-31T23:59:59.5"), False),
    (6, "at", 7, "/grüne/100%", 2**31 - 1, Decimal("-99999999.99"), date(1, 1, 1), moment("0001-01-01T00:00:00"), True),
    (7, "ch", 5, "/a_b", -(2**31), Decimal("0.01"), date(9999, 12, 31), LATEST.replace(tzinfo=UTC), None),
    (8, "ch", 5, "/aXb", 30, Decimal("19.99"), date(2024, 2, 29), moment("2024-02-29T12:30:45"), False),
    (9, "ch", 4, "/\U0001f600", 30, Decimal("20.00"), date(2026, 3, 1), moment("2026-03-01T12:00:00"), True),
    (10, "fr", 4, 'it\'s \\ "quoted"', 60, Decimal("7.50"), date(2026, 12, 31), moment("2026-12-31T23:59:59"), True),
    (11, "DE", 6, " /buy ", 90, Decimal("12.34"), date(2020, 12, 31), moment("2020-12-31T08:00:00"), None),
    (12, "1_-", 8, "NULL", 61, Decimal("1000.00"), date(1970, 1, 1), moment("1970-01-01T00:00:00"), False),
)
VISITS_IN_LAKE = 7
PEOPLE_BEFORE: Sequence[tuple[Any, ...]] = (
    (1, "Ada", date(1815, 12, 10), 1.5, 2, True),
    (2, "Bob", date(1990, 2, 28), -1.0, 1, False),
    (3, "", date(1, 1, 1), NAN, 3, None),
    (4, None, None, None, None, None),
    (5, "Çağla", date(9999, 12, 31), INF, 9, True),
    (6, "never again", date(2000, 1, 1), 0.5, 1, True),
    (7, "ada", date(1970, 1, 1), -0.0, 1, False),
)
PEOPLE_AFTER: Sequence[tuple[Any, ...]] = (
    (2, "Bob%", date(1990, 3, 1), 2.25, 4, True),
    (4, "Dan_", None, -INF, None, False),
    (8, "\U0001f469\u200d\U0001f680", date(1582, 10, 4), 0.0, None, None),
    (9, "Zoë", date(1969, 12, 31), 1e308, 8, False),
)
"""Rows in the log: two replace rows of the lake. The log also deletes the row 6."""
BIG = Decimal("99999999999999999999.999999999999999999")
EDGE_ROWS: Sequence[tuple[Any, ...]] = (
    (
        *(1, -128, -32768, -(2**31), -(2**63), -3.4028234663852886e38, -1.7976931348623157e308),
        *(Decimal("-9999999.99"), BIG.copy_negate(), "", False, date(1, 1, 1), datetime(1, 1, 1), moment("0001-01-01T00:00:00"), b""),
    ),
    (
        *(2, 127, 32767, 2**31 - 1, 2**63 - 1, 3.4028234663852886e38, 1.7976931348623157e308),
        *(Decimal("9999999.99"), BIG, "\U0010ffff", True, date(9999, 12, 31), LATEST, LATEST.replace(tzinfo=UTC), b"\x00\xff"),
    ),
    (3, *[None] * (len(EDGES) - 1)),
    (
        *(4, 0, 0, 0, 0, 0.0, 0.0, Decimal("0.00"), Decimal("0E-18"), " "),
        *(True, date(1970, 1, 1), datetime(1970, 1, 1), moment("1970-01-01T00:00:00"), b"a"),
    ),
    (
        *(5, 1, 1, 1, 1, -0.0, -0.0, Decimal("0.01"), Decimal("1E-18"), "abc"),
        *(False, date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 999999), moment("1969-12-31T23:59:59.999999"), b"abc"),
    ),
    (
        *(6, -1, -1, -1, -1, NAN, NAN, Decimal("-0.01"), Decimal("-1E-18"), "ABC"),
        *(None, date(2024, 2, 29), datetime(2024, 2, 29, 12), moment("2024-02-29T12:00:00"), b"\xff"),
    ),
    (
        *(7, 12, 345, 67_890, 2**53 + 1, INF, INF, Decimal("1.50"), Decimal("0.5"), "12"),
        *(True, date(1582, 10, 4), datetime(1582, 10, 4), moment("1582-10-04T00:00:00"), None),
    ),
    (
        *(8, -7, -7, -7, -7, -INF, -INF, Decimal("2.50"), Decimal("-2.5"), "grüne 100%_\\ 'x'"),
        *(None, date(2026, 3, 1), datetime(2026, 3, 1, 1, 2, 3), moment("2026-03-01T01:02:03"), b"\xc3\xa9"),
    ),
    (
        *(9, 7, 7, 7, 7, 5.0, 5e-324, Decimal("2.50"), Decimal("2.5"), "\u00cdstanbul\t\n"),
        *(False, date(2026, 12, 31), datetime(2026, 12, 31, 23), moment("2026-12-31T23:00:00"), b"abc"),
    ),
    (10, 7, None, 7, None, 2.5, None, Decimal("2.50"), None, "abc", None, None, datetime(2000, 2, 29), None, b""),
)
EDGES_IN_LAKE = 5
PAUSED = {"drafts": "it's \\ 100% \U0001f600", "nothing": ""}
"""Reasons of paused tables."""
PENDING = {"visits": 5, "people": 7, "edges": 5, "drafts": 4, "nothing": 0}
"""Records of the log that are not in the lake: the changes of a key are two records each."""


def table_of(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Returns rows as Arrow."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def open_shop(service: Deployment) -> None:
    """Creates the tables in a service with a tierer, tiers them, and waits until the coordinator has seen every row."""
    visits, people, edges, drafts, nothing = (TablePath("shop", name) for name in ("visits", "people", "edges", "drafts", "nothing"))
    service.create(visits, "1 h", VISITS, 2, ICEBERG, partition_keys=("country",))
    service.create(people, "2 h", PEOPLE, 2, ICEBERG, primary_key=("id",))
    service.create(edges, "1 h", EDGES, 1, ICEBERG_CLEAN)
    service.create(drafts, "1 h", VISITS, 1, ICEBERG)
    service.create(nothing, "1 h", PEOPLE, 1, ICEBERG, primary_key=("id",))
    with service.cluster() as cluster:
        cluster.append(visits, table_of(VISITS, VISIT_ROWS[:VISITS_IN_LAKE]), "w", 0)
        cluster.upsert(people, table_of(PEOPLE, PEOPLE_BEFORE), "w", 0)
        cluster.append(edges, table_of(EDGES, EDGE_ROWS[:EDGES_IN_LAKE]), "w", 0)
        for path in (visits, people, edges):
            service.lakeward("tier", str(path))
        cluster.append(visits, table_of(VISITS, VISIT_ROWS[VISITS_IN_LAKE:]), "w", 1)
        cluster.upsert(people, table_of(PEOPLE, PEOPLE_AFTER), "w", 1)
        cluster.delete(people, pa.table({"id": [6]}, pa.schema([ID])), "w", 2)
        cluster.append(edges, table_of(EDGES, EDGE_ROWS[EDGES_IN_LAKE:]), "w", 1)
        cluster.append(drafts, table_of(VISITS, VISIT_ROWS[::3]), "w", 0)
    with SystemCatalog(service.uri) as catalog:
        for name, reason in PAUSED.items():
            catalog.call("pause_tiering", table=f"shop.{name}", reason=reason)
    for name, count in PENDING.items():
        path = TablePath("shop", name)
        wait_for(f"the coordinator has seen the {count} pending records of {path}", lambda: service.status(path).pending_records == count)  # noqa: B023
