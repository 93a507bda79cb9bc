"""The operations of each client on coordinator and lake, with the moments of call and return: the input of `checker`.

Moments are counted, not measured: who is counted first was called, or returned, first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tiering.lake.base import LakeView
from tiering.lake.marker import Marker
from tiering.model.tables import BucketKey

TextOffsets = Mapping[str, int]
UNKNOWN = "unknown"


@dataclass
class Operation:
    """One line, in the checker's names (`history.go`). One that is never answered never returns: its outcome is unknown."""

    op: str
    client: int
    table: str
    call: int
    epoch: int = 0
    round: str = ""
    base: str = ""
    lake: str = ""
    offsets: TextOffsets | None = None
    answer: str = UNKNOWN

    def of_marker(self, marker: Marker) -> None:
        """Round, base, lake table and offsets."""
        self.round, self.base, self.lake = marker.round_id, marker.base_round_id or "", marker.lake_table_uuid
        self.offsets = offsets_of(marker)

    def of_view(self, view: LakeView | None) -> None:
        """Records the view that was read."""
        self.lake = "" if view is None else view.table_uuid
        if view is not None and view.marker is not None:
            self.round, self.offsets = view.marker.round_id, offsets_of(view.marker)


class History:
    """Safe from several threads. `client` names who does what happens now."""

    def __init__(self, client: Callable[[], str] = lambda: threading.current_thread().name) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._moment = 0
        self._clients: dict[str, int] = {}
        self._operations: list[tuple[Operation, int | None]] = []

    @contextmanager
    def operation(self, kind: str, table: object) -> Iterator[Operation]:
        """Yields an operation from its call to its return; unanswered if an error leaves the block, or if the block does not set
        `answer`."""
        with self._lock:
            self._moment += 1
            client = self._clients.setdefault(self.client(), len(self._clients))
            operation = Operation(kind, client, str(table), self._moment)
        try:
            yield operation
        finally:
            with self._lock:
                self._moment += 1
                self._operations.append((operation, None if operation.answer == UNKNOWN else self._moment))

    def moment(self) -> int:
        """Now; no other moment is this one."""
        with self._lock:
            self._moment += 1
            return self._moment

    def claimed_since(self, table: object, epoch: int) -> bool:
        """Returns whether another client claimed the table with a newer epoch."""
        with self._lock:
            return any(op.op == "claim" and op.table == str(table) and op.epoch > epoch for op, _ in self._operations)

    def count(self, kind: str, answer: str) -> int:
        """Returns the number of operations with that answer."""
        with self._lock:
            return sum((op.op, op.answer) == (kind, answer) for op, _ in self._operations)

    def lines(self) -> list[dict[str, object]]:
        """The operations in the order of their calls."""
        with self._lock:
            lines: list[dict[str, object]] = [{**asdict(operation), "return": moment} for operation, moment in self._operations]
        return sorted(lines, key=lambda line: int(str(line["call"])))


def write_history(file: Path, lines: list[dict[str, object]]) -> Path:
    """Writes the lines as JSON lines."""
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def offsets_of(marker: Marker) -> TextOffsets:
    return text_offsets({bucket: tiered.tiered for bucket, tiered in marker.buckets.items()})


def text_offsets(offsets: Mapping[BucketKey, int]) -> TextOffsets:
    return {str(bucket): offset for bucket, offset in offsets.items()}
