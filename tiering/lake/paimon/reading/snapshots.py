"""Reads the snapshots of a Paimon table as Paimon's readers do.

Ids are consecutive: the parent of snapshot N is N-1. LATEST and EARLIEST are hints (Paimon's `HintFileUtils`): the newest snapshot is the
one that LATEST names, unless a newer one exists. Snapshots below EARLIEST have expired and do not belong to the table any more, even if a
late commit created one of them afterwards.
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
from tiering.lake.paimon.storage.base import SNAPSHOT, TAG, TableFolder

LATEST, EARLIEST = "LATEST", "EARLIEST"
BASE_DIGEST_KEY = "lakeward.base"
"""Property of Lakeward's snapshots: the `digest` of the snapshot on which they were built."""
MARK_BIT = 1 << 62
"""Bit in every mark of a snapshot, which is derived from its content. No snapshot id is as large."""
REMEMBERED = 50_000
"""Maximum number of parsed snapshots that a process keeps; their files never change."""
REMEMBERED_TABLES = 1_000
"""Maximum number of tables of which a process reads only new snapshots."""


@dataclass(frozen=True)
class StoredSnapshot:
    """The content of a snapshot file."""

    snapshot_id: int
    content: bytes = field(repr=False)
    document: Mapping[str, Any] = field(repr=False)

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """Returns the properties with text values."""
        stored = self.document.get("properties") or {}
        return {name: value for name, value in stored.items() if isinstance(value, str)}

    @cached_property
    def digest(self) -> str:
        """Returns a hash of the content. It distinguishes snapshots with one id, because Paimon reuses ids after a roll-back."""
        return hashlib.sha256(self.content).hexdigest()

    @cached_property
    def described(self) -> LakeSnapshot:
        """Returns the snapshot in the form that the rules use."""
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
class _CachedChain:
    """The snapshots of a table when they were last read, and a stamp that identifies the file of the newest one."""

    chain: tuple[StoredSnapshot, ...]
    head_stamp: Hashable | None


