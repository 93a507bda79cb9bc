"""The end of a story: hints heal every table, and lake, log and model agree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.background import tick
from support.on_call import call, in_lake, next_action
from support.worlds.stories.calls import CallSteps
from support.worlds.stories.dropped_partitions import DroppedPartitions
from support.worlds.stories.model import Model
from support.worlds.stories.parts import run_call
from support.worlds.stories.rounds import MAX_BACKOFF_S
from support.worlds.validated import check, faults
from tiering import errors
from tiering.lake.layouts import Layout
from tiering.model.status import TableStatus
from tiering.model.tables import TablePath
from tiering.procedures.resume_tiering import ResumeTiering

HEALING_ROUNDS = 12
HINTS = 4
"""More follow one another for no table."""
CLOCKS = {"clock-ahead", "clock-back"}

_RESTORE = re.compile(r"[Rr]estore|backup|Put back")
_COLUMN = re.compile(
    r"ALTER TABLE lake\.(?P<database>\w+)\.(?P<table>\w+) "
    r"(?:DROP COLUMN (?P<dropped>\w+)|RENAME COLUMN (?P<name>\w+) TO (?P<renamed>\w+))"
)
_RENAME = re.compile(r"Rename or drop the lake table \S+ in the lake's catalog")
_RENAME_TO = re.compile(r"ALTER TABLE lake\.\w+\.(?P<table>\w+) RENAME TO \w+")
_AGAIN = re.compile(r"CALL sys\.reconcile_lake again")
_RECONCILE = re.compile(r"CALL sys\.reconcile_lake\('(?P<table>[^']+)', '(?P<action>\w+)'\)")


class Healing(DroppedPartitions, CallSteps):
    """Does what is printed, and compares."""

    def heal(self) -> None:
        """Resumes, enables, and does what is printed until every table is Scheduled and has nothing left to tier."""
        tick(self.world.coordinator)
        for model in self.models.values():
            self.attempt("write", lambda model=model: self.write(model))  # type: ignore[misc]  # an empty round looks at little
            self.world.storage.alter_table(model.info.path, {"table.datalake.enabled": "true"})
            tick(self.world.coordinator)
            run_call(self.world.coordinator.control.perform(ResumeTiering(model.info.path, None, caller="ann")))
        for _ in range(HEALING_ROUNDS):
            self.world.clock.advance(MAX_BACKOFF_S)
            tick(self.world.coordinator)
            while (taken := self.begin()) is not None:
                self.log.append(f"heal: {self.end(taken)}")
            stuck = [status for status in self.world.coordinator.view().table_statuses() if status.status != "Scheduled"]
            for status in stuck:
                self.mend(status)
            if not stuck and self.attempt("look", self.caught_up) is True:
                self.prove_archives()
                return
        raise AssertionError("a table is stuck")

    def mend(self, status: TableStatus) -> None:
        """Follows a status line: damaged files are restored from the backup if it says so, then the statement or the hint is run."""
        path, hint = TablePath(status.database_name, status.table_name), status.error_hint or ""
        self.log.append(f"heal: {path} {status.status} {status.error_class}: {status.last_error} [{hint}]")
        assert status.error_class is not None or status.status != "Failed", f"{path} is broken without an error"
        if self.backup and _RESTORE.search(hint):
            self.log.append(f"heal: restored {self.put_back()}")
        if status.error_retryable is not False:
            return
        statement = next_action(self.world.coordinator, self.world.storage.table(path))
        hint = self._hint_of(path)
        if statement is not None and (_RECONCILE.search(hint) is None or self.rng.random() < 0.5):
            self.attempt(statement, lambda: self._run_statement(statement))
        elif _RECONCILE.search(hint) is not None:
            self.follow(path, hint)
        else:
            assert not self.is_stuck(path), f"{path}: nothing to do in {hint!r}"

    def _hint_of(self, path: TablePath) -> str:
        """After the look, which adds what else would help."""
        hints = [status.error_hint for status in self.world.coordinator.view().table_statuses() if status.table_name == path.table_name]
        return hints[0] or ""

    def is_stuck(self, path: TablePath) -> bool:
        """Returns whether the table waits for a user."""
        statuses = [status for status in self.world.coordinator.view().table_statuses() if status.table_name == path.table_name]
        return any(status.status == "Failed" and status.error_retryable is False for status in statuses)

    def _run_statement(self, statement: str) -> object:
        """Runs the statement as Spark does."""
        if ".sys." in statement:
            return call(self.world.coordinator, statement)
        column = _COLUMN.fullmatch(statement)
        if column is None:
            for model in self.models.values():
                if (renamed := _RENAME_TO.fullmatch(statement)) is not None and renamed["table"] == model.info.path.table_name:
                    self.renamed[model.info.path.table_name] = self.keys_in_lake(model) & model.archived
            return in_lake(self.world)(statement)
        path, by_hand = TablePath(column["database"], column["table"]), self.world.by_hand
        if column["dropped"] is not None:
            return by_hand.drop_column(path, column["dropped"])
        return by_hand.rename_column(path, column["name"], column["renamed"])

    def caught_up(self) -> bool:
        """Whether the lake has been told of every record there is."""
        for model in self.models.values():
            view = self.world.lake.view(model.info.path)
            tiered = {} if view is None or view.marker is None else view.marker.buckets
            for bucket, ends in self.world.storage.offsets(model.info).items():
                if ends.log_end > (tiered[bucket].tiered if bucket in tiered else 0):
                    return False
        return True

    def follow(self, path: TablePath, hint: str) -> None:
        """Does the first thing that a hint names, literally, and then what the answers do."""
        hinted_call = None
        for _ in range(HINTS):
            if hinted_call is not None and self.backup and _RESTORE.search(hint):
                self.log.append(f"follow: restored {self.put_back()}")
            elif hinted_call is None or not _AGAIN.match(hint):
                hinted_call = _RECONCILE.search(hint)
            assert hinted_call is not None, f"{path}: nothing to do in {hint!r}"
            assert hinted_call["table"] == str(path)
            rename = _RENAME.search(hint)
            table_is_there = self.world.by_hand.exists(path)
            if rename is not None and rename.start() < hinted_call.start() and table_is_there:
                self.log.append(f"restored for the lake's own tools: {self.put_back()}")
                if (model := self.models.get(path.table_name)) is not None and self.keys_in_lake(model) & model.archived:
                    assert "of dropped partitions" in hint, f"{path}: what the new lake table lacks is not said in {hint!r}"
                self.world.by_hand.rename(path, f"former-{next(self.numbers)}")
            action = hinted_call["action"]
            answer = self.attempt(f"follow {action}", lambda action=action: run_call(self.reconcile(path, action)))  # type: ignore[misc]
            if not isinstance(answer, errors.LakewardError):
                return
            hint = answer.hint
        raise AssertionError(f"{path}: hints go in a circle: {hint}")

    def prove(self) -> None:
        """Lake and model agree, Lakeward's own validation says so too, and nothing unclear was said on the way."""
        assert not self.unclear, self.unclear
        self.prove_damage_is_shown()
        for model in self.models.values():
            view = self.world.lake.view(model.info.path)
            if view is None or view.head is None:
                assert not model.rows, f"{model.info.path}: no lake table"
                continue
            if model.odd_values is not None and model.odd_values.shown_wrong:
                self.prove_valid(model)
                continue
            held = Counter(model.rows_of(self.world.by_hand.rows(model.info.path)))
            expected = Counter(model.rows.values())
            if not model.left_out:
                assert not expected - held - model.removed, f"{model.info.path}: the lake lacks {expected - held}"
            self.prove_valid(model)
            beside = held - expected
            if not model.partitioned:
                assert not beside - model.foreign or model.left_out, f"{model.info.path}: the lake has {beside} beside"
            assert not beside - model.former - model.foreign, f"{model.info.path}: no user wrote {beside - model.former}"

    def prove_archives(self) -> None:
        """A new lake table that a statement led to has the rows of dropped partitions: only where it would lack none is one named."""
        for name, archived in self.renamed.items():
            lacking = archived - self.keys_in_lake(self.models[name]) if name in self.models else set()
            assert not lacking, f"{name}: the statement that was named led to a lake table without {sorted(lacking)}"
        self.renamed.clear()

    def prove_valid(self, model: Model) -> None:
        """Where lake and log should agree."""
        if not model.left_out and not model.changed_by_hand and not self.has_former_rows_of_the_future(model):
            wrong = faults(check(self.world, model.info))
            assert not wrong, f"{model.info.path}: {wrong}"

    def has_former_rows_of_the_future(self, model: Model) -> bool:
        """Whether a dropped partition may have rows with later times than one that came again under its name: with system columns times
        alone tell them apart (docs/validate.md, "Limits")."""
        return model.lost_partition and self.injected["clock-back"] > 0 and self.kind.layout is Layout.SYSTEM_COLUMNS

    def prove_damage_is_shown(self) -> None:
        """Checks that a validation finds damaged files that no round had to read until now; then they are restored."""
        damaged, self.backup = self.backup, {}
        for model in self.models.values():
            if not self.world.by_hand.exists(model.info.path) or not damaged.keys() & self.files_of(model, damaged):
                continue
            shown = self.attempt("validate", lambda model=model: faults(check(self.world, model.info)))  # type: ignore[misc]
            assert shown, f"{model.info.path}: a validation does not tell of {sorted(map(str, damaged))}"
        self.backup = damaged
        self.log.append(f"put back: {self.put_back()}")

    def files_of(self, model: Model, damaged: Mapping[Path, bytes]) -> set[Path]:
        """Data files of the lake table in which others than the right rows are."""
        try:
            files = self._data_files(model)
        except OSError:  # no tool gets so far
            return set(damaged)
        return {file for file in files if file in damaged and (not file.exists() or not holds_the_same(file, damaged[file]))}

    def end_of_all(self) -> None:
        """Checks that the contents of the store let another coordinator start with the same answers."""
        before = [(status.table_name, status.status) for status in self.world.coordinator.view().table_statuses()]
        self.world.restart()
        after = [(status.table_name, status.status) for status in self.world.coordinator.view().table_statuses()]
        if self.injected.keys() & CLOCKS:  # a start tells time by the wall clock: what is due by that is due
            before = [
                (name, "Pending" if name_after[1] == "Pending" else status)
                for (name, status), name_after in zip(before, after, strict=True)
            ]
        assert after == before, (before, after)


def holds_the_same(file: Path, content: bytes) -> bool:
    """Whether a reader gets the rows that it should: some bits of a file mean nothing."""
    whole = pq.read_table(pa.BufferReader(content))
    try:
        return pq.read_table(file, partitioning=None).equals(whole)
    except (pa.ArrowException, OSError, ValueError):
        return False
