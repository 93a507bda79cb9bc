"""The coordinator: assigns tables to tierers and stores everything durably (DESIGN 3-6).

It composes the parts and applies the passing of time. It is thread-safe. Its blocking methods are for threads, `control` is for event
loops. The system tables see it as a `CoordinatorHandle` (`interface`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tiering.access.audit import AuditTrail
from tiering.access.grants import Grants
from tiering.clock import Clock, Ids, RandomIds, SystemClock
from tiering.cluster.assignments import TableAssignments, assignments_of
from tiering.cluster.base import ClusterOwner
from tiering.cluster.capabilities import LogRetention
from tiering.coordinator.call_support.parts import CallParts, Prover, Validator
from tiering.coordinator.decisions import round_lifecycle, table_lifecycle
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.lake_acks import lake_is_confirmed
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.lake_repair.background_sweeps import BackgroundSweeps
from tiering.coordinator.lake_repair.repair_inspector import RepairInspector
from tiering.coordinator.memory.cluster_notifications import ClusterNotifications
from tiering.coordinator.memory.idempotency import IdempotentOperations
from tiering.coordinator.memory.open_calls import OpenCalls
from tiering.coordinator.memory.store import Store
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import CHUNK, Discovery, VisibleTables
from tiering.coordinator.observing.idle_checks import IdleChecks
from tiering.coordinator.observing.lag import LagObserver
from tiering.coordinator.observing.lake_health import LakeHealthObserver
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.observing.other_services import OtherServices
from tiering.coordinator.observing.publishing import Publisher
from tiering.coordinator.observing.upkeep_needs import UpkeepNeeds
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.readers.reads import Reads
from tiering.coordinator.server.control import Control
from tiering.coordinator.status.live_view import View
from tiering.coordinator.status.status_columns import StatusColumns
from tiering.coordinator.tierers.assignment_relay import AssignmentRelay
from tiering.coordinator.tierers.commits import Commits
from tiering.coordinator.tierers.heartbeats import Heartbeats
from tiering.coordinator.tierers.leases import Leases
from tiering.coordinator.tierers.progress import Progress
from tiering.coordinator.writers.writes import Writes
from tiering.lake.maintenance import SecondCatalog
from tiering.union_read.plan import LakeOpener


class Coordinator:
    """The coordinator. Its constructor takes the store over. It runs nothing by itself: `serving.serve` or a test drives it."""

    def __init__(
        self,
        store: Store,
        cluster: ClusterOwner,
        open_lake: LakeOpener,
        options: CoordinatorOptions | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        jitter: Callable[[], float] = random.random,
        validator: Validator | None = None,
        prover: Prover | None = None,
        grants: Grants | None = None,
        audit: AuditTrail | None = None,
        second_catalog: SecondCatalog | None = None,
    ) -> None:
        assignments = assignments_of(cluster)
        self.options = replace(options or CoordinatorOptions(), assigned_by_cluster=assignments is not None)
        self.cluster, self.grants, self.audit = cluster, grants or Grants(), audit
        self.table_records = TableRecords(store, clock or SystemClock(), ids or RandomIds(), self.options, jitter)
        lakes, self._columns = Lakes(cluster, open_lake), StatusColumns()
        self.discovery = Discovery(self.table_records, cluster)
        self.visible_tables = VisibleTables(self.discovery)
        self.observer = LagObserver(self.table_records, cluster, lakes, self.discovery)
        self.lake_health = LakeHealthObserver(self.table_records, lakes, self.discovery)
        self.publisher = Publisher(self.table_records, lakes, second_catalog)
        notifications, lake_was_read = ClusterNotifications(self.table_records), self.observer.lake_was_read
        self.commits = Commits(self.table_records, cluster, lakes, lake_was_read, self._confirm_turn, notifications)
        self.idle_checks = IdleChecks(self.table_records, cluster, lakes, self.observer.lag, self.commits.table_lock)
        self.progress = Progress(self.table_records)
        self.upkeep = UpkeepNeeds(self.table_records, self.lake_health, self.discovery)
        self.reads = Reads(self.table_records, cluster, lakes, self.discovery, self.grants)
        self.writes = Writes(self.table_records, cluster, self.grants, self.options)
        kept_snapshots = self.reads.open_reads.kept_snapshots
        self.heartbeats = Heartbeats(
            self.table_records, self.commits.note_passed_head, self.observer.waiting_since, self.upkeep, kept_snapshots
        )
        self.relay = None if assignments is None else self._new_relay(assignments, notifications)
        self.other_services = OtherServices(self.table_records, cluster, self.discovery)
        self.leases = Leases(cluster, self.table_records)
        self.open_calls = OpenCalls(lambda: self.table_records.now().wall)
        self.call_parts = self._new_call_parts(lakes, notifications, validator, prover)
        self.control = Control(self.call_parts)
        self.repair_inspector, self.sweeps = RepairInspector(self.call_parts), BackgroundSweeps(self.call_parts)
        if isinstance(cluster, LogRetention):
            cluster.ask_before_cut(self._lake_is_confirmed)
            cluster.keep_for_reads(self.reads.open_reads.kept_log)

    def _new_call_parts(
        self, lakes: Lakes, notifications: ClusterNotifications, validator: Validator | None, prover: Prover | None
    ) -> CallParts:
        return CallParts(
            self.table_records,
            self.cluster,
            lakes,
            self.discovery,
            self.observer,
            IdempotentOperations(self.table_records),
            table_lock=self.commits.table_lock,
            tierer_connected=lambda: self.heartbeats.tierers.connected(self.table_records.now()),
            tierers=self.heartbeats.tierers,
            notifications=notifications,
            validator=validator,
            prover=prover,
            grants=self.grants,
            visible_tables=self.visible_tables,
            upkeep=self.upkeep,
            read_snapshots=self.reads.open_reads.kept_snapshots,
        )

    def _new_relay(self, assignments: TableAssignments, notifications: ClusterNotifications) -> AssignmentRelay:
        return AssignmentRelay(self.table_records, assignments, self.heartbeats.tierers.all, self.discovery.run_quietly, notifications)

    def _lake_is_confirmed(self, table_id: int) -> bool:
        return self.table_records.fenced is None and lake_is_confirmed(self.table_records.get(table_id), self.table_records.now())

    def view(self) -> View:
        """Returns a view of the present moment, as the current caller may see it (`access.identity`). It never waits."""
        now = self.table_records.now()
        connected, calls = self.heartbeats.tierers.connected(now), self.open_calls.list()
        return View(
            now,
            self.table_records.all(),
            self.cluster,
            self.observer,
            self._columns,
            self.table_records.store,
            self.lake_health,
            tierer_connected=connected,
            open_calls=calls,
            open_reads=self.reads.open_reads.all(),
            tierers=self.heartbeats.tierers.shown(now),
            splits=self.progress.splits.of_round,
            options=self.options,
            validations=self.table_records.store.validations,
            proofs=self.table_records.store.proofs,
            assigned_format=self.options.lake_format if self.relay is not None else None,
            access=self.grants.current(),
            policies=self.grants.state,
            known_users=self.grants.known_users,
            audit=self.audit,
            explain_upkeep=partial(self.upkeep.explain, tierer_connected=connected),
            publication=self.publisher.publication,
            open_lake=self.call_parts.lakes.of,
        )

    def advance(self) -> None:
        """Applies the passing of time: service timeouts, due tables, ended back-offs and pauses. Wakes all waiters to check the clock."""
        with self.table_records.overdue() as late:
            for start in range(0, len(late), CHUNK):
                with self.table_records.changing():
                    records = [record for table_id in late[start : start + CHUNK] if (record := self.table_records.get(table_id))]
                    changes = [self._overdue(self.table_records.context(), record) for record in records]
                    self.table_records.put(*(change for change in changes if change is not None))
        self.heartbeats.upkeep_slots.give_way()
        self.upkeep.tick()
        self.heartbeats.forget_lost()
        self.reads.expire()
        self.progress.forget_ended()
        self.table_records.wake_ups.notify()

    def end_waits(self) -> None:
        """Answers held requests without a table, and waiting calls with the state of their tables."""
        self.heartbeats.close()
        self.control.end_waits()

    def close(self) -> None:
        """Ends waits and background work. The store stays open, because it belongs to the caller that opened it."""
        self.end_waits()
        if self.relay is not None:
            self.relay.close()
        self.control.close()
        self.repair_inspector.close()
        self.commits.close()
        self.discovery.close()
        self.observer.close()

    def _confirm_turn(self, table_id: int) -> None:
        if self.relay is not None:
            self.relay.confirm(table_id)

    def _overdue(self, ctx: Context, record: TableRecord) -> Change | None:
        expired = round_lifecycle.expire(ctx, record)
        if expired is not None or self.idle_checks.takes(record) or self.idle_checks.may_finish_upkeep(record):
            return expired
        return table_lifecycle.due(ctx, record)
