"""Records that the lake cannot hold are put aside: the other rows are tiered, and each record is counted once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.lake_kinds.dead_letters import PUT_ASIDE, letters, tiered
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.coordinator.definitions.definer import Definer
from tiering.coordinator.definitions.statements import Statement
from tiering.errors import CannotReconcile, InvalidName
from tiering.lake import table_options
from tiering.lake.dead_letters.letter import row_of
from tiering.lake.dead_letters.table import dead_letter_path
from tiering.lake.writing import fitting
from tiering.procedures.adopt_table import AdoptTable
from tiering.procedures.pause_tiering import PauseTiering


@pytest.fixture(autouse=True)
def _lakes_refuse_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_poison(monkeypatch)


@pytest.fixture(params=[False, True], ids=["log", "primary key"])
def poisoned(request: pytest.FixtureRequest, tmp_path: Path, kind: LakeKind) -> Iterator[Poisoned]:
    table = Poisoned(tmp_path, kind, has_key=request.param, options=PUT_ASIDE)
    yield table
    table.world.close()


def test_all_other_rows_are_tiered_in_the_same_round_and_the_record_is_counted(poisoned: Poisoned) -> None:
    rows = {number: f"row {number}" for number in range(20)}
    later = {number: f"later {number}" for number in range(200, 220)}
    poisoned.write(*rows.items(), (100, POISON), *later.items())
    assert tiered(poisoned).error is None
    assert poisoned.in_lake() == {**rows, **later}
    [letter] = letters(poisoned)
    assert json.loads(letter["record"]) == {"id": 100, "text": POISON}
    [row] = row_of(letter["raw_record"]).to_pylist()
    assert (row["id"], row["text"], row["__offset"]) == (100, POISON, letter["offset"])
    assert (letter["table_id"], letter["column_name"], letter["reason"]) == (poisoned.table.table_id, "text", "its column 'text' is poison")
    assert letter["change_type"] == ("+I" if poisoned.has_key else "+A")
    lake = poisoned.world.record(poisoned.table).lake
    assert lake.dead_letters == {str(letter["bucket_id"]): (letter["offset"],)}
    assert lake.dead_letters == lake.skipped
    assert (lake.skipped_traces[str(letter["bucket_id"])][letter["offset"]], lake.dead_letters_in_hour) == (letter["trace"], 1)
    poisoned.world.restart()
    poisoned.write((300, "row 300"))
    tiered(poisoned)
    assert poisoned.in_lake() == {**rows, **later, 300: "row 300"}
    assert len(letters(poisoned)) == 1


def test_a_table_without_the_option_stops_before_the_record(tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=False, buckets=1)
    poisoned.write((1, "row 1"), (100, POISON), (2, "row 2"))
    outcome = poisoned.world.tier(poisoned.table)
    assert outcome.error is not None
    assert outcome.error.error_class == "BucketStopped"
    assert poisoned.in_lake() == {1: "row 1"}
    assert letters(poisoned) == []
    poisoned.world.close()


def test_records_stay_in_a_dead_letter_table_whose_snapshots_expire_and_whose_files_are_merged(
    tmp_path: Path, kind: LakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_options, "LEAST_MAX_AGE_MS", 0)
    expiry = {"table.datalake.snapshot.max-age": "1 ms", "table.datalake.snapshot.min-count": "2"}
    poisoned = Poisoned(tmp_path, kind, has_key=False, buckets=1, options={**PUT_ASIDE, **expiry})
    for number in range(6):
        poisoned.write((100 + number, POISON), (number, "good"))
        tiered(poisoned)
        if number == 3:
            poisoned.world.by_hand.rewrite(dead_letter_path(poisoned.table.path))
    view = poisoned.world.lake.view(dead_letter_path(poisoned.table.path))
    assert view is not None
    assert len(view.snapshots) <= 5
    assert [letter["offset"] for letter in letters(poisoned)] == [0, 2, 4, 6, 8, 10]
    poisoned.world.close()


def test_a_dead_letter_table_cannot_be_adopted(tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[1], has_key=False, options=PUT_ASIDE)
    poisoned.write((1, "row 1"), (100, POISON))
    tiered(poisoned)
    perform, other = poisoned.world.coordinator.control.perform, poisoned.world.table("other")
    asyncio.run(perform(PauseTiering(other.path, caller="ann")))
    before = letters(poisoned)
    with pytest.raises(CannotReconcile, match=r"sales\.orders__dead_letters has the dead letters of a table") as refusal:
        asyncio.run(perform(AdoptTable(other.path, str(dead_letter_path(poisoned.table.path)), {"0": 0, "1": 0}, caller="ann")))
    assert "sys.replay_dead_letters" in refusal.value.hint
    assert letters(poisoned) == before
    poisoned.world.close()


def test_a_table_cannot_be_created_with_the_name_of_a_dead_letter_table(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    with pytest.raises(InvalidName, match="__dead_letters"):
        world.table("orders__Dead_Letters")
    world.close()


def test_a_table_of_a_user_with_the_name_of_the_dead_letter_table_is_not_touched(tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=False, buckets=1, options=PUT_ASIDE)
    catalog = poisoned.world.iceberg_catalog()
    catalog.create_namespace_if_not_exists("sales")
    table_of_user = catalog.create_table("sales.orders__dead_letters", SCHEMA)
    poisoned.write((1, "row 1"), (100, POISON))
    error = poisoned.world.tier(poisoned.table).error
    assert error is not None
    assert (error.error_class, error.ids["table_path"]) == ("TableMismatch", "sales.orders__dead_letters")
    assert catalog.load_table("sales.orders__dead_letters").metadata == table_of_user.metadata
    poisoned.world.close()


def test_drop_table_purge_drops_the_dead_letters_too(poisoned: Poisoned) -> None:
    poisoned.write((1, "row 1"), (100, POISON))
    tiered(poisoned)
    statement = Statement(name="DROP TABLE", digest="digest", caller="ann", idempotency_key="k")
    Definer(poisoned.world.coordinator.call_parts).drop_table(statement, poisoned.table.path, purge=True)
    assert letters(poisoned) == []
    assert poisoned.world.lake.view(dead_letter_path(poisoned.table.path)) is None


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary key"])
def test_records_that_an_error_does_not_name_are_put_aside_if_other_rows_can_be_written(
    tmp_path: Path, has_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[1], has_key=has_key, buckets=1, options=PUT_ASIDE)
    fitted = fitting._fitted

    def refusing(batch: pa.RecordBatch, *more: Any) -> pa.RecordBatch:
        if "text" in batch.schema.names and "strange" in batch.column("text").to_pylist():
            raise ValueError("no such option")
        return fitted(batch, *more)

    monkeypatch.setattr(fitting, "_fitted", refusing)
    poisoned.write((1, "row 1"), (100, "strange"), (2, "row 2"), (101, "strange"), (102, POISON))
    assert tiered(poisoned).error is None
    assert poisoned.in_lake() == {1: "row 1", 2: "row 2"}
    reasons = [letter["reason"] for letter in letters(poisoned)]
    assert reasons == ["writing it ends with ValueError", "writing it ends with ValueError", "its column 'text' is poison"]
    poisoned.world.close()
