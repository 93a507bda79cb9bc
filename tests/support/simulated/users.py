"""Actions of users and operators beside a deployment: on source tables, on the lake, by CALLs, and as errors suggest."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa

from support.simulated.chance import PanicException, SimulatedDeath
from support.simulated.cluster import USERS_LEASE
from support.simulated.deployment import SERVICE_TIMEOUT_MS, YEARS_MS, Deployment
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.calls.cancel_tiering import cancel_tiering
from tiering.coordinator.calls.drop_kv_snapshot_lease import drop_kv_snapshot_lease
from tiering.coordinator.calls.fence_tierer import fence_tierer
from tiering.coordinator.calls.pause_tiering import pause_tiering
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.coordinator.calls.reset_errors import reset_errors
from tiering.coordinator.calls.resume_tiering import resume_tiering
from tiering.coordinator.calls.retry_tiering import retry_tiering
from tiering.coordinator.calls.skip_record import skip_record
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.coordinator.calls.take_kv_snapshot import take_kv_snapshot
from tiering.coordinator.calls.tier_table import tier_table
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.upkeep import requests as upkeep_requests
from tiering.errors import BucketStopped, CannotReconcile, LakewardError
from tiering.library_guards.panics import UnexpectedEnd
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.model.upkeep import UpkeepOrder
from tiering.procedures.cancel_tiering import CancelTiering
from tiering.procedures.drop_kv_snapshot_lease import DropKvSnapshotLease
from tiering.procedures.fence_tierer import FenceTierer
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.reset_errors import ResetErrors
from tiering.procedures.resume_tiering import ResumeTiering
from tiering.procedures.retry_tiering import RetryTiering
from tiering.procedures.skip_record import SkipRecord
from tiering.procedures.sweep_lake import SweepLake
from tiering.procedures.take_kv_snapshot import TakeKvSnapshot
from tiering.procedures.tier_table import TierTable

_RENAME = re.compile(r"Rename or drop the lake table \S+ in the lake's catalog")
_RECONCILE = re.compile(r"CALL sys\.reconcile_lake\('(?P<table>[^']+)', '(?P<action>\w+)'\)")
_SKIP = re.compile(
    r"CALL sys\.skip_record\('(?P<table>[^']+)', (?P<bucket>\d+), (?P<offset>\d+)(?:, partition => '(?P<partition>[^']+)')?, reason"
)
SET_BACK = 0.5
"""Share of roll-backs that set a table back."""
MOST_HINTS = 4
"""Refusals in a row, each with a hint of its own; more are a circle."""
REGIONS = ("eu", "us")


def _stands(record: TableRecord) -> bool:
    """Whether a bucket of it waits for a person, while the table is tried again."""
    return record.error is not None and record.error.error_class == BucketStopped.__name__


class Users:
    """Does one thing at random; each is harmless by itself, or named as a fault."""

    def __init__(self, deployment: Deployment) -> None:
        self._world, self._chance, self._random = deployment, deployment.chance, deployment.random
        self._former = 0
        self._keys = 0
        self.sets_back = False
        self.is_next_action_run: Callable[[TableRecord], bool] = lambda record: False
        """Whether a user ran the action that `sys` names for a table, so that its hint need not be read."""

    # --- source tables

    def table(self) -> TableInfo | None:
        """Any."""
        tables = self._world.cluster.tables()
        return self._random.choice(tables) if tables else None

    def append(self) -> None:
        table = self.table()
        buckets = [] if table is None else self._world.cluster.buckets(table)
        if table is not None and buckets:
            self._world.cluster.append_to(table, self._random.choice(buckets), self._random.randint(1, 6))

    def take_snapshot(self) -> None:
        table = self.table()
        if table is not None and table.primary_key:
            self._world.cluster.take_kv_snapshots(table.path)

    def drop_table(self) -> None:
        """At times another of that name comes in its place."""
        table = self.table()
        if table is None or len(self._world.cluster.by_path) < 2:
            return
        self._world.cluster.drop(table.path)
        self._note_under_a_round("table-dropped", table)
        if self._random.random() < 0.7:
            self._chance.note("table-recreated")
            self._damage(table.path)
            self._world.create(table.path, primary_key=bool(table.primary_key), partitioned=bool(table.partition_keys))

    def _note_under_a_round(self, fault: str, table: TableInfo) -> None:
        """Where no round of the table runs it is no fault."""
        if any(assignment.table_id == table.table_id for tierer in self._world.tierers for assignment, _ in tierer.running.values()):
            self._chance.note(fault)

    def switch_lake(self) -> None:
        """Off, or on again."""
        table = self.table()
        if table is None:
            return
        off = [info for info in self._world.cluster.tables() if not info.lake_enabled]
        for info in off or [table]:
            self._world.cluster.change(info, lake_enabled=not info.lake_enabled)
            self._chance.note("lake-switched")

    def change_partitions(self) -> None:
        table = self.table()
        if table is None or not table.partition_keys:
            return
        living = self._world.cluster.partitions_of[table.table_id]
        name = self._random.choice(REGIONS)
        former = [number for number, known in living.items() if known == name]
        for number in former:
            self._world.cluster.drop_partition(table, number)
            self._note_under_a_round("partition-dropped", table)
        if not former or self._random.random() < 0.5:
            was_there = any(
                known == name and BucketKey(number, 0) in self._world.cluster.logs[table.table_id]
                for number, known in self._world.cluster.partition_names.items()
            )
            if was_there:
                self._chance.note("partition-remade")
            self._world.cluster.add_partition(table, name)

    def name_partitions_alike(self) -> None:
        """Beside a partition another one comes whose name is equal but for case."""
        partitioned = [table for table in self._world.cluster.tables() if table.partition_keys]
        for table in partitioned:
            names = set(self._world.cluster.partitions_of[table.table_id].values())
            alike = sorted(name.upper() for name in names if name.islower() and name.upper() not in names)
            if alike:
                self._world.cluster.add_partition(table, alike[0])
                self._chance.note("partitions-alike")

    def make_untierable(self) -> None:
        """A column comes that no lake holds; the next change mends that."""
        table = self.table()
        if table is None:
            return
        for info in [info for info in self._world.cluster.tables() if info.refusal is not None] or [table]:
            self.change_columns(info, None if info.refusal is not None else "its newest column has a type that no lake holds")
            self._chance.note("column-added" if info.refusal is not None else "table-untierable")

    def change_columns(self, table: TableInfo, refusal: str | None) -> None:
        """A column is added. `refusal`: what is wrong with the table then."""
        self._keys += 1
        column = pa.field(f"c{self._keys}", pa.int64())
        self._world.cluster.change(table, refusal=refusal, schema=pa.schema([*table.schema, column]))

    def refuse_record(self) -> None:
        """Makes the rows of a bucket refuse a change: no reader gets beyond it."""
        table = self.table()
        buckets = [] if table is None or not table.primary_key else self._world.cluster.buckets(table)
        if table is not None and buckets and self._world.cluster.refuse(table, self._random.choice(buckets), self._random.randrange(3)):
            self._chance.note("record-refused")

    def cut_log(self) -> None:
        """Retention; at times it takes what was not tiered yet."""
        table = self.table()
        buckets = [] if table is None else self._world.cluster.buckets(table)
        if table is None or not buckets:
            return
        bucket = self._random.choice(buckets)
        start, end = self._world.cluster.logs[table.table_id][bucket]
        landed = self._world.invariants.landed[table.table_id].get(bucket, 0)
        if self._random.random() < 0.6:
            end = min(end, landed)
        self._world.cluster.cut(table, bucket, end - end % 3 if table.primary_key else end)
        start, _ = self._world.cluster.logs[table.table_id][bucket]
        self._world.invariants.log_cut(table, bucket, start)
        if start > landed:
            self._chance.note("log-cut")
            self._damage(table.path)

    def lose_records(self) -> None:
        """The cluster loses its newest records, and others come at their offsets."""
        table = self.table()
        buckets = [] if table is None else self._world.cluster.buckets(table)
        if table is not None and buckets:
            bucket = self._random.choice(buckets)
            self._world.invariants.log_rewritten(table, bucket, self._world.cluster.rewrite(table, bucket, 3))
            self._chance.note("log-rewritten")
            self._damage(table.path)

    def forget_record(self) -> None:
        """The cluster is restored from a copy that knows nothing of the lake."""
        table = self.table()
        if table is not None and self._world.cluster.recorded.pop(table.table_id, None) is not None:
            self._chance.note("cluster-record-lost")

    # --- the lake

    def touch_lake(self) -> None:
        """Changes the lake table by hand."""
        lake = self._world.lake
        if not lake.tables:
            return
        path = self._random.choice(sorted(lake.tables))
        actions: dict[str, Callable[[TablePath], bool]] = {
            "lake-compacted": lake.compact,
            "lake-expired": lake.expire_parents,
            "lake-rolled-back": self._roll_back,
            "lake-untagged": lake.untag,
            "lake-table-dropped": lake.drop,
            "lake-table-renamed": self.rename_lake_table,
        }
        weights = dict(zip(actions, (6, 2, 1, 1, 1, 1), strict=True))
        possible = [fault for fault in actions if self._chance.may(fault)]
        fault = self._random.choices(possible, [weights[fault] for fault in possible])[0]
        if actions[fault](path):
            self._chance.note(fault)
            if fault != "lake-compacted":
                self._damage(path)

    def _roll_back(self, path: TablePath) -> bool:
        """The main branch alone, or with it what tells which commit is the newest tiering commit."""
        lake = self._world.lake
        return lake.set_back(path) if self.sets_back and self._random.random() < SET_BACK else lake.roll_back(path)

    def rename_lake_table(self, path: TablePath) -> bool:
        """Under a name of its own; False if there is none."""
        if path not in self._world.lake.tables:
            return False
        self._former += 1
        self._world.lake.rename(path, TablePath("sales", f"former-{self._former}"))
        return True

    def _damage(self, path: TablePath) -> None:
        self._world.damaged.add(path)

    # --- processes

    def kill_tierer(self) -> None:
        self._chance.note("tierer-killed")
        self._world.replace_process(self._random.choice(self._world.tierers))

    def put_to_sleep(self) -> None:
        """A machine is suspended; the others go on."""
        tierer = self._random.choice(self._world.tierers)
        tierer.asleep = not tierer.asleep
        if tierer.asleep:
            self._chance.note("tierer-asleep")

    def copy_process(self) -> None:
        """Starts another tierer with a name that is in use."""
        if len(self._world.tierers) < 4:
            self._chance.note("tierer-doubled")
            self._world.tierers.append(self._world._process(self._random.choice(self._world.tierers).tierer_id))

    def set_clock(self) -> None:
        ways = [0, 0, *([-1] if self._chance.may("clock-back") else []), *([1] if self._chance.may("clock-ahead") else [])]
        self._world.clock.wall_offset_ms = self._random.choice(ways) * YEARS_MS
        if self._world.clock.wall_offset_ms:
            self._chance.note("clock-ahead" if self._world.clock.wall_offset_ms > 0 else "clock-back")
        if self._random.random() < 0.5:
            self._world.restart_coordinator()

    def restart_coordinator(self) -> None:
        self._chance.note("coordinator-restarted")
        self._world.restart_coordinator()

    def add_coordinator(self) -> None:
        self._chance.note("coordinator-doubled")
        self._world.add_coordinator()

    def silence(self) -> None:
        """Silences all tierers for the service timeout."""
        self._chance.note("tierer-asleep")
        self._world.pass_time(SERVICE_TIMEOUT_MS + 1)

    # --- CALLs

    def call(self) -> None:
        """One of the procedures, at times again with the same key."""
        table = self.table()
        if table is None:
            return
        self._keys += 1
        options: dict[str, Any] = {"caller": "ann"}
        if self._random.random() < 0.5:
            options["idempotency_key"] = f"key-{self._keys}"
        perform = self._random.choice(self._calls(table.path, options))
        answer = self.perform(perform)
        if "idempotency_key" in options and answer is not None and self._chance.strikes("call-repeated", 0.5):
            again = self.perform(perform)
            assert again in (None, answer), f"{answer} became {again}"

    def _calls(self, path: TablePath, options: dict[str, Any]) -> list[Callable[[], Any]]:
        world = self._world
        rounds = [record.round.round_id for record in world.coordinator.table_records.live() if record.round is not None]
        until = self._random.choice((None, world.clock.now() + timedelta(seconds=self._random.choice((-1, 5, 10_000)))))
        round_id, tierer = self._random.choice([*rounds, "none"]), self._random.choice(world.tierers).tierer_id
        leases = [*world.cluster.held_leases, "none"]
        lease, action = self._random.choice(leases), self._random.choice(("accept", "retier", "adopt", "deduplicate"))
        return [
            lambda: pause_tiering(self._parts, PauseTiering(path, "why", until, **options)),
            lambda: resume_tiering(self._parts, ResumeTiering(path, None, **options)),
            lambda: retry_tiering(self._parts, RetryTiering(path, **options)),
            lambda: reset_errors(self._parts, ResetErrors(path, **options)),
            lambda: self._cancel(round_id, options),
            lambda: self._noted("tierer-fenced", fence_tierer(self._parts, FenceTierer(tierer, **options))),
            lambda: take_kv_snapshot(self._parts, TakeKvSnapshot(path, **options)),
            lambda: self._drop_lease(lease, options),
            lambda: self.reconcile(path, action, **options),
            lambda: asyncio.run(self._tier(path, options)),
        ]

    def _cancel(self, round_id: str, options: dict[str, Any]) -> object:
        result = cancel_tiering(self._parts, CancelTiering(round_id, "why", **options))
        if result.outcome.value == "cancelled":
            self._chance.note("round-cancelled")
            self._world.invariants.cancelled_rounds.add(round_id)
        return result

    def _drop_lease(self, lease: str, options: dict[str, Any]) -> object:
        result = drop_kv_snapshot_lease(self._parts, DropKvSnapshotLease(lease, **options))
        return result if lease == USERS_LEASE else self._noted("lease-dropped", result)

    def _noted(self, fault: str, answer: Any) -> Any:
        self._chance.note(fault)
        return answer

    def sweep(self) -> None:
        """Without a guard, for no clock may be what protects a file; others go on meanwhile."""
        results = self.perform(lambda: sweep_lake(self._parts, SweepLake(None, 0, caller="ann")))
        self._world.outcomes["swept"] += sum(result.removed for result in results or ())

    def want_upkeep(self) -> None:
        """Requests a rewrite of all files of a table, as `CALL sys.rewrite_data_files` does."""
        table = self.table()
        if table is not None:
            self.perform(lambda: self._request_upkeep(table.table_id))

    def _request_upkeep(self, table_id: int) -> str | None:
        records = self._world.coordinator.table_records
        with records.changing():
            record = records.get(table_id)
            if record is None:
                return None
            called = upkeep_requests.request(records.context("ann"), record, UpkeepOrder(), "rewrite_data_files")
            records.put(called.change)
            return called.round_id

    async def _tier(self, path: TablePath, options: dict[str, Any]) -> object:
        request = TierTable(path, wait=False, **options)
        return [step async for step in tier_table(self._parts, request)][-1].state is not None

    @property
    def _parts(self) -> CallParts:
        """Parts of the coordinator that answers now."""
        return self._world.coordinator.call_parts

    def perform(self, call: Callable[[], Any]) -> Any:
        """Returns the answer of the call; None if it was refused, or if its coordinator died meanwhile."""
        try:
            answer = call()
        except SimulatedDeath:
            self._world.coordinator_died()
            return None
        except UnexpectedEnd as end:  # in a thread
            if not isinstance(end.__cause__, SimulatedDeath | PanicException):
                raise
            if isinstance(end.__cause__, SimulatedDeath):
                self._world.coordinator_died()
            return None
        except PanicException:  # as in a thread: its caller gets an error
            self._world.outcomes["call panicked"] += 1
            return None
        except LakewardError as error:
            self._world.outcomes[f"call {error.error_class}"] += 1
            return None
        self._world.outcomes["called"] += 1
        return answer

    def reconcile(self, path: TablePath, action: str, **options: Any) -> Any:
        """Reconciles, and checks that the answer says which records are left out of the lake."""
        world = self._world
        world.invariants.repairs += 1
        try:
            result = reconcile_lake(self._parts, ReconcileLake(path, action, **{"caller": "ann", **options}))
        finally:
            world.invariants.repairs -= 1
        world.outcomes[f"{action} {result.outcome}"] += 1
        table = world.lake.tables.get(path)
        info = world.cluster.by_path.get(path)
        if result.outcome == "reconciled" and table is not None and info is not None and not info.primary_key:
            gap = world.invariants.gap(table.uuid)
            left_out = result.records_left_out
            # Rows of a partition may be of a former one with that name: without the marker, the number of its own rows is unknown. The
            # number of records that replaced lost ones is unknown, too.
            is_rewritten = any(table_id == info.table_id for table_id, _ in world.cluster.generations)
            may_be_unknown = (bool(info.partition_keys) or is_rewritten) and action != "retier"
            # For a new table it also counts records that neither the log nor a marker has any more.
            is_said = may_be_unknown if left_out is None else left_out >= gap
            assert is_said, f"{path}: {left_out} are said, {gap} are left out"
        return result

    # --- what errors say

    def follow_some_hint(self) -> None:
        """A user who reads the error of a table that failed for good does what it says."""
        failed = self.failed_for_good()
        if failed:
            self.follow(self._random.choice(failed))

    def failed_for_good(self) -> list[TableRecord]:
        """Tables that wait for a person, a bucket of them alone among them."""
        failed = [record for record in self._world.coordinator.table_records.live() if record.state is TableState.FAILED]
        return [record for record in failed if record.retry_deadline is None or _stands(record)]

    def follow(self, record: TableRecord) -> None:
        """Does one of the things that the hint names, and what refusals name then."""
        error, path = record.error, record.path
        assert error is not None
        info = self._world.cluster.by_path.get(path)
        if info is None or info.table_id != record.table_id:
            return  # dropped just now: discovery removes it
        if error.error_class != "UnsupportedType" and self.is_next_action_run(record):
            return
        if error.error_class == "UnsupportedType":
            if info.refusal is not None:
                self.change_columns(info, None)
            return
        hint = error.hint
        for _ in range(MOST_HINTS):
            refusal = self._do_what_it_says(path, hint, str(error))
            if refusal is None:
                return
            hint = refusal.hint
        raise AssertionError(f"{path}: hints go in a circle: {error.error_class}: {error.message} [{error.hint}] ... {hint}")

    def _do_what_it_says(self, path: TablePath, hint: str, error: str) -> CannotReconcile | None:
        skip = _SKIP.search(hint)
        if skip is not None:
            named = skip["table"].split(".", 1)
            wanted = SkipRecord(TablePath(*named), int(skip["bucket"]), int(skip["offset"]), skip["partition"], "why", caller="ann")
            self.perform(lambda: skip_record(self._parts, wanted))
            return None
        calls = list(_RECONCILE.finditer(hint))
        if not calls:
            assert "tier_table(" in hint or "retry" in hint, f"{path}: nothing to do in {hint!r} of {error}"
            self.perform(lambda: retry_tiering(self._parts, RetryTiering(path, caller="ann")))
            return None
        chosen = self._random.choice(calls)
        assert chosen["table"] == str(path), f"{path} is told of another table: {hint}"
        rename = _RENAME.search(hint)
        if rename is not None and rename.start() < chosen.start():
            self.rename_lake_table(path)
        try:
            self.reconcile(path, chosen["action"])
        except SimulatedDeath:
            self._world.coordinator_died()
        except PanicException:
            self._world.outcomes["call panicked"] += 1
        except CannotReconcile as refusal:
            return refusal
        except LakewardError as refused:
            self._world.outcomes[f"call {refused.error_class}"] += 1
        return None
