"""A cluster in memory that assigns its tables, as Fluss's coordinator does: epochs from 0 at each start, failed tables are due at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from support.clusters.memory_cluster import MemoryCluster
from tiering.cluster.assignments import TableAssignments
from tiering.errors import ClusterUnavailable
from tiering.model.assignments import (
    AssignmentAnswer,
    AssignmentRef,
    AssignmentReport,
    JudgedAssignment,
    Judgement,
    NewAssignment,
)
from tiering.model.tables import TableInfo

OURS, OTHERS = "ours", "others"


@dataclass
class Turn:
    """A table in Tiering."""

    owner: str
    epoch: int


class Assigner:
    """`TableAssignments`. `due` makes a table Pending; `another_asks` is what a second service does."""

    def __init__(self) -> None:
        self.tables: dict[int, TableInfo] = {}
        self.pending: list[int] = []
        self.tiering: dict[int, Turn] = {}
        self.epochs: dict[int, int] = {}
        self.reports: list[AssignmentReport] = []
        self.is_up = True
        self.connections = 1
        self.undecided: set[int] = set()
        """Tables about which nothing can be decided now."""

    def due(self, table: TableInfo) -> None:
        """The table's freshness is over."""
        self.tables[table.table_id] = table
        self._enter_pending(table.table_id)

    def another_asks(self) -> int | None:
        """The table that a second service gets."""
        return self._next(OTHERS)

    def another_fails(self, table: TableInfo) -> None:
        del self.tiering[table.table_id]
        self._enter_pending(table.table_id)

    def time_out(self, table: TableInfo) -> None:
        """Ends an assignment whose owner sent no heartbeat in time."""
        self.another_fails(table)

    def stop(self) -> None:
        """The process is gone, and all its connections."""
        self.is_up = False
        self.connections += 1

    def start(self) -> None:
        """Another process: tables are Scheduled, epochs are 0."""
        self.is_up = True
        self.pending.clear()
        self.tiering.clear()
        self.epochs.clear()

    def break_connection(self) -> None:
        self.connections += 1

    def session(self) -> str:
        if not self.is_up:
            raise ClusterUnavailable("the assigner is down")
        return f"connection {self.connections}"

    def heartbeat(self, session: str, report: AssignmentReport) -> AssignmentAnswer:
        if not self.is_up or session != f"connection {self.connections}":
            raise ClusterUnavailable("the connection has ended")
        self.reports.append(report)
        failed = [self._judged(ref, self._end(ref, failed=True)) for ref in report.failed]
        renewed = [self._judged(ref, self._holds(ref)) for ref in report.renewed]
        finished = [self._judged(ref, self._end(ref, failed=False)) for ref in report.finished]
        table_id = self._next(OURS) if report.wants_table else None
        assigned = None
        if table_id is not None:
            assigned = NewAssignment(AssignmentRef(table_id, 0, self.epochs[table_id]), self.tables[table_id].path)
        return AssignmentAnswer(renewed, finished, failed, assigned)

    def ever_told(self, kind: str) -> list[int]:
        """Ids of the tables that were reported so."""
        return [ref.table_id for report in self.reports for ref in getattr(report, kind)]

    def _enter_pending(self, table_id: int) -> None:
        self.epochs[table_id] = self.epochs.get(table_id, 0) + 1
        if table_id not in self.pending:
            self.pending.append(table_id)

    def _next(self, owner: str) -> int | None:
        if not self.pending:
            return None
        table_id = self.pending.pop(0)
        self.tiering[table_id] = Turn(owner, self.epochs[table_id])
        return table_id

    def _holds(self, ref: AssignmentRef) -> bool:
        """By the epoch alone: Fluss does not look at who says it."""
        turn = self.tiering.get(ref.table_id)
        return turn is not None and turn.epoch == ref.tiering_epoch

    def _end(self, ref: AssignmentRef, *, failed: bool) -> bool:
        if ref.table_id in self.undecided or not self._holds(ref):
            return False
        del self.tiering[ref.table_id]
        if failed:
            self._enter_pending(ref.table_id)
        return True

    def _judged(self, ref: AssignmentRef, accepted: bool) -> JudgedAssignment:
        if ref.table_id in self.undecided:
            return JudgedAssignment(ref, Judgement.UNDECIDED, "not now")
        return JudgedAssignment(ref, Judgement.ACCEPTED if accepted else Judgement.GONE, "" if accepted else "stale epoch")


class AssigningMemoryCluster(MemoryCluster):
    """A `MemoryCluster` with an assigner."""

    def __init__(self, assigner: Assigner, tables: Iterable[TableInfo]) -> None:
        super().__init__(*tables)
        self._assigner = assigner

    @property
    def assignments(self) -> TableAssignments:
        return self._assigner
