"""Over all histories a sweep that proves forgotten rounds deletes no file of the table, and none of a copy that a user put aside."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tiering.coordinator.lake_repair.sweeper import Ledger, SweptRounds, files_of_rounds
from tiering.lake.maintenance import StoredFile
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, sweep_verdicts
from tiering.lake.rules.upkeep.expired_files import CommittedRound, OrphanCandidates, lineage_of
from tiering.lake.rules.upkeep.former_rounds import FormerRounds

STEP = timedelta(hours=2)
KEPT_ROUNDS = 3
UUID = "t"

AGE = ("tier", "tier", "tier", "expire")
"""The snapshots of before are gone, and all that are there are younger than the files of then."""
PHASES = {
    "tier": ("tier",),
    "die": ("die",),
    "age": AGE,
    "age and forget": (*AGE, "prune"),
    "set back": ("tier", "tier", "set back"),
    "set back and look": ("look", "tier", "set back", *AGE, "prune"),
    "look": ("look", "look"),
    "restart": ("restart",),
    "upgrade": ("upgrade",),
}
STEPS = st.lists(st.tuples(st.sampled_from(sorted(PHASES)), st.integers(0, 9)), max_size=12)


def round_id(number: int) -> str:
    return f"{number:08x}-0000-0000-0000-000000000000"


def list_name(number: int) -> str:
    return f"snap-{number}-0-lakeward-{round_id(number)}-a.avro"


def data_name(number: int) -> str:
    return f"lakeward-{round_id(number)}-n-0-00000.parquet"


@dataclass
class History:
    """One lake table. Snapshot `n` is that of round `n`, and names its own list and the data files of the last three rounds of its line."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    count: int = 1
    line: list[int] = field(default_factory=lambda: [0])
    shown: set[int] = field(default_factory=lambda: {0})
    parents: dict[int, int | None] = field(default_factory=lambda: {0: None})
    copies: list[tuple[list[int], set[int]]] = field(default_factory=list)
    files: dict[str, datetime] = field(default_factory=dict)
    times: dict[int, datetime] = field(default_factory=dict)
    ledger: list[int] = field(default_factory=lambda: [0])
    landed: set[int] = field(default_factory=lambda: {0})
    candidates: OrphanCandidates = field(default_factory=OrphanCandidates)
    note: FormerRounds | None = None

    def __post_init__(self) -> None:
        self._write(0)

    def _write(self, number: int) -> None:
        self.files |= {list_name(number): self.now, data_name(number): self.now}
        self.times[number] = self.now

    def named(self, line: list[int], shown: set[int]) -> set[str]:
        data = {number for snapshot in shown for number in line[max(line.index(snapshot) - 2, 0) : line.index(snapshot) + 1]}
        return {list_name(number) for number in shown} | {data_name(number) for number in data}

    def begin(self, base: int, *, lands: bool) -> int:
        number, self.count = self.count, self.count + 1
        self.parents[number] = base
        self.ledger.append(number)
        self._write(number)
        if lands:
            self.landed.add(number)
        return number

    def take(self, step: str, choice: int) -> None:
        self.now += STEP
        if step == "tier":
            number = self.begin(self.line[-1], lands=True)
            self.line, self.shown = [*self.line, number], {*self.shown, number}
        elif step == "die":
            self.begin(self.line[-1], lands=False)
        elif step == "expire":
            self.shown = set(sorted(self.shown)[-2:])
        elif step == "set back" and len(self.shown) > 1:
            self.copies.append(([*self.line], {*self.shown}))
            until = sorted(self.shown)[choice % (len(self.shown) - 1)]
            line = self.line[: self.line.index(until) + 1]
            number = self.begin(until, lands=True)  # the user reconciles
            self.line, self.shown = [*line, number], {snapshot for snapshot in self.shown if snapshot in line} | {number}
        elif step == "prune":
            self.ledger = self.ledger[-KEPT_ROUNDS:]
        elif step == "restart":
            self.candidates = OrphanCandidates()
        elif step == "upgrade":  # the version before noted nothing
            self.note, self.candidates = None, OrphanCandidates()
        elif step == "look":
            self.sweep()

    def sweep(self) -> None:
        newest, stored = self.line[-1], [StoredFile(name, name, 1, written) for name, written in sorted(self.files.items())]
        landed = [CommittedRound(round_id(number), self._base(number)) for number in self.ledger if number in self.landed]
        fates = {round_id(number): RoundFate(True, (self.parents[number],), granted_for=UUID, epoch=number) for number in self.ledger[::-1]}
        live, shown_rounds = self.named(self.line, self.shown), {round_id(number) for number in self.shown}
        swept = SweptRounds(self._records(), 1, Ledger(fates, landed[::-1]))
        view: Any = SimpleNamespace(table_uuid=UUID)
        known = swept.fates(UUID)
        lineage = swept.proved(self._lake(), view, stored, live, lineage_of(UUID, round_id(newest), self._base(newest), landed))
        known |= {key: RoundFate(**{**vars(known[key]), "landed": True}) for key in lineage.rounds if key in known}
        dead_since = self.candidates.observe(1, lineage, files_of_rounds(stored, known, live, shown_rounds, lineage.rounds), self.now)
        swept.note(view, stored, lineage, known)
        oldest = min(self.times[number] for number in self.shown)
        table = SweptTable(UUID, self.shown, newest, live, shown_rounds, dead_since=dead_since, oldest_commit=oldest)
        for file, verdict in sweep_verdicts(stored, known, table, self.now, STEP, STEP / 2):
            if verdict is Verdict.REMOVE:
                del self.files[file.name]

    def _base(self, number: int) -> str | None:
        base = self.parents[number]
        return None if base is None else round_id(base)

    def _records(self) -> Any:
        def keep(_: int, note: FormerRounds) -> None:
            self.note = FormerRounds.from_plain(json.loads(note.to_json()))

        return SimpleNamespace(store=SimpleNamespace(former_rounds=lambda _: self.note), note_former_rounds=keep)

    def _lake(self) -> Any:
        def ancestors(view: object, files: object) -> list[str]:
            names, waiting = [], [self.parents[number] for number in self.shown]
            while waiting:
                number = waiting.pop()
                if number is not None and number not in self.shown and list_name(number) in self.files and list_name(number) not in names:
                    names.append(list_name(number))
                    waiting.append(self.parents[number])
            return names

        return SimpleNamespace(expired_ancestors=ancestors)

    def check(self) -> None:
        lost = self.named(self.line, self.shown) - self.files.keys()
        assert not lost, f"the table lost {lost}"
        for line, shown in self.copies:
            own = {number for number in line if number not in self.line}
            put_aside = {name for name in self.named(line, shown) if any(round_id(number) in name for number in own)}
            assert not put_aside - self.files.keys(), f"a copy lost {put_aside - self.files.keys()}"


@given(STEPS)
@example([(phase, 0) for phase in ("tier", "set back", "age and forget", "look", "look")])
@example([(phase, 0) for phase in ("tier", "age and forget", "look", "set back and look", "age and forget", "look", "look")])
def test_over_all_histories_no_file_of_the_table_or_of_a_copy_goes(steps: list[tuple[str, int]]) -> None:
    history = History()
    for phase, choice in steps:
        for step in PHASES[phase]:
            history.take(step, choice)
            history.check()


def test_in_a_history_without_copies_nothing_stays_that_no_snapshot_names() -> None:
    history = History()
    for number in range(40):
        for step in ("tier", "die", "tier", "expire", "look", "prune", *(["restart"] if number % 5 == 0 else [])):
            history.take(step, 0)
    for step in ("tier", "expire", "tier", "expire", "tier", "expire", "look", "look"):
        history.take(step, 0)
        history.check()
    left = history.files.keys() - history.named(history.line, history.shown)
    assert len(left) <= 8, "files of rounds whose base is still a snapshot of the table, and may land late"
