"""Records of primary-key tables that are put aside: a later change of a key wins, and a delete is never put aside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.lake_kinds.dead_letters import PUT_ASIDE, letters, tiered
from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from tiering.lake.writing import fitting
from tiering.model.refused_records import UnwritableRow
from tiering.model.rounds import RoundState
from tiering.model.tables import CHANGE_TYPE_COLUMN, ChangeType


@pytest.fixture(params=[ICEBERG_CLEAN, PAIMON], ids=lambda kind: kind.name)
def poisoned(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poisoned]:
    refuse_poison(monkeypatch)
    kind: LakeKind = request.param
    table = Poisoned(tmp_path, kind, has_key=True, buckets=1, options=PUT_ASIDE)
    table.write((1, "old"), (2, "old"))
    tiered(table)
    yield table
    table.world.close()


def test_the_lake_keeps_the_older_row_of_a_key_until_a_later_change(poisoned: Poisoned) -> None:
    poisoned.write((1, POISON), (2, "new"))
    tiered(poisoned)
    assert poisoned.in_lake() == {1: "old", 2: "new"}
    [letter] = letters(poisoned)
    assert letter["change_type"] == "+U"
    poisoned.write((1, "later"))
    tiered(poisoned)
    assert poisoned.in_lake() == {1: "later", 2: "new"}


def test_a_later_change_of_the_key_in_the_same_round_wins(poisoned: Poisoned) -> None:
    poisoned.write((1, POISON))
    poisoned.write((1, "later"))
    poisoned.write((2, POISON))
    tiered(poisoned)
    assert poisoned.in_lake() == {1: "later", 2: "old"}
    assert [letter["change_type"] for letter in letters(poisoned)] == ["+U", "+U"]


def test_a_delete_behind_a_dead_letter_removes_the_row_of_its_key(poisoned: Poisoned) -> None:
    poisoned.write((1, POISON))
    tiered(poisoned)
    poisoned.delete(1)
    tiered(poisoned)
    assert poisoned.in_lake() == {2: "old"}


def test_a_delete_is_never_put_aside(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = fitting._fitted

    def refusing(batch: pa.RecordBatch, *more: object) -> pa.RecordBatch:
        if CHANGE_TYPE_COLUMN in batch.schema.names:
            kinds = batch.column(CHANGE_TYPE_COLUMN).to_pylist()
            if ChangeType.DELETE in kinds:
                raise UnwritableRow(kinds.index(ChangeType.DELETE), "text", "is refused")
        return fitted(batch, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(fitting, "_fitted", refusing)
    poisoned.delete(1)
    outcome = poisoned.world.tier(poisoned.table)
    assert outcome.state is RoundState.FAILED
    assert outcome.error is not None
    assert "a delete is never put aside" in outcome.error.message
    assert outcome.error.hint is not None
    assert outcome.error.hint.endswith(
        "Then write its row again in a form that the table can hold. Then delete it again, because the lake still has the row of its key."
    )
    assert letters(poisoned) == []
