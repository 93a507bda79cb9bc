"""The snapshots of a Paimon table, as its readers see them.

Ids are consecutive: the parent of snapshot N is N-1. LATEST and EARLIEST are hints (Paimon's `HintFileUtils`): the newest snapshot is
the one that LATEST names, unless a newer one is there. What lies below EARLIEST expired and is no part of the table any more, also if
a commit that woke up late made it afterwards.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import PurePath
from threading import Lock
from typing import Any

from tiering.errors import LakeUnavailable
from tiering.lake.base import FLUSS_OFFSETS_KEY, LakeSnapshot
from tiering.lake.marker import ROUND_ID_KEY
from tiering.lake.paimon.storage.base import SNAPSHOT, TableFolder

LATEST, EARLIEST = "LATEST", "EARLIEST"
BASE_DIGEST_KEY = "lakeward.base"
"""Property of a snapshot of ours: `digest` of the one that it was built on."""
MARK_BIT = 1 << 62
"""Set in every mark of a snapshot, which its content makes: no id is as large."""
REMEMBERED = 50_000
"""Snapshots that a process keeps parsed: their files never change."""
REMEMBERED_TABLES = 1_000
"""Tables whose snapshots a process looks at only as far as they are new."""


@dataclass(frozen=True)
class StoredSnapshot:
    """A snapshot file."""

    snapshot_id: int
    content: bytes = field(repr=False)
    document: Mapping[str, Any] = field(repr=False)

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """Those that are texts."""
        stored = self.document.get("properties") or {}
        return {name: value for name, value in stored.items() if isinstance(value, str)}

    @cached_property
    def digest(self) -> str:
        """Tells it from another one of the same id: after a roll-back ids come again."""
        return hashlib.sha256(self.content).hexdigest()

    def described(self) -> LakeSnapshot:
        """As the rules look at it."""
        return self._described

    @cached_property
    def _described(self) -> LakeSnapshot:
        document, properties = self.document, self.properties
        return LakeSnapshot(
            snapshot_id=self.snapshot_id,
            parent_id=self.snapshot_id - 1 if self.snapshot_id > 1 else None,
            sequence_number=self.snapshot_id,
            committed_at=datetime.fromtimestamp(document["timeMillis"] / 1_000, UTC),
            operation=str(document["commitKind"]),
            commit_user=document["commitUser"],
            round_id=properties.get(ROUND_ID_KEY),
            offsets_path=properties.get(FLUSS_OFFSETS_KEY),
            mark=MARK_BIT | int(self.digest[:15], 16),
        )


@dataclass(frozen=True)
class _KnownChain:
    """The snapshots of a table as they were read last, and what tells the file of the newest one from another one of its name."""

    chain: tuple[StoredSnapshot, ...]
    head_stamp: Hashable | None


class SnapshotReader:
    """Reads snapshot files, each once. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[tuple[int, Hashable], StoredSnapshot] = {}
        self._chains: OrderedDict[PurePath, _KnownChain] = OrderedDict()

    def chain(self, folder: TableFolder) -> tuple[StoredSnapshot, ...]:
        """The snapshots of the table, oldest first. Raises LakeUnavailable for files that do not belong together."""
        numbers = folder.numbers(SNAPSHOT)
        head = _newest(folder, numbers)
        if head is None:
            return ()
        earliest = _hint(folder, EARLIEST)
        floor = earliest if earliest is not None and folder.stamp(_path(earliest)) is not None else 1
        chain = self._continued(folder, numbers, floor, head) or self._whole(folder, numbers, floor, head)
        if chain:
            with self._lock:
                self._chains[folder.root] = _KnownChain(chain, folder.stamp(_path(chain[-1].snapshot_id)))
                self._chains.move_to_end(folder.root)
                while len(self._chains) > REMEMBERED_TABLES:
                    self._chains.popitem(last=False)
        return chain

    def _whole(self, folder: TableFolder, numbers: Sequence[int], floor: int, head: int) -> tuple[StoredSnapshot, ...]:
        folder.read_ahead(_path(number) for number in numbers if floor <= number <= head and not self._knows(folder, number))
        chain: list[StoredSnapshot] = []
        number = head
        while number >= floor and (snapshot := self._read(folder, number)) is not None:
            chain.append(snapshot)
            number -= 1
        return tuple(reversed(chain))

    def _continued(self, folder: TableFolder, numbers: Sequence[int], floor: int, head: int) -> tuple[StoredSnapshot, ...]:
        """The chain as it was read last, with newer snapshots; nothing if it has to be read anew.

        A roll-back removes the head, so with the same head file the snapshots below are the same. Expiry removes the oldest ones.
        """
        with self._lock:
            known = self._chains.get(folder.root)
        former_head = None if known is None else known.chain[-1].snapshot_id
        if known is None or former_head is None or former_head > head or folder.stamp(_path(former_head)) != known.head_stamp:
            return ()
        first = max(floor, numbers[0]) if numbers else floor
        kept = known.chain[max(0, first - known.chain[0].snapshot_id) :]
        added = [self._read(folder, number) for number in range(former_head + 1, head + 1)]
        chain = tuple(snapshot for snapshot in (*kept, *added) if snapshot is not None)
        listed = bisect_right(numbers, head) - bisect_left(numbers, chain[0].snapshot_id) if chain else 0
        return chain if listed == len(chain) == head - chain[0].snapshot_id + 1 else ()

    def _knows(self, folder: TableFolder, number: int) -> bool:
        stamp = folder.stamp(_path(number))
        with self._lock:
            return (number, stamp) in self._known

    def _read(self, folder: TableFolder, number: int) -> StoredSnapshot | None:
        stamp = folder.stamp(_path(number))
        if stamp is None:
            return None
        with self._lock:
            known = self._known.get((number, stamp))
        if known is not None:
            return known
        content = folder.read(_path(number))
        if content is None:
            return None
        snapshot = parse_snapshot(number, content)
        with self._lock:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[number, stamp] = snapshot
        return snapshot


