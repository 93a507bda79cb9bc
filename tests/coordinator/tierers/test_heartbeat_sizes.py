"""A heartbeat with very many reports: few look-ups and writes, and the records' lock is free during the look-ups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.operators import pause
from support.worlds.coordinator_world import World
from support.worlds.memory_store import MemoryStore
from tiering.cli.terminal.options import MAX_SLOTS
from tiering.coordinator.decisions.records import RoundRecord
from tiering.coordinator.tierers.heartbeats import MAX_REPORTS
from tiering.coordinator.tierers.leases import MOST_DETAILED, MOST_TABLES, SNAPSHOTS_NOT_LEASED
from tiering.errors import InvalidArgument
from tiering.model.tables import BucketKey, TableBucket
from tiering.round.tierer import HANGING_ROUNDS
from tiering.rpc.v1 import coordinator_pb2 as pb


class CountingStore(MemoryStore):
    """Counts what is asked of it. A table is paused by another thread while rounds are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.world: World | None = None

    def round(self, round_id: str) -> RoundRecord | None:
        self.calls["round"] += 1
        return super().round(round_id)

    def rounds_by_id(self, round_ids: Collection[str]) -> Mapping[str, RoundRecord]:
        self.calls["rounds_by_id"] += 1
        if self.world is not None:
            with ThreadPoolExecutor(1) as operator:
                operator.submit(pause, self.world.coordinator, self.world.table.path, "ann").result(timeout=60)
        return super().rounds_by_id(round_ids)

    def rise(self, coordinator_epoch: int, above: int) -> int:
        self.calls["rise"] += 1
        return super().rise(coordinator_epoch, above)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def world(store: CountingStore) -> World:
    return World(store=store)


def reports(count: int, coordinator_epoch: int = 1) -> tuple[pb.PbHeartbeatReqForTable, ...]:
    """Returns reports of unknown rounds."""
    return tuple(
        pb.PbHeartbeatReqForTable(table_id=1, coordinator_epoch=coordinator_epoch + number, tiering_epoch=1, round_id=f"made-up-{number}")
        for number in range(count)
    )


def test_reports_of_unknown_rounds_are_looked_up_together_while_the_lock_is_free(world: World, store: CountingStore) -> None:
    store.world = world
    answer = world.tierer().beat(finished=reports(MAX_REPORTS // 2), failed=reports(MAX_REPORTS // 2))
    assert len(answer.finished_table_resp) + len(answer.failed_table_resp) == MAX_REPORTS
    assert all(response.HasField("error") for response in answer.finished_table_resp)
    assert (store.calls["rounds_by_id"], store.calls["round"]) == (1, 0)
    assert world.record().pause is not None


def test_a_repeat_of_how_a_former_round_ended_is_no_error(world: World, store: CountingStore) -> None:
    tierer, assignment = world.assigned()
    report = tierer.about(assignment, empty=True)
    tierer.finish(assignment, empty=True)
    world.assigned()  # the next round of the table
    [answer] = tierer.beat(finished=(report,)).finished_table_resp
    assert not answer.HasField("error")
    [answer] = tierer.beat(failed=(report,)).failed_table_resp
    assert answer.error.error_class == "Fenced"


def test_a_report_of_a_round_that_ends_while_it_is_looked_up_is_judged_by_how_it_ended(world: World, store: CountingStore) -> None:
    """Two equal reports: the second one looks its round up before the first one ends it."""
    tierer, assignment = world.assigned()
    report = tierer.about(assignment, empty=True)
    message = tierer.message(finished=(report,))
    former = world.coordinator.heartbeats._former_rounds(message)
    tierer.finish(assignment, empty=True)
    world.assigned()
    _, verdicts, _ = world.coordinator.table_records.change(lambda: world.coordinator.heartbeats._handle(message, former))
    assert [verdict.is_refused for verdict in verdicts.finished] == [False]


def test_epochs_that_many_reports_name_are_one_write(world: World, store: CountingStore) -> None:
    world.tierer().beat(finished=reports(100, coordinator_epoch=5_000))
    assert store.calls["rise"] == 1
    assert world.coordinator.table_records.epoch > 5_099


@pytest.mark.parametrize(("tables", "buckets", "events", "named"), [(300, 2, MOST_TABLES, 2), (1, 5_000, 1, MOST_DETAILED)])
def test_snapshots_that_could_not_be_leased_leave_bounded_events(world: World, tables: int, buckets: int, events: int, named: int) -> None:
    snapshots = {TableBucket(table, BucketKey(None, bucket)): 7 for table in range(1, tables + 1) for bucket in range(buckets)}
    world.coordinator.leases.report_unleased("lease", snapshots)
    written = [event for event in world.store.events() if event.event_type == SNAPSHOTS_NOT_LEASED]
    assert len(written) == events
    assert {len(event.details["snapshots"]) for event in written} == {named}


def test_more_reports_than_a_tierer_can_have_are_refused(world: World) -> None:
    with pytest.raises(InvalidArgument, match=f"at most {MAX_REPORTS} reports"):
        world.tierer().beat(finished=reports(MAX_REPORTS + 1))


def test_a_tierer_of_the_most_slots_reports_all_of_its_rounds_in_one_heartbeat() -> None:
    """A round that was stopped is listed twice; rounds that hang keep no slot."""
    assert 2 * (MAX_SLOTS + HANGING_ROUNDS) <= MAX_REPORTS
