"""Rows of the matrix about lake tables that upkeep rewrote, and about columns that were renamed, widened, dropped and added again."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from support.readers.cases import CHANGED, ID, TEXTS, Story, case_of, data_files, delete_files, texts
from support.readers.source_tables import Row, SourceTable, Tables
from tiering.model.schema.changes import AddColumn, After, ChangeType, DropColumn, MoveColumn, RenameColumn
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder

EVERYTHING = UpkeepOrder(full=True, manifests=True, expiry=ExpiryOrder(retain_last=1))
"""Rewrites all data files and manifests, and expires all snapshots but the newest."""
MEASURES = pa.schema(
    [
        ID,
        pa.field("text", pa.string()),
        pa.field("pieces", pa.int32()),
        pa.field("ratio", pa.float32()),
        pa.field("price", pa.decimal128(9, 2)),
    ]
)


def upkept_log(tables: Tables) -> Story:
    table = tables.make("upkept", TEXTS, 1)
    for first in range(0, 400, 100):
        table.append(texts(*range(first, first + 100)))
        yield
    before = table.head()
    table.order(EVERYTHING)
    yield
    assert len(data_files(table)) == 1
    assert table.head() != before
    after_upkeep = case_of(CHANGED, "log table, merged into one file, with one snapshot", table)
    twin = tables.make("upkept_on", TEXTS, 1)
    twin.append(texts(*range(50)))
    yield
    twin.order(EVERYTHING)
    yield
    twin.append(texts(*range(50, 90)))
    yield
    return [after_upkeep, case_of(CHANGED, "log table, with rows after its upkeep", twin)]


def upkept_keys(tables: Tables) -> Story:
    table = tables.make("upkept_keys", TEXTS, 1, primary_key=("id",))
    table.upsert(texts(*range(300)))
    yield
    table.upsert(texts(*range(0, 300, 9), word="newer"))
    table.delete(texts(*range(4, 300, 50)))
    yield
    table.order(EVERYTHING)
    yield
    assert table.world.lake_format != "iceberg" or not delete_files(table)
    table.upsert(texts(0, 1, 500, word="newest"))
    table.delete(texts(9))
    yield
    return [case_of(CHANGED, "primary-key table, with updates and deletes after its upkeep", table)]


def _measures(*numbers: int) -> list[Row]:
    more = lambda n: {"pieces": n, "ratio": n / 4, "price": Decimal(n).scaleb(-2)}  # noqa: E731
    return [{**row, **more(row["id"])} for row in texts(*numbers)]


def _changed(table: SourceTable) -> None:
    """Renames a column, widens three, moves one, and gives the name of a dropped one to another column of another type."""
    table.change(
        RenameColumn(("text",), "title"),
        ChangeType(("pieces",), pa.int64()),
        ChangeType(("ratio",), pa.float64()),
        ChangeType(("price",), pa.decimal128(20, 2)),
        MoveColumn(("price",), After("id")),
    )


def _renewed(table: SourceTable) -> None:
    table.change(DropColumn(("title",)))
    table.change(AddColumn(pa.field("title", pa.int32())))


def _later(table: SourceTable, *numbers: int) -> list[Row]:
    values = {"title": 7, "pieces": 1 << 40, "ratio": 0.1, "price": Decimal("123456789012.34")}
    is_text = pa.types.is_string(table.info.schema.field("title").type)
    return [{"id": number, **values, "title": f"title {number}" if is_text else number} for number in numbers]


def changed_log(tables: Tables) -> Story:
    table = tables.make("changed", MEASURES, 1)
    table.append(_measures(*range(10)))
    yield
    _changed(table)
    table.append(_later(table, *range(10, 20)))
    yield
    _renewed(table)
    table.append(_later(table, *range(20, 30)))
    yield
    return [case_of(CHANGED, "log table: renamed, widened, moved, dropped, and added again with another type", table)]


def changed_keys(tables: Tables) -> Story:
    table = tables.make("changed_keys", MEASURES, 1, primary_key=("id",))
    table.upsert(_measures(*range(20)))
    yield
    _changed(table)
    table.upsert(_later(table, *range(15, 25)))
    yield
    _renewed(table)
    table.upsert(_later(table, *range(0, 30, 10)))
    table.delete(_later(table, 3))
    yield
    return [case_of(CHANGED, "primary-key table: the same changes, with updates and deletes after them", table)]
