"""How often a tierer without a free slot asks for tables."""

from __future__ import annotations

from tiering.round.tierer import FULL_POLL_MS, TiererOptions, busy_interval_ms


def test_a_full_tierer_asks_as_often_as_one_with_a_free_slot_while_an_upkeep_round_runs() -> None:
    options = TiererOptions("t", "h", "a", "v", 1)
    assert busy_interval_ms(options, has_free_slot=True, upkeep_runs=False) == options.poll_ms
    assert busy_interval_ms(options, has_free_slot=False, upkeep_runs=True) == options.poll_ms
    assert busy_interval_ms(options, has_free_slot=False, upkeep_runs=False) == FULL_POLL_MS > options.poll_ms