class SnapshotReader:
    """Reads snapshot files, each once. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parsed: dict[tuple[int, Hashable], StoredSnapshot] = {}
        self._chains: OrderedDict[PurePath, _CachedChain] = OrderedDict()

    def chain(self, folder: TableFolder) -> tuple[StoredSnapshot, ...]:
        """Returns the snapshots of the table, oldest first. Raises LakeUnavailable for inconsistent files."""
        numbers = folder.numbers(SNAPSHOT)
        head = _newest(folder, numbers)
        if head is None:
            return ()
        earliest = _hint(folder, EARLIEST)
        floor = earliest if earliest is not None and folder.stamp(_path(earliest)) is not None else 1
        chain = self._continued(folder, numbers, floor, head) or self._whole(folder, numbers, floor, head)
        if chain:
            with self._lock:
                self._chains[folder.root] = _CachedChain(chain, folder.stamp(_path(chain[-1].snapshot_id)))
                self._chains.move_to_end(folder.root)
                while len(self._chains) > REMEMBERED_TABLES:
                    self._chains.popitem(last=False)
        return chain

    def _whole(self, folder: TableFolder, numbers: Sequence[int], floor: int, head: int) -> tuple[StoredSnapshot, ...]:
        folder.read_ahead(_path(number) for number in numbers if floor <= number <= head and not self._is_parsed(folder, number))
        chain: list[StoredSnapshot] = []
        number = head
        while number >= floor and (snapshot := self._read(folder, number)) is not None:
            chain.append(snapshot)
            number -= 1
        return tuple(reversed(chain))

    def _continued(self, folder: TableFolder, numbers: Sequence[int], floor: int, head: int) -> tuple[StoredSnapshot, ...]:
        """Returns the last read chain extended by newer snapshots; empty if the chain has to be read again.

        A roll-back removes the head, so with an unchanged head file the snapshots below are unchanged. Expiry removes the oldest ones.
        """
        with self._lock:
            cached = self._chains.get(folder.root)
        former_head = None if cached is None else cached.chain[-1].snapshot_id
        if cached is None or former_head is None or former_head > head or folder.stamp(_path(former_head)) != cached.head_stamp:
            return ()
        first = max(floor, numbers[0]) if numbers else floor
        kept = cached.chain[max(0, first - cached.chain[0].snapshot_id) :]
        added = [self._read(folder, number) for number in range(former_head + 1, head + 1)]
        chain = tuple(snapshot for snapshot in (*kept, *added) if snapshot is not None)
        listed = bisect_right(numbers, head) - bisect_left(numbers, chain[0].snapshot_id) if chain else 0
        return chain if listed == len(chain) == head - chain[0].snapshot_id + 1 else ()

    def _is_parsed(self, folder: TableFolder, number: int) -> bool:
        stamp = folder.stamp(_path(number))
        with self._lock:
            return (number, stamp) in self._parsed

    def _read(self, folder: TableFolder, number: int) -> StoredSnapshot | None:
        stamp = folder.stamp(_path(number))
        if stamp is None:
            return None
        with self._lock:
            parsed = self._parsed.get((number, stamp))
        if parsed is not None:
            return parsed
        content = folder.read(_path(number))
        if content is None:
            return None
        snapshot = parse_snapshot(number, content)
        with self._lock:
            if len(self._parsed) >= REMEMBERED:
                self._parsed.clear()
            self._parsed[number, stamp] = snapshot
        return snapshot


def parse_snapshot(number: int, content: bytes) -> StoredSnapshot:
    """Parses a snapshot file. Raises ValueError, KeyError or TypeError if it is not a snapshot with that number."""
    document = json.loads(content)
    if document["id"] != number:
        raise ValueError(f"snapshot-{number} says that its id is {document['id']}")
    snapshot = StoredSnapshot(number, content, document)
    _ = snapshot.described  # raises the errors for missing fields
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
            hint="The table may have been rolled back while a commit was under way. "
            f"Its newest snapshot is {head}: move the files of newer ones away.",
        )
    return head


def _check_never_committed(folder: TableFolder, latest: int | None) -> None:
    """Raises LakeUnavailable if a hint shows that the table had snapshots. Hints are written after snapshots, and no clean-up deletes the
    newest one; without this check the table would be treated as empty.
    """
    numbers = [number for number in (latest, _hint(folder, EARLIEST)) if number is not None]
    if numbers:
        name = f"snapshot-{max(numbers)}"
        raise LakeUnavailable(
            f"the folder {folder.root / SNAPSHOT} has no snapshot any more, but its hints name {name}",
            hint=f"Restore the file {name} from a backup of the warehouse: the next round then continues. If it is lost, move the table's "
            "folder away: then sys.lake_tiering_status shows how to create a new table, or how many rows that leaves out.",
        )


def _hint(folder: TableFolder, name: str) -> int | None:
    content = folder.read(f"{SNAPSHOT}/{name}")
    text = b"" if content is None else content.strip()
    return int(text) if text.isdigit() and len(text) < 19 else None


def _path(number: int) -> str:
    return f"{SNAPSHOT}/snapshot-{number}"


BRANCH, CHANGELOG = "branch", "changelog"


# A branch is a folder `branch/branch-<name>` with its own snapshots and tags; its data files are among the table's (Paimon's
# `BranchManager`). The file of a tag, of a branch's snapshot or of a changelog (`changelog/changelog-N`) contains a copy of a snapshot's
# file.
def tagged_snapshots(folder: TableFolder, below: str = "") -> tuple[StoredSnapshot, ...]:
    """Returns the snapshots that tags name. `below` is the folder of a branch with a trailing slash, or empty."""
    return _snapshots(folder, f"{below}{TAG}", "tag-")


def other_snapshots(folder: TableFolder, branches: Sequence[str]) -> tuple[StoredSnapshot, ...]:
    """Returns the snapshots of the branches in these folders, of their tags, and of changelogs that outlive snapshots."""
    others = list(_snapshots(folder, CHANGELOG, "changelog-"))
    for name in branches:
        below = f"{BRANCH}/{name}/"
        others += _snapshots(folder, f"{below}{SNAPSHOT}", "snapshot-")
        others += _snapshots(folder, f"{below}{CHANGELOG}", "changelog-")
        others += tagged_snapshots(folder, below)
    return tuple(others)


def _snapshots(folder: TableFolder, place: str, prefix: str) -> tuple[StoredSnapshot, ...]:
    contents = [folder.read(f"{place}/{name}") for name in folder.names(place) if name.startswith(prefix)]
    documents = [(content, json.loads(content)) for content in contents if content is not None]
    return tuple(StoredSnapshot(int(document["id"]), content, document) for content, document in documents)
