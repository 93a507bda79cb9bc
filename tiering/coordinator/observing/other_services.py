"""Observes what other tiering services did with tables that are not assigned to us. It is only displayed."""

from __future__ import annotations

import structlog

from tiering.cluster.assignments import service_status
from tiering.cluster.base import TableCatalog
from tiering.coordinator.decisions import assignments
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.errors import LakewardError
from tiering.throttle import Throttling, unthrottled

_log = structlog.get_logger(__name__)


class OtherServices:
    """The observer of other services. One thread runs it."""

    def __init__(self, table_records: TableRecords, cluster: TableCatalog, discovery: Discovery) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._discovery = discovery

    def observe(self, throttle: Throttling = unthrottled) -> None:
        """Asks the cluster about each table once, one after the other."""
        for table_id, info in self._discovery.infos.items():
            record = self._table_records.get(table_id)
            if record is None or record.has_turn or record.running is not None:
                continue
            try:
                status = service_status(self._cluster, info)
            except LakewardError as error:
                _log.debug("what another service did could not be observed", table=str(info.path), error=error.message)
            else:
                with self._table_records.changing():
                    latest = self._table_records.get(table_id)
                    change = None if latest is None else assignments.notice(self._table_records.context(), latest, status)
                    if change is not None:
                        self._table_records.put(change)
            if not throttle():
                return
