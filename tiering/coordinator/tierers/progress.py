"""Progress of rounds as tierers report it. It is displayed, never stored, and does not affect how a round ends."""

from __future__ import annotations

from tiering.coordinator.decisions import round_lifecycle
from tiering.coordinator.memory.running_splits import RunningSplits
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.tierers.messages import PROGRESS, round_ref_from_pb, splits_report_from_pb
from tiering.rpc.v1 import coordinator_pb2 as pb


class Progress:
    """Accepts a report while its round is the running one of its table. `splits` has the reports about single splits."""

    def __init__(self, table_records: TableRecords) -> None:
        self._table_records = table_records
        self.splits = RunningSplits()

    def report(self, request: pb.ReportProgressRequest) -> pb.ReportProgressResponse:
        """Applies a report, unless its round does not own its table. Raises InvalidArgument for an invalid report."""
        ref = round_ref_from_pb(request.round)
        with self._table_records.changing():
            record = self._table_records.get(ref.table_id)
            if record is None or not round_lifecycle.is_current(record, ref):
                return pb.ReportProgressResponse(send_all=False)
            change = round_lifecycle.progress(record, PROGRESS.from_pb(request))
            if change is not None:
                self._table_records.put(change)
                self._table_records.wake_ups.notify()
        # Outside of the lock, because thousands of splits take a while. A report about a round that ends meanwhile is soon forgotten.
        report = splits_report_from_pb(request, record)
        return pb.ReportProgressResponse(send_all=report is not None and not self.splits.take(report))

    def forget_ended(self) -> None:
        """Forgets the splits of rounds that have ended."""
        self.splits.forget_ended(self._running_round)

    def _running_round(self, table_id: int) -> str | None:
        record = self._table_records.get(table_id)
        return None if record is None or record.running is None else record.running.round_id
