"""Real processes that faults happen to, with a log table and a primary-key table, and what must hold of both after every fault."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from support.lake_kinds.kinds import ICEBERG, LakeKind
from support.lakes.lake_proof import assert_chain, marker_of
from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from sys_tables.catalog_client import SystemCatalog
from tiering import crash_points
from tiering.client import LakewardClient
from tiering.cluster.writable import TableSpec
from tiering.errors import ServiceBusy, ServiceUnreachable
from tiering.lake.marker import Marker
from tiering.lake.rules.base_check import tiered_offsets
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
ACCOUNTS = TablePath("sales", "accounts")
ACCOUNT_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
SETTLED_SECONDS = 150
"""After the last fault: back-offs, a lease of `inline_tierer`, and a machine on which much else runs."""
ENDED_SECONDS = 60
"""Time limit for a process that kills itself, on such a machine."""
ROWS = 30
KEYS = 20
OPEN_ROUND_STATES = ("QUEUED", "RUNNING")
RESOLVED_COMMITS = ("ACKED", "ABORTED", "RECONCILED")


@dataclass
class FaultyDeployment(Deployment):
    """Coordinators on one folder and inline tierers; a model of all rows that `write` sends."""

    kind: LakeKind = ICEBERG
    """Kind of both lake tables."""
    written: int = 0
    accounts: dict[int, str] = field(default_factory=dict)
    writes: int = 0
    _unanswered: list[Callable[[], None]] = field(default_factory=list)

    def make_tables(self) -> None:
        """Both tables, lake-enabled and empty."""
        self.create(ORDERS, kind=self.kind)
        with self.cluster() as cluster:
            properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 s", **self.kind.options}
            cluster.create_table(ACCOUNTS, TableSpec(ACCOUNT_SCHEMA, 2, properties=properties, primary_key=("id",)))

    def write(self) -> None:
        """New orders; new, changed and deleted accounts, and KV snapshots of them.

        What an earlier call had no answer to is repeated first, as its writer would: in the same calls, under the same numbers.
        """
        self._unanswered += self._new_writes()
        while self._unanswered:
            self._unanswered[0]()
            self._unanswered.pop(0)

    def _new_writes(self) -> list[Callable[[], None]]:
        self.writes += 1
        number, start = self.writes, self.written
        changed = dict.fromkeys(range(number % 3, KEYS, 3), f"write {number}")
        removed = {number % 7, number % 11} & self.accounts.keys() - changed.keys()
        self.written += ROWS
        self.accounts = {key: text for key, text in self.accounts.items() if key not in removed} | changed

        def change_accounts() -> None:
            with self.cluster() as cluster:
                keys = pa.table({"id": sorted(removed)}, schema=pa.schema([ACCOUNT_SCHEMA.field("id")]))
                if removed:
                    cluster.delete(ACCOUNTS, keys, f"accounts-{number}", 0)
                rows = pa.table({"id": list(changed), "text": list(changed.values())}, schema=ACCOUNT_SCHEMA)
                cluster.upsert(ACCOUNTS, rows, f"accounts-{number}", 1)

        def take_snapshots() -> None:
            with self.cluster() as cluster:
                cluster.take_kv_snapshots(ACCOUNTS)

        return [partial(self.append, ORDERS, start, ROWS), change_accounts, take_snapshots]

    def leave_dead_files(self) -> None:
        """Kills a tierer in a round of orders whose files are all written.

        A tierer runs rounds of both tables at once, and would die with the first that has its files.
        """
        with self.client() as client:
            client.pause_tiering(ACCOUNTS)
            doomed = self.start_inline_tierer("doomed", crash_point=crash_points.AFTER_FILES)
            assert doomed.wait_ended(ENDED_SECONDS) == -signal.SIGKILL
            client.resume_tiering(ACCOUNTS)

    def settle(self, seconds: float = SETTLED_SECONDS) -> None:
        """Waits until both tables are tiered, and asserts that everything is in the lake once and that `sys` says so."""
        for path in (ORDERS, ACCOUNTS):
            self.wait_tiered(path, seconds)
        self.assert_lake()
        self.assert_sys_is_true(seconds)

    def wait_tiered(self, path: TablePath, seconds: float = SETTLED_SECONDS) -> Any:
        """Waits as in `Deployment`, for a condition that holds while clocks disagree: the end offsets are this test's own."""
        ends = self._ends(path)

        def probe() -> object:
            with suppress(ServiceUnreachable, ServiceBusy):
                status = self.status(path)
                marker = self.marker(path)
                tiered = {} if marker is None else {bucket.bucket_id: offset for bucket, offset in tiered_offsets(marker).items()}
                reached = all(tiered.get(bucket, 0) == end for bucket, end in ends.items())
                return status if reached and status.status in ("Scheduled", "Pending") and status.pending_records == 0 else None
            return None

        return wait_for(f"{path} is tiered", probe, seconds)

    def assert_lake(self) -> None:
        """Every order and every account is there once, as it was written last; nothing else is; commits form a chain."""
        self.assert_exact(ORDERS, self.written)
        accounts = self.by_hand(self.kind).rows(ACCOUNTS)
        in_lake = sorted(zip(accounts["id"].to_pylist(), accounts["text"].to_pylist(), strict=True))
        assert in_lake == sorted(self.accounts.items())
        assert_chain(self.lake_properties, ACCOUNTS, self.kind.format)

    def assert_sys_is_true(self, seconds: float = SETTLED_SECONDS) -> None:
        """Checks that SQL agrees with the lake, and that no lease, no open error and no dead round is left."""
        with SystemCatalog(self.uri) as catalog:
            for path in (ORDERS, ACCOUNTS):
                try:
                    wait_for(f"sys tells the truth about {path}", lambda path=path: not self._lies(catalog, path), seconds)
                except AssertionError as error:
                    raise AssertionError(f"{error}: {self._lies(catalog, path)}") from error
            wait_for("no lease is left", lambda: not [row for row in catalog.read("kv_snapshot_leases") if row["remaining_ms"]], seconds)

    def _lies(self, catalog: SystemCatalog, path: TablePath) -> list[str]:
        """Returns wrong statements of `sys` about a table."""
        named = {"database_name": path.database_name, "table_name": path.table_name}
        marker, head = self.marker(path), self.by_hand(self.kind).head(path)
        assert marker is not None
        offsets = {bucket.bucket_id: offset for bucket, offset in tiered_offsets(marker).items()}
        shown = {row["bucket_id"]: row["lake_offset"] for row in catalog.read("tiering_buckets", **named)}
        commits = {row["round_id"]: row for row in catalog.read("lake_commits", **named)}
        rounds = catalog.read("tiering_rounds", **named)
        [status] = catalog.read("lake_tiering_status", **named)
        lies = [f"lake offsets {shown} are {offsets}"] if {bucket: at or 0 for bucket, at in shown.items()} != offsets else []
        lies += [f"status {status['status']}"] if status["status"] not in ("Scheduled", "Pending", "Tiering", "Tiered") else []
        landed = commits.get(marker.round_id)
        if landed is None or landed["state"] not in ("ACKED", "RECONCILED") or landed["lake_snapshot_id"] != head:
            lies.append(f"the newest commit {head} of {marker.round_id} is shown as {landed}")
        # A grant for a lake table that is gone stays unknown; the first commit of the present one builds on none.
        present = max((row["tiering_epoch"] for row in commits.values() if row["base_round_id"] is None), default=0)
        known = {row["round_id"] for row in commits.values() if row["state"] == "UNKNOWN" and row["tiering_epoch"] < present}
        lies += [f"unresolved {row}" for row in commits.values() if row["state"] not in RESOLVED_COMMITS and row["round_id"] not in known]
        newest = max((row["tiering_epoch"] for row in rounds), default=0)
        lies += [f"old round {row}" for row in rounds if row["state"] in OPEN_ROUND_STATES and row["tiering_epoch"] < newest]
        lies += [f"open error {row}" for row in catalog.read("tiering_errors", **named) if row["resolved_at"] is None]
        return lies

    def _ends(self, path: TablePath) -> Mapping[int, int]:
        with self.cluster() as cluster:
            return {bucket.bucket_id: log.log_end for bucket, log in cluster.offsets(cluster.table(path)).items()}

    def marker(self, path: TablePath) -> Marker | None:
        """Marker of the newest tiering commit."""
        return marker_of(self.lake_properties, path, self.kind.format)

    def validate(self, path: TablePath) -> None:
        """`lakeward validate` finds no difference between log and lake."""
        self.lakeward("validate", str(path))

    def client(self) -> LakewardClient:
        return LakewardClient(self.uri)
