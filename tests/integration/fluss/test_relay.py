"""The relay against Fluss's own scheduler, beside a second tiering service that sends its heartbeats by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from support.background import tick
from support.clusters.fluss_owner import opened_owner
from support.clusters.fluss_tables import FlussTables
from support.lakes.memory_lake import MemoryLake
from support.operators import fence, pause, resume
from support.running.fluss_deployment import LAKE
from support.running.processes import wait_for
from support.worlds.coordinator_world import HandTierer, World
from support.worlds.memory_store import MemoryStore
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.clock import RandomIds, SystemClock
from tiering.cluster.fluss.assignments import FlussAssignments
from tiering.cluster.fluss.cluster import FlussCluster
from tiering.coordinator.calls.retry_tiering import retry_tiering
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.model.assignments import AssignmentRef, AssignmentReport, JudgedAssignment, Judgement, ServiceMode
from tiering.model.tables import BucketKey, TableInfo
from tiering.model.tierers import TiererState
from tiering.procedures.retry_tiering import RetryTiering
from tiering.rpc.v1 import coordinator_pb2 as pb

SCHEMA = pa.schema([pa.field("id", pa.int64())])
PATIENT = CoordinatorOptions(backoff_min_ms=60_000)
"""A back-off that no test sees the end of."""


@pytest.fixture
def owner(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussCluster]:
    with opened_owner(fluss.bootstrap_servers, tmp_path / "cluster", ServiceMode.SHARED) as owner:
        yield owner


@pytest.fixture
def other(tables: FlussTables) -> Iterator[Service]:
    service = Service(FlussAssignments(tables.client))
    yield service
    service.leave()


class Service:
    """Another tiering service: what it was assigned, by table id."""

    def __init__(self, assignments: FlussAssignments) -> None:
        self._assignments = assignments
        self.assigned: dict[int, AssignmentRef] = {}

    def send(self, report: AssignmentReport) -> list[JudgedAssignment]:
        answer = self._assignments.heartbeat(self._assignments.session(), report)
        if answer.assigned is not None:
            self.assigned[answer.assigned.ref.table_id] = answer.assigned.ref
        return [*answer.renewed, *answer.finished, *answer.failed]

    def gets(self, table: TableInfo) -> bool:
        """Takes all tables that it is given now; whether this one was among them."""
        before = -1
        while before != len(self.assigned):
            before = len(self.assigned)
            self.send(AssignmentReport(wants_table=True))
        return table.table_id in self.assigned

    def judges(self, ref: AssignmentRef) -> Judgement:
        """Returns Fluss's judgement of a renewal."""
        (judged,) = self.send(AssignmentReport(renewed=[ref]))
        return judged.judgement

    def leave(self) -> None:
        self.send(AssignmentReport(finished=list(self.assigned.values())))


class ClusterOfTierers:
    """The view of Fluss of tierers that are driven by hand."""

    def __init__(self, owner: FlussCluster) -> None:
        self.cluster_id = owner.cluster_id
        self.tables = owner.tables
        self.logs = self
        self._owner = owner

    def __getitem__(self, table_id: int) -> dict[BucketKey, tuple[int, int]]:
        """Log start and end by bucket."""
        [table] = [table for table in self.tables() if table.table_id == table_id]
        return {bucket: (log.log_start, log.log_end) for bucket, log in self._owner.offsets(table).items()}


class LeapingClock(SystemClock):
    """The machine's, some seconds ahead."""

    ahead_s = 0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead_s)

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_s * 1_000


class Relay:
    """A coordinator in this process, with tierers driven by hand. Other tests' tables are ended as they come."""

    def __init__(self, owner: FlussCluster, table: TableInfo) -> None:
        self.lake = MemoryLake()
        self.table = table
        self.clock = LeapingClock()
        self.coordinator = Coordinator(MemoryStore(), owner, lambda _: self.lake, PATIENT, self.clock, RandomIds())
        self._world = cast(World, SimpleNamespace(coordinator=self.coordinator, lake=self.lake, cluster=ClusterOfTierers(owner)))
        self.tierer = self.new_tierer("first")

    def new_tierer(self, name: str) -> HandTierer:
        """From now on it is the one that is given tables."""
        self.tierer = HandTierer(self._world, name, incarnation=f"process of {name}")
        self.tierer.beat()
        return self.tierer

    @property
    def record(self) -> TableRecord:
        record = self.coordinator.table_records.get(self.table.table_id)
        assert record is not None
        return record

    def wait_assigned(self) -> None:
        """Until Fluss has assigned the table."""
        wait_for("the table is assigned", lambda: self.turn() and self.record.assignment is not None)

    def get(self) -> pb.PbLakeTieringTableInfo:
        """Until the tierer is given the table."""
        return wait_for("the table is given to the tierer", lambda: self.turn() and self._table_of_a_request())

    def turn(self) -> bool:
        tick(self.coordinator)
        return True

    def relayed(self) -> bool:
        relay = self.coordinator.relay
        assert relay is not None
        relay.run_quietly()
        return True

    def _table_of_a_request(self) -> pb.PbLakeTieringTableInfo | None:
        response = self.tierer.beat(request=True)
        if not response.HasField("tiering_table"):
            return None
        if response.tiering_table.table_id == self.table.table_id:
            return response.tiering_table
        self.tierer.finish(response.tiering_table)
        return None


