"""A table that failed for good, though nothing is wrong with its lake table (any more): it is tried again by itself, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lake_kinds.repairs import LOG
from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import tiered
from support.on_call import call, next_action
from support.worlds.lake_world import LakeWorld

RETRY = "CALL fluss.sys.retry_tiering('sales.orders')"


def test_a_fault_that_was_mended_before_a_user_looked_is_tried_again_by_itself(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)
    broken.renamed(source)
    source.tier()
    world.iceberg_catalog().rename_table("sales.former", "sales.orders")
    assert next_action(world.coordinator, source.info) is None
    assert world.begin(source.info).end().error is None
    assert source.in_lake() == sorted(source.rows.items())
    world.close()


def test_a_table_that_fails_again_though_a_look_sees_nothing_waits_for_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be tried for ever; after a round that succeeds the next such error is tried again by itself."""
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)

    def fail() -> None:
        """The catalog forgets the table for the time of a round."""
        with monkeypatch.context() as patched:
            patched.setattr(world.lake, "view", lambda path: None)
            assert world.begin(source.info).end().error is not None

    def succeed() -> None:
        assert world.begin(source.info).end().error is None

    broken.renamed(source)
    source.tier()
    world.iceberg_catalog().rename_table("sales.former", "sales.orders")
    assert next_action(world.coordinator, source.info) is None
    fail()
    assert next_action(world.coordinator, source.info) == RETRY
    assert next_action(world.coordinator, source.info) == RETRY
    call(world.coordinator, RETRY)
    succeed()
    world.coordinator.repair_inspector.inspect_all()
    world.due()
    fail()
    assert next_action(world.coordinator, source.info) is None
    succeed()
    world.close()
