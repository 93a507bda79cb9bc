"""Faults of the simulator that another test holds: what handles them is taken out, and that test fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faults.simulated.deployment_faults import WEAKENED
from faults.simulated.faults import FAULTS
from faults.stories.weakened import check_that_it_fails_without
from faults.stories.weakenings import Weakening, without

from support.upkeep.unchecked_rewrites import all_rewrites
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.memory.tierer_registry import Sender, TiererRegistry
from tiering.errors import CannotReconcile
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.round.steps import actions as act
from tiering.round.steps import steps_to_write
from tiering.round.steps.round_state import Round, Step


def takes_overtaken_heartbeats(tierers: TiererRegistry, message: Any, now: Moment, *, stopping: bool = False) -> Sender:
    """Does not look at the number of a heartbeat."""
    return replace(_meet(tierers, message, now, stopping=stopping), overtaken=False, may_take=True)


_meet = TiererRegistry.meet


def takes_names_for_equal(offsets: RowOffsets, place: Place, of_rows: Any) -> None:
    """Compares names of partitions without regard to case."""
    name, bucket_id = place
    _add(offsets, (None if name is None else name.lower(), bucket_id), of_rows)


_add = RowOffsets.add


def goes_on_without_snapshots(state: Round, _: act.SnapshotsLeased) -> Step:
    """Continues as if all KV snapshots had been leased."""
    return _snapshots_leased(state, act.SnapshotsLeased())


_snapshots_leased = steps_to_write.snapshots_leased

WEAKENINGS = (
    Weakening(
        "coordinator-doubled",
        without("tiering.coordinator.memory.sql_store.SqlStore._count_write", by=lambda *_: True),
        variant="[sqlite]",
    ),
    Weakening("commit-request-late", without("tiering.lake.paimon.commit.committer._check_head"), fails_with=Exception),
    Weakening("request-late", without("tiering.coordinator.memory.tierer_registry.TiererRegistry.meet", by=takes_overtaken_heartbeats)),
    Weakening("kv-snapshot-superseded", without("tiering.round.steps.steps_to_write.snapshots_leased", by=goes_on_without_snapshots)),
    Weakening("lease-expired", without("tiering.round.runner.RoundRunner.lose_snapshots")),
    Weakening("lease-dropped", without("tiering.round.lease_keeper.LeaseKeeper._all_snapshot_ids", by=lambda _: {})),
    Weakening(
        "partitions-alike",
        without("tiering.lake.rules.contiguous_offsets.RowOffsets.add", by=takes_names_for_equal),
        fails_with=CannotReconcile,
    ),
    Weakening("rewrite-overtaken", without("tiering.lake.iceberg.commit.committer.fitting_rewrites", by=all_rewrites)),
    Weakening("upkeep-gives-way", without("tiering.coordinator.tierers.upkeep_slots.UpkeepSlots.give_way")),
)
HELD_BY_A_TEST_WITHOUT_IT = {"message-forged"}
"""Faults whose test itself removes the part that handles the fault."""
HELD_BY = {fault.name: fault.held_by for fault in FAULTS}


@pytest.mark.parametrize("weakening", WEAKENINGS, ids=lambda weakening: weakening.fault)
def test_the_test_that_holds_a_part_fails_without_it(tmp_path: Path, weakening: Weakening) -> None:
    """With the part the test passes, in the run that this test belongs to."""
    test = HELD_BY[weakening.fault]
    check_that_it_fails_without(weakening.weaken, test, tmp_path / "weakened", weakening.fails_with, weakening.variant)


def test_the_handling_of_each_fault_that_is_held_elsewhere_is_taken_out() -> None:
    elsewhere = {name for name, test in HELD_BY.items() if not test.startswith(WEAKENED)}
    assert elsewhere == {weakening.fault for weakening in WEAKENINGS} | HELD_BY_A_TEST_WITHOUT_IT
