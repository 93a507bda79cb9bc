"""The end of a story: hints heal every table, and lake, log and model agree."""

from __future__ import annotations

import re
from collections import Counter

from support.background import tick
from support.worlds.stories.calls import CallSteps
from support.worlds.stories.parts import run_call
from support.worlds.stories.rounds import MAX_BACKOFF_S, RoundSteps
from support.worlds.validated import check, faults
from tiering import errors
from tiering.coordinator.calls.resume_tiering import ResumeTiering
from tiering.model.tables import TablePath

HEALING_ROUNDS = 12

_RENAME = re.compile(r"Rename or drop the lake table \S+ in the lake's catalog")
_RECONCILE = re.compile(r"CALL sys\.reconcile_lake\('(?P<table>[^']+)', '(?P<action>\w+)'\)")


class Healing(RoundSteps, CallSteps):
    """Does what is printed, and compares."""

    def heal(self) -> None:
        """Resumes, enables, and follows hints until every table is Scheduled and has nothing left to tier."""
        tick(self.world.coordinator)
        for model in self.models.values():
            self.world.storage.alter_table(model.info.path, {"table.datalake.enabled": "true"})
            tick(self.world.coordinator)
            run_call(self.world.coordinator.control.perform(ResumeTiering(model.info.path, None, caller="ann")))
        for _ in range(HEALING_ROUNDS):
            self.world.clock.advance(MAX_BACKOFF_S)
            tick(self.world.coordinator)
            while (taken := self.begin()) is not None:
                self.log.append(f"heal: {self.end(taken)}")
            stuck = [status for status in self.world.coordinator.view().table_statuses() if status.status != "Scheduled"]
            self.log += [
                f"heal: {status.table_name} {status.status} {status.error_class}: {status.last_error} [{status.error_hint}]"
                for status in stuck
            ]
            for status in stuck:
                if status.error_retryable is False:
                    self.follow(TablePath(status.database_name, status.table_name), status.error_hint or "")
            if not stuck and self.caught_up():
                return
        raise AssertionError("a table is stuck")

    def caught_up(self) -> bool:
        """Whether the lake has been told of every record there is."""
        for model in self.models.values():
            view = self.world.lake.view(model.info.path)
            tiered = (
                {} if view is None or view.marker is None else {bucket: progress.tiered for bucket, progress in view.marker.buckets.items()}
            )
            if any(ends.log_end > tiered.get(bucket, 0) for bucket, ends in self.world.storage.offsets(model.info).items()):
                return False
        return True

    def follow(self, path: TablePath, hint: str) -> None:
        """Does the first thing that a hint names, literally."""
        for _ in range(3):
            hinted_call = _RECONCILE.search(hint)
            assert hinted_call is not None, f"{path}: nothing to do in {hint!r}"
            assert hinted_call["table"] == str(path)
            rename = _RENAME.search(hint)
            table_is_there = self.world.by_hand.exists(path)
            if rename is not None and rename.start() < hinted_call.start() and table_is_there:
                self.world.by_hand.rename(path, f"former-{next(self.numbers)}")
            answer = self.attempt(
                f"follow {hinted_call['action']}", lambda hinted_call=hinted_call: run_call(self.reconcile(path, hinted_call["action"]))
            )  # type: ignore[misc]
            if not isinstance(answer, errors.LakewardError):
                return
            hint = answer.hint
        raise AssertionError(f"{path}: hints go in a circle: {hint}")

    def prove(self) -> None:
        """Lake and model agree, Lakeward's own validation says so too, and nothing unclear was said on the way."""
        assert not self.unclear, self.unclear
        for model in self.models.values():
            view = self.world.lake.view(model.info.path)
            if view is None or view.head is None:
                assert not model.rows, f"{model.info.path}: no lake table"
                continue
            lake = self.world.by_hand.rows(model.info.path).to_pylist()
            held = Counter((row["id"], row["region"], row["text"]) for row in lake)
            expected = Counter(model.rows.values())
            if not model.left_out:
                assert not expected - held, f"{model.info.path}: the lake lacks {expected - held}"
                wrong = faults(check(self.world, model.info))
                assert not wrong, f"{model.info.path}: {wrong}"
            beside = held - expected
            if not model.partitioned:
                assert not beside or model.left_out, f"{model.info.path}: the lake has {beside} beside"
            assert not beside - model.former, f"{model.info.path}: nobody wrote {beside - model.former}"

    def end_of_all(self) -> None:
        """What was left in the store does not keep another coordinator from starting, and it says the same."""
        before = [(status.table_name, status.status) for status in self.world.coordinator.view().table_statuses()]
        self.world.restart()
        assert [(status.table_name, status.status) for status in self.world.coordinator.view().table_statuses()] == before
