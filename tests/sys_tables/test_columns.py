from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from sys_tables.declare.columns import record_batch
from tiering.model.declare import INT, column, comment_of, schema_of


@dataclass(frozen=True)
class Item:
    name: str = column("Its name.")
    size: int | None = column("Its size.")


@dataclass(frozen=True)
class Everything:
    text: str = column("A text.")
    big: int = column("A big number.")
    small: int = column("A small number.", arrow_type=INT)
    ratio: float | None = column("A ratio.")
    truth: bool = column("A truth.")
    at: datetime | None = column("A moment.")
    names: tuple[str, ...] = column("Names.")
    items: tuple[Item, ...] = column("Items.")
    offsets: Mapping[str, int] = column("Offsets.")


@dataclass(frozen=True)
class WithoutComment:
    text: str


@dataclass(frozen=True)
class Undecided:
    value: int | str = column("Which?")


def everything(**changes: object) -> Everything:
    values = {
        "text": "a",
        "big": 2**40,
        "small": 3,
        "ratio": 0.5,
        "truth": True,
        "at": datetime(2026, 3, 1, tzinfo=UTC),
        "names": ("x", "y"),
    }
    return Everything(**(values | {"items": (Item("i", None),), "offsets": {"0": 7}} | changes))  # type: ignore[arg-type]


def test_annotations_say_the_types_and_which_columns_may_be_null() -> None:
    schema = schema_of(Everything)
    assert [(field.name, field.type, field.nullable) for field in schema][:6] == [
        ("text", pa.string(), False),
        ("big", pa.int64(), False),
        ("small", pa.int32(), False),
        ("ratio", pa.float64(), True),
        ("truth", pa.bool_(), False),
        ("at", pa.timestamp("us", tz="UTC"), True),
    ]


def test_comments_travel_with_columns_and_with_fields_of_structs() -> None:
    schema = schema_of(Everything)
    assert comment_of(schema.field("big")) == "A big number."
    assert comment_of(schema.field("items").type.value_type.field("size")) == "Its size."


def test_rows_come_out_as_they_went_in() -> None:
    row = everything()
    (read,) = record_batch(schema_of(Everything), [row]).to_pylist()
    assert read["items"] == [{"name": "i", "size": None}]
    assert read["offsets"] == [("0", 7)]
    assert (read["text"], read["big"], read["small"], read["ratio"], read["names"], read["at"]) == ("a", 2**40, 3, 0.5, ["x", "y"], row.at)


def test_a_moment_of_another_zone_is_the_same_instant() -> None:
    there = datetime(2026, 3, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    (read,) = record_batch(schema_of(Everything), [everything(at=there)]).to_pylist()
    assert read["at"] == datetime(2026, 3, 1, tzinfo=UTC)


def test_a_missing_value_in_a_column_without_nulls_is_an_error() -> None:
    with pytest.raises(ValueError, match="'text'"):
        record_batch(schema_of(Everything), [everything(text=None)])


def test_a_column_without_comment_or_with_two_types_is_refused() -> None:
    with pytest.raises(TypeError, match=r"WithoutComment\.text has no comment"):
        schema_of(WithoutComment)
    with pytest.raises(TypeError, match="not one type"):
        schema_of(Undecided)
