"""The dead letters of a table with records that no lake can hold."""

from __future__ import annotations

from typing import Any

from support.lake_kinds.poisoned import Poisoned
from support.worlds.validated import check, faults
from tiering.lake.dead_letters.table import read_letters
from tiering.lake.table_options import ON_BAD_RECORD
from tiering.model.rounds import RoundState

PUT_ASIDE = {ON_BAD_RECORD.name: "dead-letter"}
"""Options of a table whose bad records are put aside."""


def letters(poisoned: Poisoned) -> list[dict[str, Any]]:
    """The rows of the dead-letter table, by bucket and offset."""
    rows = [
        row for batch in read_letters(poisoned.world.lake, poisoned.table.path, poisoned.table.lake_format) for row in batch.to_pylist()
    ]
    return sorted(rows, key=lambda row: (row["bucket_id"], row["offset"]))


def tiered(poisoned: Poisoned) -> Any:
    outcome = poisoned.world.tier(poisoned.table)
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    assert not faults(check(poisoned.world, poisoned.table))
    return outcome