@pytest.mark.soak
def test_tables_are_held_and_handed_back_beside_another_service(tables: FlussTables, owner: FlussCluster, other: Service) -> None:
    table = tables.create("turns", SCHEMA, properties=LAKE)
    relay = Relay(owner, table)
    relay.turn()
    pause(relay.coordinator, table.path, "alice")
    relay.wait_assigned()
    assert not other.gets(table)
    [status] = relay.coordinator.view().table_statuses("sales", "turns")
    assert status.status_reason is not None
    assert status.status_reason.startswith("held, so that no other service gets it: paused by alice")
    resume(relay.coordinator, table.path, "alice")
    relay.tierer.fail(relay.get())
    relay.turn()
    assert relay.record.state == "Failed"
    assert not other.gets(table)  # it is in back-off, and ours
    retry_tiering(relay.coordinator.call_parts, RetryTiering(table.path, caller="alice"))
    relay.tierer.fail(relay.get(), error_class="UnsupportedType", error_retryable=False)
    relay.turn()
    assert other.gets(table)
    assert other.judges(other.assigned[table.table_id]) is Judgement.ACCEPTED
    [status] = relay.coordinator.view().table_statuses("sales", "turns")
    assert status.status_reason == "left to other tiering services: this service cannot write it: UnsupportedType: no disk left"
    relay.coordinator.close()
    tables.drop(table)


def test_the_table_of_a_fenced_tierer_goes_to_another_one_and_then_to_the_other_service(
    tables: FlussTables, owner: FlussCluster, other: Service
) -> None:
    """Within one assignment of Fluss's, until no tierer is left that may take it. The fenced ones live, and are heard of."""
    table = tables.create("fenced", SCHEMA, properties=LAKE)
    tables.append(table, [pa.record_batch({"id": range(10)}, schema=SCHEMA)])
    relay = Relay(owner, table)
    first, info = relay.tierer, relay.get()
    first.plan(info)
    late = first.prepare(info)
    held = relay.record.assignment
    assert fence(relay.coordinator, "first", "ann") == 1
    assert not first.begin(info, late).granted
    assert not other.gets(table)
    second = relay.new_tierer("second")
    again = relay.get()
    assert (relay.record.assignment, again.tiering_epoch) == (held, info.tiering_epoch + 1)
    assert not first.begin(info, late).granted
    second.run(again)
    assert not relay.lake.receive(late), "a commit that was on its way all the same meets the compare-and-set"
    assert [(start, stop) for _, start, stop, _ in relay.lake.rows(table.path)] == [(0, 10)]
    wait_for("the turn is over", lambda: relay.relayed() and relay.record.assignment is None)
    recorded = owner.lake_snapshot(table)
    assert recorded is not None
    assert recorded.offsets == {BucketKey(None, 0): 10}

    relay.get()
    assert fence(relay.coordinator, "second", "ann") == 1
    relay.clock.ahead_s = 31  # no tierer came for it
    for fenced in (first, second):
        assert not fenced.beat(request=True).HasField("tiering_table")
    wait_for("Fluss has the table back", lambda: relay.turn() and other.gets(table))
    assert {tierer.tierer_id: tierer.state for tierer in relay.coordinator.view().tierers()} == {
        "first": TiererState.FENCED,
        "second": TiererState.FENCED,
    }
    relay.coordinator.close()
    tables.drop(table)


def test_fluss_says_which_assignments_are_gone(tables: FlussTables, other: Service) -> None:
    table = tables.create("judged", SCHEMA, properties=LAKE)
    wait_for("the table is due", lambda: other.gets(table))
    ref = other.assigned[table.table_id]
    assert other.judges(ref) is Judgement.ACCEPTED
    for wrong in (
        replace(ref, tiering_epoch=ref.tiering_epoch + 1),
        replace(ref, coordinator_epoch=ref.coordinator_epoch + 1),
        replace(ref, table_id=1_000_000),
    ):
        assert other.judges(wrong) is Judgement.GONE
    (judged,) = other.send(AssignmentReport(finished=[other.assigned.pop(table.table_id)]))
    assert judged.judgement is Judgement.ACCEPTED
    assert other.judges(ref) is Judgement.GONE
    tables.drop(table)


def test_h3_h4_a_round_without_a_grant_ends_when_fluss_is_killed_and_another_follows(
    fluss: LocalFlussCluster, tables: FlussTables, owner: FlussCluster, other: Service
) -> None:
    """H3: Fluss counts its epochs from 0 again: what was assigned before counts no more, and nothing is told of it.

    H4: it says of a table that lives that the assignment is gone, in the words in which it says so of one that was dropped.
    """
    table = tables.create("killed", SCHEMA, properties=LAKE)
    relay = Relay(owner, table)
    info = relay.get()
    before, name_before = relay.record.assignment, relay.record.assignment_ref
    fluss.coordinator.kill()
    wait_for("the relay notices", lambda: relay.relayed() and relay.record.assignment is None)
    assert relay.tierer.beat().tiering_table_resp[0].HasField("error")
    relay.tierer.running.clear()
    fluss.coordinator.start()
    fluss.wait_ready()
    assert before is not None
    assert name_before is not None
    assert other.judges(name_before) is Judgement.GONE
    relay.turn()
    assert relay.record.table_id == owner.table(table.path).table_id
    again = relay.get()
    assert again.tiering_epoch > info.tiering_epoch
    assert relay.record.assignment_ref == name_before
    assert relay.record.assignment is not None
    assert relay.record.assignment.session != before.session
    relay.tierer.finish(again)
    wait_for("the turn is over", lambda: relay.relayed() and relay.record.assignment is None)
    relay.coordinator.close()
    tables.drop(table)
