"""Compares the cluster's tables with the known ones: tables that are new, changed or dropped, and lakes that were enabled or disabled."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import MappingProxyType

import structlog

from tiering.access.grants import Access
from tiering.cluster.base import TableCatalog
from tiering.coordinator.decisions import table_lifecycle
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import ClusterUnavailable, UnknownTable
from tiering.library_guards.panics import contained
from tiering.model.tables import TableInfo, TablePath

_log = structlog.get_logger(__name__)

CHUNK = 200
"""Number of tables stored in one transaction, so that the lock of `TableRecords` is never held for long."""

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
        self._reachable = True
        self._refresher = ThreadPoolExecutor(1, thread_name_prefix="discovery")
        self._refreshing: Future[None] | None = None
        self._refresh_lock = threading.Lock()

    def run(self) -> None:
        """Compares once. Raises ClusterUnavailable without changing anything."""
        with self._lock:
            tables = self._cluster.tables()
            if tables is self._applied_list:  # some clusters return the same list while nothing changes
                return
            listed = {info.table_id: info for info in tables}
            self.infos, self.listing = MappingProxyType(listed), tables
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
