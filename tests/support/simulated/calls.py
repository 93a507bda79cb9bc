"""The CALLs that a simulated deployment gets beside those that operators mend something with (`users`).

They run in the one thread of the simulation: what the service would hand to threads of its own is done at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from support.simulated.cluster import USERS_LEASE
from support.simulated.deployment import Deployment
from support.simulated.users import Users
from tiering.coordinator.call_support.parts import CallParts, CallThreads
from tiering.coordinator.calls.acquire_kv_snapshot_lease import acquire_kv_snapshot_lease
from tiering.coordinator.calls.explain_tiering import explain_tiering
from tiering.coordinator.calls.release_kv_snapshot_lease import release_kv_snapshot_lease
from tiering.coordinator.calls.renew_kv_snapshot_lease import renew_kv_snapshot_lease
from tiering.coordinator.calls.set_freshness import set_freshness
from tiering.coordinator.calls.set_table_option import set_table_option
from tiering.coordinator.calls.skip_record import skip_record
from tiering.coordinator.calls.tier_database import tier_database
from tiering.coordinator.calls.validate_table import validate_table
from tiering.coordinator.calls.wait_for_tiering import wait_for_tiering
from tiering.coordinator.observing.lake_probes import LakeProbe, LakeProbes
from tiering.library_guards.panics import contained
from tiering.model.tables import TableInfo
from tiering.procedures.acquire_kv_snapshot_lease import AcquireKvSnapshotLease
from tiering.procedures.base import Pool
from tiering.procedures.explain_tiering import ExplainTiering
from tiering.procedures.release_kv_snapshot_lease import ReleaseKvSnapshotLease
from tiering.procedures.renew_kv_snapshot_lease import RenewKvSnapshotLease
from tiering.procedures.set_freshness import SetFreshness
from tiering.procedures.set_table_option import SetTableOption
from tiering.procedures.skip_record import SkipRecord
from tiering.procedures.tier_database import TierDatabase
from tiering.procedures.validate_table import ValidateTable
from tiering.procedures.wait_for_tiering import WaitForTiering

LEASE_TTL_MS = 5_000
FRESHNESS = ("1 s", "2 s", "5 s")


class ThreadsOfOne(CallThreads):
    """Does everything at once."""

    def __init__(self) -> None:
        """Starts no thread."""

    def run(self, pool: Pool, step: Callable[[], Any]) -> asyncio.Future[Any]:
        done = asyncio.get_running_loop().create_future()
        try:
            done.set_result(contained(step)())
        except Exception as error:
            done.set_exception(error)
        return done


class LooksOfOne(LakeProbes):
    """Looks at once, for as long as it takes."""

    def __init__(self) -> None:
        """Starts no thread."""

    async def within(self, milliseconds: float, look: LakeProbe[Any]) -> Any:
        return contained(look.work)(lambda side: None)


class Callers:
    """`call` makes one CALL at random, at times again with the same key."""

    def __init__(self, deployment: Deployment, users: Users) -> None:
        self._world, self._users = deployment, users
        self._chance, self._random = deployment.chance, deployment.random
        self._keys = 0

    def call(self) -> None:
        table = self._users.table()
        if table is None:
            return
        self._keys += 1
        options: dict[str, Any] = {"caller": "bob", "dry_run": self._random.random() < 0.2}
        if self._random.random() < 0.5:
            options["idempotency_key"] = f"call-{self._keys}"
        changes, questions = self._changes(table, options), self._questions(table)
        perform = self._random.choice([*changes, *questions])
        answer = self._users.perform(perform)
        if perform in questions:
            return
        if "idempotency_key" in options and answer is not None and not options["dry_run"] and self._chance.strikes("call-repeated", 0.5):
            again = self._users.perform(perform)
            assert again in (None, answer), f"{answer} became {again}"

    def _changes(self, table: TableInfo, options: dict[str, Any]) -> list[Callable[[], Any]]:
        path, partition = table.path, self._random.choice((None, *self._world.cluster.partitions_of[table.table_id].values()))
        skipped = SkipRecord(path, self._random.randrange(3), self._random.randrange(12), partition, "why", **options)
        freshness, include = self._random.choice(FRESHNESS), self._random.choice((None, "%", "c%", "st_ck", "none"))
        whole = TierDatabase("sales", include, only_stale=self._random.random() < 0.5, wait=False, **options)
        return [
            lambda: self._tier_database(whole),
            lambda: set_freshness(self._parts, SetFreshness(path, freshness, **options)),
            lambda: set_table_option(self._parts, SetTableOption(path, "table.datalake.freshness", freshness, **options)),
            lambda: acquire_kv_snapshot_lease(self._parts, AcquireKvSnapshotLease(USERS_LEASE, path, LEASE_TTL_MS, **options)),
            lambda: renew_kv_snapshot_lease(self._parts, RenewKvSnapshotLease(USERS_LEASE, LEASE_TTL_MS, **options)),
            lambda: release_kv_snapshot_lease(self._parts, ReleaseKvSnapshotLease(USERS_LEASE, path, **options)),
            lambda: skip_record(self._parts, skipped),
        ]

    def _questions(self, table: TableInfo) -> list[Callable[[], Any]]:
        moment = self._world.clock.now() + timedelta(seconds=self._random.choice((-5, 5)))
        offsets = {bucket: self._random.randint(0, end + 1) for bucket, (_, end) in self._buckets(table).items()}
        level = self._random.choice(("counts", "OFFSETS", "rows", "nothing"))
        by_name = {str(bucket): offset for bucket, offset in offsets.items()}
        return [
            lambda: self._explain(table),
            lambda: self._wait(WaitForTiering(table.path, timestamp=moment, caller="bob")),
            lambda: self._wait_for_offsets(table, by_name),
            lambda: self._wait(WaitForTiering(table.path, caller="bob")),
            lambda: self._validate(ValidateTable(table.path, level, caller="bob")),
        ]

    def _buckets(self, table: TableInfo) -> dict[Any, tuple[int, int]]:
        return {bucket: self._world.cluster.logs[table.table_id][bucket] for bucket in self._world.cluster.buckets(table)}

    @property
    def _parts(self) -> CallParts:
        return replace(self._world.coordinator.call_parts, threads=ThreadsOfOne(), probes=LooksOfOne())

    def _tier_database(self, request: TierDatabase) -> object:
        """The tables that it chose: with a key a repeat chooses no others."""
        with patch("tiering.coordinator.calls.tier_database.AT_ONCE", 1):
            result = self._answer(tier_database(self._parts, request))
        chosen = sorted(str(row.tiered.path) for row in result.rows)
        assert len(set(chosen)) == len(chosen), f"{chosen} has a table twice"
        return chosen

    def _explain(self, table: TableInfo) -> object:
        """Explains the table, which changes nothing."""
        before = len(self._world.store.events(limit=1_000_000)), self._world.lake.tables.keys()
        lines = explain_tiering(self._parts, ExplainTiering(table.path, caller="bob"))
        assert lines, f"{table.path} is not explained"
        assert before[1] == self._world.lake.tables.keys(), "an explanation made a lake table"
        return lines

    def _validate(self, request: ValidateTable) -> object:
        """Checks that the answer can be read again."""
        results = self._answer(validate_table(self._parts, request))
        assert list(self._world.store.validations(1)) == list(results), f"{results} is not kept"
        return results

    def _wait(self, request: WaitForTiering) -> Any:
        """Returns the answer of a stopping service, so that the procedure looks once."""
        parts = self._parts
        parts.stopping.set()
        try:
            return self._answer(wait_for_tiering(parts, request))
        finally:
            parts.stopping.clear()

    def _wait_for_offsets(self, table: TableInfo, offsets: dict[str, int]) -> object:
        """Checks that offsets count as reached only if the lake has them, or if neither log nor lake has them any more."""
        result = self._wait(WaitForTiering(table.path, offsets=offsets, caller="bob"))
        marked = self._world.invariants.marked.get(table.table_id, {})
        for bucket, (log_start, _) in self._buckets(table).items():
            reached = max(marked.get(bucket, 0), 0 if table.primary_key else log_start)
            is_there = reached >= offsets.get(str(bucket), 0)
            assert is_there or not result.reached, f"{table.path} is said to have {offsets}, its bucket {bucket} is at {reached}"
        return result

    @staticmethod
    def _answer(steps: AsyncGenerator[Any, None]) -> Any:
        """The last of what a CALL yields."""

        async def last() -> Any:
            return [step async for step in steps][-1]

        return asyncio.run(last())
