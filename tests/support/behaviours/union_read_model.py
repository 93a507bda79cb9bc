"""The rows that a union read must return in a story, and the moments of former reads, which must return the same rows again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from support.behaviours.behaviour_world import Row, TieredTable
from support.fresh.union_reads import PlannedRead, planned_read
from tiering.errors import KvSnapshotGone, LakeUnavailable, LogTruncated, SourceChanged
from tiering.model.reading.scans import ReadMoment

NO_LONGER_THERE = (KvSnapshotGone, LakeUnavailable, LogTruncated, SourceChanged)
"""Errors of a read whose rows the story removed: nothing holds them here."""
WEIGHTS: Mapping[str, int] = {"read": 5, "read_again": 4}


@dataclass
class FormerRead:
    """A moment, and the rows that it has."""

    moment: ReadMoment
    rows: Counter[str]


@dataclass
class UnionReads:
    """The reads of one story. `rows`: the rows that the table has now."""

    world: TieredTable
    rows: Callable[[], Sequence[Row]]
    events: Counter[str]
    former: list[FormerRead] = field(default_factory=list)

    def read(self) -> None:
        """Reads the table as of now, compares the rows with the model, and keeps the moment."""
        planned = planned_read(self.world.cluster, lambda _: self.world.lake, self.world.path)
        names = self.world.table.schema.names
        expected = Counter(_text(row, names) for row in self.rows())
        assert _rows(planned) == expected
        self.former.append(FormerRead(planned.moment, expected))
        self.events["reads"] += 1
        self.events["rows of lake and log"] += planned.moment.lake_snapshot_id is not None and planned.moment.log_records > 0
        self.events["reads of KV snapshots"] += bool(planned.moment.kv_snapshots)

    def read_again(self, data: st.DataObject) -> None:
        """Reads a former moment: the same rows, or an error that something was removed."""
        if not self.former:
            return
        former = data.draw(st.sampled_from(self.former))
        planned = PlannedRead(self.world.cluster, lambda _: self.world.lake, former.moment)
        try:
            rows = _rows(planned)
        except NO_LONGER_THERE:
            self.events["removed"] += 1
            return
        width = {text.count("\x1f") for text in former.rows}
        assert Counter({_first(text, width): count for text, count in rows.items()}) == former.rows
        self.events["reads again"] += 1


def _rows(planned: PlannedRead) -> Counter[str]:
    table = planned.rows()
    return Counter(_text(row, table.column_names) for row in table.to_pylist())


def _text(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return "\x1f".join(repr(row.get(name)) for name in names)


def _first(text: str, width: set[int]) -> str:
    """Returns the columns that the former read had: columns are only added."""
    return "\x1f".join(text.split("\x1f")[: max(width, default=0) + 1])