def parse_snapshot(number: int, content: bytes) -> StoredSnapshot:
    """Raises ValueError, KeyError or TypeError for what is no snapshot of that number."""
    document = json.loads(content)
    if document["id"] != number:
        raise ValueError(f"snapshot-{number} says that its id is {document['id']}")
    snapshot = StoredSnapshot(number, content, document)
    snapshot.described()
    return snapshot


def _newest(folder: TableFolder, numbers: Sequence[int]) -> int | None:
    hint = _hint(folder, LATEST)
    if hint is None or folder.stamp(_path(hint)) is None:
        if not numbers:
            _check_never_committed(folder, hint)
            return None
        head = numbers[-1]
    else:
        head = hint
    while folder.stamp(_path(head + 1)) is not None:
        head += 1
    if numbers and numbers[-1] > head:
        raise LakeUnavailable(
            f"the folder {folder.root / SNAPSHOT} has snapshot-{numbers[-1]}, but snapshot-{head + 1} is missing",
            hint="Was the table rolled back while a commit was on its way? "
            f"Its newest snapshot is {head}: move the files of newer ones away.",
        )
    return head


def _check_never_committed(folder: TableFolder, latest: int | None) -> None:
    """Hints are written behind snapshots, and no clean-up takes the newest one. Without it the table would pass for an empty one."""
    numbers = [number for number in (latest, _hint(folder, EARLIEST)) if number is not None]
    if numbers:
        name = f"snapshot-{max(numbers)}"
        raise LakeUnavailable(
            f"the folder {folder.root / SNAPSHOT} has no snapshot any more, and its hints name {name}",
            hint=f"Restore the file {name} from a backup of the warehouse: the next round goes on by itself. If it is gone for good, move "
            "the table's folder away: then sys.lake_tiering_status names what makes a new one, or how many rows that leaves out.",
        )


def _hint(folder: TableFolder, name: str) -> int | None:
    content = folder.read(f"{SNAPSHOT}/{name}")
    text = b"" if content is None else content.strip()
    return int(text) if text.isdigit() and len(text) < 19 else None


def _path(number: int) -> str:
    return f"{SNAPSHOT}/snapshot-{number}"
