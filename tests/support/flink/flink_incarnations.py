"""Incarnations of Flink's committer that a seed drives, a step at a time: at most two at once, for Fluss has given up on one of them.

What goes wrong with them is counted under its name (`faults.beside_flink.faults`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

from support.flink.flink_committer import FlinkCommitter, FlinkFailed
from support.lakes.shared_memory_lake import SharedMemoryLake
from support.simulated.chance import Chance
from tiering.lake.base import LakeSnapshot

MOST = 2
DEATHS, DEATHS_UNTOLD = 0.02, 0.1
"""Shares of steps behind which an incarnation is gone; the second of those between its append and its word to Fluss."""
REPEATED_TELLINGS = 0.15
COMPACTIONS = 0.2
KV_SNAPSHOTS = 0.8
BEGUN = "flink-begins-with-kv-snapshot"


@dataclass
class Incarnation:
    """`newest`: the newest tiering snapshot when it passed its check. `has_told`: Fluss of its commit."""

    committer: FlinkCommitter
    steps: list[str]
    newest: int | None = None
    has_told: bool = False


class FlinkIncarnations:
    """The living incarnations. `outcomes` counts how their rounds end."""

    def __init__(self, lake: SharedMemoryLake, chance: Chance, outcomes: Counter[str], kv_snapshot_seed: int | None) -> None:
        """`kv_snapshot_seed`: decides whether there is a KV snapshot when an incarnation begins; None = there never is."""
        self._lake, self._cluster = lake, lake._cluster
        self._chance, self._outcomes = chance, outcomes
        self.living: list[Incarnation] = []
        self._kv_snapshots = None if kv_snapshot_seed is None else Random(kv_snapshot_seed)

    def begin(self) -> None:
        """A new one, if there are not too many."""
        if len(self.living) >= MOST:
            return
        if self.living:
            self._chance.note("flink-doubled")
        compacts = ["compact"] if self._chance.strikes("flink-compacts", COMPACTIONS) else []
        tells = ["tell", "tell"] if self._chance.strikes("flink-tells-twice", REPEATED_TELLINGS) else ["tell"]
        steps = ["plan", "check", "prepare", "append", *compacts, *tells]
        committer = FlinkCommitter(self._cluster, self._lake)
        committer.reads_kv_snapshots = self._kv_snapshots is not None and self._kv_snapshots.random() < KV_SNAPSHOTS
        self.living.append(Incarnation(committer, steps))

    def advance(self) -> bool:
        """The next step of one of them, at times its last. Whether it appended the rows of a KV snapshot."""
        if not self.living:
            return False
        flink, begun = self._chance.random.choice(self.living), self._chance.injected[BEGUN]
        self._step(flink)
        if flink in self.living and self._chance.faulty:
            self._die_at_times(flink)
        return self._chance.injected[BEGUN] > begun

    def _die_at_times(self, flink: Incarnation) -> None:
        is_untold = flink.committer.snapshot_id is not None and not flink.has_told
        if self._chance.random.random() < (DEATHS_UNTOLD if is_untold else DEATHS):
            self.living.remove(flink)
            if is_untold:
                self._chance.note("flink-dies-untold")

    def land(self) -> bool:
        """One of them goes on until it has appended; whether it has."""
        if not self.living:
            return False
        flink = self._chance.random.choice(self.living)
        while flink in self.living and "append" in flink.steps:
            self._step(flink)
            if flink.committer.snapshot_id is not None:
                return True
        return False

    def _step(self, flink: Incarnation) -> None:
        step, known = flink.steps.pop(0), self._cluster.latest
        if step == "append" and self._newest_id() != flink.newest:
            self._chance.note("flink-appends-late")
        if step == "tell" and self._is_late(flink):
            self._chance.note("flink-tells-late")
        try:
            getattr(flink.committer, step)()
        except FlinkFailed as failure:
            self._outcomes["flink failed"] += 1
            self._note_failure(step, known, str(failure))
            flink.steps.clear()
        else:
            self._outcomes["flink"] += not flink.steps
        if step == "append" and flink.committer.begun and flink.committer.snapshot_id is not None:
            self._chance.note(BEGUN)
        if step == "check":
            flink.newest = self._newest_id()
        flink.has_told |= step == "tell"
        if not flink.steps:
            self.living.remove(flink)

    def _note_failure(self, step: str, known: int | None, failure: str) -> None:
        """Records the failure that its check found: a snapshot of ours that Fluss did not know, or Fluss's snapshot gone."""
        latest = self._cluster.latest
        if step == "check" and "is not in the table" in failure:
            self._chance.note("flink-snapshot-expired")
        snapshots = self._snapshots
        if step == "check" and latest is not None and latest != known and snapshots[latest].round_id is not None:
            self._chance.note("flink-tells-of-ours")

    def _is_late(self, flink: Incarnation) -> bool:
        """Whether Fluss knows of a newer snapshot than the one that it is told now."""
        snapshots, own = self._snapshots, flink.committer.snapshot_id
        known = None if self._cluster.latest is None else snapshots.get(self._cluster.latest)
        return known is not None and own in snapshots and known.sequence_number > snapshots[own].sequence_number

    @property
    def _snapshots(self) -> dict[int, LakeSnapshot]:
        """The snapshots of the lake table; none while a user has renamed it."""
        return self._lake.table.snapshots if self._cluster.shared_table.path in self._lake.tables else {}

    def _newest_id(self) -> int | None:
        tiering = [entry for entry in self._snapshots.values() if entry.commit_user is not None]
        newest = max(tiering, key=lambda snapshot: snapshot.sequence_number, default=None)
        return None if newest is None else newest.identity
