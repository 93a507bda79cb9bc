"""Progress of rounds as tierers report it. It is displayed, never stored, and does not affect how a round ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tiering.coordinator.decisions import round_lifecycle
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.tierers.messages import PROGRESS, SplitsReport, round_ref_from_pb, splits_report_from_pb
from tiering.model.splits import SplitProgress
from tiering.rpc.v1 import coordinator_pb2 as pb

KEPT_SPLITS = 200_000
"""Upper bound of splits of all rounds, some 85 MB (tests/coordinator/memory measures it). Splits beyond it are not shown."""


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


@dataclass
class _Run:
    """The splits of one run of a round, by number. `is_cut`: some did not fit into the limit."""

    round_id: str
    run: int
    splits: dict[int, SplitProgress] = field(default_factory=dict)
    is_cut: bool = False


class RunningSplits:
    """Splits by table, for one round of each table: rows of `sys.tiering_splits`. It is safe to use from several threads.

    They are kept only in memory, and bounded: after a restart the tierers report all of it again. A late or repeated report changes
    nothing. The caller has checked that a report is about a running round.
    """

    def __init__(self, limit: int = KEPT_SPLITS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._runs: dict[int, _Run] = {}
        self._count = 0

    def take(self, report: SplitsReport) -> bool:
        """Applies a report; False if splits of earlier reports are missing here."""
        with self._lock:
            run = self._runs.get(report.table_id)
            if run is not None and run.round_id == report.round_id and report.run < run.run:
                return True  # the report is about a run that was given up
            if run is None or (run.round_id, run.run) != (report.round_id, report.run):
                self._forget(report.table_id)
                run = self._runs[report.table_id] = _Run(report.round_id, report.run)
            for number, split in report.splits:
                self._put(run, number, split)
            return run.is_cut or len(run.splits) >= report.splits_told

    def _put(self, run: _Run, number: int, split: SplitProgress) -> None:
        before = run.splits.get(number)
        if before is not None:
            position = before.position.then(split.position)
            if position != before.position:
                run.splits[number] = SplitProgress(before.split, position)
        elif self._count < self._limit:
            run.splits[number] = split
            self._count += 1
        else:
            run.is_cut = True

    def of_round(self, table_id: int, round_id: str) -> Sequence[SplitProgress]:
        """Returns the splits of a round in the order of its plan; none if the round reported none."""
        with self._lock:
            run = self._runs.get(table_id)
            if run is None or run.round_id != round_id:
                return ()
            return [run.splits[number] for number in sorted(run.splits)]

    def forget_ended(self, running: Callable[[int], str | None]) -> None:
        """Forgets rounds that no longer run. `running` returns the id of a table's running round; None if there is none."""
        with self._lock:
            for table_id in [table_id for table_id, run in self._runs.items() if running(table_id) != run.round_id]:
                self._forget(table_id)

    def _forget(self, table_id: int) -> None:
        if (run := self._runs.pop(table_id, None)) is not None:
            self._count -= len(run.splits)

    def __len__(self) -> int:
        return self._count
