"""What tierers report of the progress of their rounds: shown, never stored, and without any effect on how a round ends."""

from __future__ import annotations

from tiering.coordinator.decisions import round_lifecycle
from tiering.coordinator.memory.running_splits import RunningSplits
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.tierers.messages import round_ref_from_pb, splits_report_from_pb
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.rounds import round_progress_from_pb


class Progress:
    """Takes reports in for as long as their round is its table's running one. `splits` has what they say of single splits."""

    def __init__(self, table_records: TableRecords) -> None:
        self._table_records = table_records
        self.splits = RunningSplits()

    def report(self, request: pb.ReportProgressRequest) -> pb.ReportProgressResponse:
        """Takes a report in, unless its round does not own its table. Raises InvalidArgument for one that no tierer of ours sends."""
        ref = round_ref_from_pb(request.round)
        with self._table_records.changing():
            record = self._table_records.get(ref.table_id)
            if record is None or not round_lifecycle.is_current(record, ref):
                return pb.ReportProgressResponse(send_all=False)
            change = round_lifecycle.progress(record, round_progress_from_pb(request))
            if change is not None:
                self._table_records.put(change)
                self._table_records.wake_ups.notify()
        # Outside the lock: thousands of splits take a while, and what is reported of a round that ends meanwhile is forgotten soon.
        report = splits_report_from_pb(request, record)
        return pb.ReportProgressResponse(send_all=report is not None and not self.splits.take(report))

    def forget_ended(self) -> None:
        """Forgets the splits of rounds that are over."""
        self.splits.forget_ended(self._running_round)

    def _running_round(self, table_id: int) -> str | None:
        record = self._table_records.get(table_id)
        return None if record is None or record.running is None else record.running.round_id
