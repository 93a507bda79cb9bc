"""An ack is recorded while no server shows the records of the log, and neither the ack nor a trace is lost by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from tiering.errors import ClusterUnavailable, LogRewritten
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey
from tiering.round.steps import actions as act


def no_server(*_: object) -> Any:
    raise ClusterUnavailable("no server shows the records of bucket 0 now")


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", LAKE_KINDS, ids=str)
@pytest.mark.parametrize("acks_are_lost", [False, True], ids=["first ack", "repeated ack"])
def test_an_ack_after_a_skip_needs_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: LakeKind, acks_are_lost: bool) -> None:
    with monkeypatch.context() as poison:
        refuse_poison(poison)
        poisoned = Poisoned(tmp_path, kind, has_key=False, buckets=1)
        world, table = poisoned.world, poisoned.table
        poisoned.write((1, "row 1"))
        assert world.tier(table).error is None
        poisoned.write((100, POISON))
        poisoned.skip(world.tier(table))
        skipped = world.record(table).lake.skipped_records
        assert list(skipped) == [BucketKey(None, 0)]
        assert all(trace is not None for records in skipped.values() for trace in records.values())
        poisoned.write((2, "row 2"))
        world.due()
        running = world.begin(table).advance_to(act.CommitLake)
        world.transport.lose_acks = acks_are_lost
        with monkeypatch.context() as outage:
            outage.setattr(type(world.storage), "record_traces", no_server)
            assert running.runner.run().state is RoundState.SUCCEEDED
            world.transport.lose_acks = False
            in_lake = world.view(table)
            assert in_lake.marker is not None
            assert in_lake.tiered is not None
            if acks_are_lost:
                lost = world.record(table).round
                assert lost is not None
                assert not lost.acked
                world.transport.commit_lake_snapshot(running.assignment, in_lake.marker, in_lake.tiered)
        record = world.record(table)
        marker = in_lake.marker
        assert record.round is not None
        assert record.round.acked
        assert (record.lake.marker_round_id, record.lake.skipped_records) == (marker.round_id, skipped)
        assert (marker.skipped, list(marker.traces)) == (skipped, [BucketKey(None, 0)])
        running.end()
        poisoned.write((3, "row 3"))
        after = world.tier(table)
        assert not isinstance(after.error, LogRewritten)
        assert after.state is RoundState.SUCCEEDED
        assert poisoned.in_lake().keys() == {1, 2, 3}
        world.close()
