"""Compares the cluster's tables with the known ones: tables that are new, changed or dropped, and lakes that were enabled or disabled."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa
import structlog

from tiering.access.grants import Access
from tiering.cluster.base import TableCatalog
from tiering.cluster.capabilities import HidingCatalog
from tiering.coordinator.decisions import table_lifecycle
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import ClusterUnavailable, UnknownTable
from tiering.library_guards.panics import contained
from tiering.model.tables import TableInfo, TablePath, TableType

_log = structlog.get_logger(__name__)

CHUNK = 200
"""Number of tables stored in one transaction, so that the lock of `TableRecords` is never held for long."""

HIDDEN_LOOKUPS = 200
"""Number of hidden tables that one comparison looks up again."""

REFRESH_SECONDS = 1.0
"""How long a reader waits for a slow cluster."""


class Discovery:
    """Keeps the records in step with the cluster's tables.

    It runs one comparison at a time, so an older listing never replaces a newer one.
    """

    def __init__(self, table_records: TableRecords, cluster: TableCatalog) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._lock = threading.Lock()
        self.infos: Mapping[int, TableInfo] = MappingProxyType({})
        """Source tables by id, as of the last comparison."""
        self.listing: Sequence[TableInfo] = ()
        """Source tables sorted by path, as of the last comparison."""
        self._applied: dict[int, TableInfo] = {}
        """Source tables that agree with the records."""
        self._applied_list: Sequence[TableInfo] | None = None
        """The listing that agrees with the records as a whole."""
        self._hidden: dict[int, TableInfo] = {}
        """Source tables that the cluster does not list although they exist, by id; the one that was looked up last is at the end."""
        self._reachable = True
        self._refresher = ThreadPoolExecutor(1, thread_name_prefix="discovery")
        self._refreshing: Future[None] | None = None
        self._refresh_lock = threading.Lock()

    def run(self) -> None:
        """Compares once. Raises ClusterUnavailable without changing anything."""
        with self._lock:
            tables = self._cluster.tables()
            if tables is self._applied_list and not self._hidden:  # some clusters return the same list while nothing changes
                return
            listed = {info.table_id: info for info in tables}
            self._hidden = self._hidden_tables(listed)
            listed |= self._hidden
            self.infos = MappingProxyType(listed)
            self.listing = sorted(listed.values(), key=lambda info: info.path) if self._hidden else tables
            suspects = self._suspects(listed)
            self._suspected_error(suspects)
            for table_ids in _chunks(suspects):
                with self._table_records.changing():
                    self._table_records.put(
                        *(change for table_id in table_ids if (change := self._difference(table_id, listed)) is not None)
                    )
            self._applied, self._applied_list = dict(listed), tables

    def run_quietly(self) -> None:
        """Compares once, without raising ClusterUnavailable. Logs once that the cluster does not answer, and once that it does again."""
        try:
            self.run()
        except ClusterUnavailable as error:
            if self._reachable:
                _log.warning("the cluster does not answer; tiering of the known tables continues", error=error.message)
            self._reachable = False
        else:
            if not self._reachable:
                _log.info("the cluster answers again")
            self._reachable = True

    def refresh(self) -> None:
        """Compares for a reader that names an unknown table, and waits a short time. One comparison serves all waiting readers."""
        with self._refresh_lock:
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = self._refresher.submit(contained(self.run_quietly))
            refreshing = self._refreshing
        wait([refreshing], timeout=REFRESH_SECONDS)

    def close(self) -> None:
        self._refresher.shutdown(wait=False, cancel_futures=True)

    def _hidden_tables(self, listed: Mapping[int, TableInfo]) -> dict[int, TableInfo]:
        """Returns the tables that the cluster does not list although they exist, as they were last described, by id.

        A table that was hidden before is looked up again in turn, so that many hidden tables do not make a comparison slow.
        """
        if not isinstance(self._cluster, HidingCatalog):
            return {}
        unlisted = [record for table_id, record in self._table_records.all().items() if record.state is not None and table_id not in listed]
        unlisted_ids = {record.table_id for record in unlisted}
        still_hidden = [(table_id, info) for table_id, info in self._hidden.items() if table_id in unlisted_ids]
        hidden = dict(still_hidden[HIDDEN_LOOKUPS:])
        for record in unlisted:
            if record.table_id not in hidden:
                reason = self._cluster.hidden_reason(record.table_id, record.path)
                if reason is not None:
                    self._note_hidden(record, reason)
                    hidden[record.table_id] = _hidden_info(record, self.infos.get(record.table_id), reason)
        return hidden

    def _note_hidden(self, record: TableRecord, reason: str) -> None:
        if record.table_id not in self._hidden:
            _log.warning("the cluster does not list a table that exists; its state is kept", table=str(record.path), reason=reason)

    def _suspects(self, listed: Mapping[int, TableInfo]) -> list[int]:
        """Returns ids of tables that may differ from their records. It is cheap, because it may run every second over all tables."""
        records, applied = self._table_records.all(), self._applied
        # No function call per table: for 10,000 tables such calls take a tenth of a second without a pause.
        dropped = [table_id for table_id, record in records.items() if record.state is not None and table_id not in listed]
        removed = (record for record in records.values() if record.state is None)
        misjudged = [record.table_id for record in removed if not table_lifecycle.agrees(record, listed=record.table_id in listed)]
        differing = [
            table_id
            for table_id, info in listed.items()
            if ((before := applied.get(table_id)) is not info and before != info)
            or (info.lake_enabled and ((record := records.get(table_id)) is None or record.state is None))
        ]
        return list(dict.fromkeys([*dropped, *misjudged, *differing]))

    def _suspected_error(self, table_ids: Sequence[int]) -> None:
        """Marks these tables as different until their changes are stored. After a failed write, the next comparison checks them again."""
        self._applied_list = None
        for table_id in table_ids:
            self._applied.pop(table_id, None)

    def _difference(self, table_id: int, listed: Mapping[int, TableInfo]) -> Change | None:
        if table_id in self._hidden:
            return None
        info, record = listed.get(table_id), self._table_records.get(table_id)
        if info is not None and info.lake_enabled and record is not None and table_lifecycle.is_as_defined(record, info):
            return None  # the most frequent case after a start: a context costs more than this check
        ctx = self._table_records.context()
        earlier = self._table_records.all().get(table_id)
        if info is None:
            return None if earlier is None else table_lifecycle.drop(ctx, earlier)
        if not info.lake_enabled:
            return None if earlier is None else table_lifecycle.disable(ctx, earlier)
        if record is None:
            return table_lifecycle.discover(ctx, info, earlier)
        return table_lifecycle.redefine(ctx, record, info)


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]


def _hidden_info(record: TableRecord, described: TableInfo | None, reason: str) -> TableInfo:
    """Returns a table that the cluster does not describe now; after a start of the coordinator, only what its record tells."""
    if described is not None:
        return replace(described, refusal=reason)
    return TableInfo(
        table_id=record.table_id,
        path=record.path,
        table_type=TableType(record.table_type),
        schema=pa.schema([]),
        bucket_count=1,
        created_at=record.status_time,
        lake_enabled=True,
        lake_format=record.lake_format,
        freshness_ms=record.freshness_ms,
        round_bytes=record.round_bytes,
        dead_letters_per_hour=record.dead_letters_per_hour,
        refusal=reason,
    )


class VisibleTables:
    """The cluster's tables as one caller may see them. Its methods block; it is thread-safe.

    A hidden table and an unknown one take the same steps, so that their timing is alike: the listing is searched, the policies are asked by
    name, and if that gives no table, the listing is renewed and searched once more.
    """

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    def by_path(self, path: TablePath, access: Access) -> TableInfo:
        """Returns the visible table with this path. Raises UnknownTable."""
        is_visible = access.sees(path)
        info = self._visible(lambda: self._listed(path), lambda _: is_visible)
        if info is None:
            raise UnknownTable(f"there is no table {path}")
        return info

    def by_id(self, table_id: int, access: Access) -> TableInfo:
        """Returns the visible table with this id. Raises UnknownTable."""
        info = self._visible(lambda: self._discovery.infos.get(table_id), lambda info: access.sees(info.path))
        if info is None:
            raise UnknownTable(f"the table with id {table_id} does not exist", table_id=table_id)
        return info

    def _visible(self, search: Callable[[], TableInfo | None], is_visible: Callable[[TableInfo], bool]) -> TableInfo | None:
        info = search()
        if info is None or not is_visible(info):
            self._discovery.refresh()
            info = search()
        return info if info is not None and is_visible(info) else None

    def _listed(self, path: TablePath) -> TableInfo | None:
        listing, place = self._discovery.listing, (path.database_name, path.table_name)
        at = bisect_left(listing, place, key=_place)
        return listing[at] if at < len(listing) and _place(listing[at]) == place else None


def _place(info: TableInfo) -> tuple[str, str]:
    return info.path.database_name, info.path.table_name
