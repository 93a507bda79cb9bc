"""What the cluster does by itself, every few seconds: KV snapshots that are due, the end of leases, log retention."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import structlog

from tiering.cluster.embedded.catalog import table_exists
from tiering.cluster.embedded.keyed_tables import KeyedTables
from tiering.cluster.embedded.kv_snapshots import last_snapshot_time
from tiering.cluster.embedded.listing import TableListing
from tiering.cluster.embedded.log_cut import cut_logs, plan_cuts
from tiering.cluster.embedded.metadata import Metadata
from tiering.cluster.embedded.options import parse_upkeep_options
from tiering.cluster.embedded.snapshot_files import remove_files
from tiering.effects import Clock
from tiering.errors import LakewardError, UnknownTable
from tiering.model import TableInfo, TableType

PERIOD_S = 10.0
"""Often enough for the shortest lease and interval that make sense."""

_log = structlog.get_logger(__name__)


class Upkeep:
    """One pass at a time; each may be repeated, or die, at any point."""

    def __init__(self, root: Path, metadata: Metadata, listing: TableListing, keyed: KeyedTables, clock: Clock) -> None:
        self._root = root
        self._metadata = metadata
        self._listing = listing
        self._kept_of: tuple[Sequence[TableInfo], Sequence[TableInfo]] = ((), ())
        self._keyed = keyed
        self._clock = clock

    def run(self) -> None:
        """One pass over all tables. What fails for one is logged, and tried again in the next pass."""
        for table in self._kept(self._listing.all()):
            try:
                self._take_snapshot(table)
                self._cut_log(table)
            except UnknownTable:
                continue  # dropped meanwhile
            except (LakewardError, OSError) as error:
                _log.warning("upkeep_failed", table=str(table.path), error=str(error))
        self._keyed.sweep()

    def _kept(self, tables: Sequence[TableInfo]) -> Sequence[TableInfo]:
        """Those that need anything: often none of very many."""
        if self._kept_of[0] is not tables:
            self._kept_of = (tables, [table for table in tables if _needs_upkeep(table)])
        return self._kept_of[1]

    def _take_snapshot(self, table: TableInfo) -> None:
        if table.table_type is not TableType.PRIMARY_KEY:
            return
        interval = timedelta(milliseconds=parse_upkeep_options(table.properties).kv_snapshot_interval_ms)
        with self._metadata.read() as connection:
            last = last_snapshot_time(connection, table.table_id) or table.created_at
        if self._clock.now() - last >= interval:
            self._keyed.snapshot(table.path)

    def _cut_log(self, table: TableInfo) -> None:
        ttl_ms = parse_upkeep_options(table.properties).log_ttl_ms
        if ttl_ms is None:
            return
        with self._metadata.read() as connection:
            if not plan_cuts(connection, table, ttl_ms, self._clock.now()):
                return
        with self._keyed.exclusive(table.table_id):  # a state that is being made anew reads the log
            with self._metadata.write() as connection:
                if not table_exists(connection, table.table_id):
                    return
                cuts = plan_cuts(connection, table, ttl_ms, self._clock.now())
                paths = cut_logs(connection, self._root, table.table_id, cuts)
            remove_files(self._root, paths)


def _needs_upkeep(table: TableInfo) -> bool:
    return table.table_type is TableType.PRIMARY_KEY or parse_upkeep_options(table.properties).log_ttl_ms is not None


@contextmanager
def running_upkeep(upkeep: Upkeep, period_s: float = PERIOD_S) -> Iterator[None]:
    """Keeps house in a thread while the context is open."""
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(period_s):
            try:
                upkeep.run()
            except LakewardError as error:
                _log.warning("upkeep_failed", error=str(error))
            except Exception:
                _log.exception("upkeep_failed")

    thread = threading.Thread(target=keep, name="embedded-cluster-upkeep")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
