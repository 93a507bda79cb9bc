"""Simulated deployments of several tables: whatever fails, no offset is lost or doubled, and everything heals."""

from __future__ import annotations

from collections import Counter

import pytest
from faults.simulated.deployment_faults import run_story

BLOCKS = 4
SEEDS_OF_A_BLOCK = 50
WORKED = {"SUCCEEDED", "EMPTY", "FENCED", "FAILED", "CANCELLED", "retier reconciled", "swept"}
BROKEN = {"LakeTableReplaced", "MarkerLost", "UnsupportedType", "LogTruncated", "KvSnapshotGone", "LakeUnavailable"}
SOME_BROKEN = 4
"""Which of them fifty seeds meet is chance; `test_weakened_deployments.py` has each fault for sure."""


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_fails_several_tables_are_tiered_once_and_heal(block: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(block * SEEDS_OF_A_BLOCK, (block + 1) * SEEDS_OF_A_BLOCK):
        outcomes += run_story(seed).world.outcomes
    happened = {name for name, count in outcomes.items() if count}
    assert happened >= WORKED  # else the faults were no faults
    assert len(BROKEN & happened) >= SOME_BROKEN


def test_a_log_that_was_rewritten_goes_on_once_retention_took_what_would_tell() -> None:
    """Seed 20513: the last tiered record is compared, and retention removed it before the next round."""
    assert run_story(20_513).world.outcomes["SUCCEEDED"]
