"""A person on call beside a simulated deployment, who runs the `next_action` that `sys` names for a table."""

from __future__ import annotations

import re

from support.simulated.chance import PanicException, SimulatedDeath
from support.simulated.deployment import Deployment
from support.simulated.users import Users
from tiering.coordinator.calls.resume_tiering import resume_tiering
from tiering.coordinator.calls.retry_tiering import retry_tiering
from tiering.coordinator.decisions.next_action import CatalogNames, next_action
from tiering.coordinator.decisions.records import TableRecord
from tiering.errors import CannotReconcile, LakewardError
from tiering.procedures.resume_tiering import ResumeTiering
from tiering.procedures.retry_tiering import RetryTiering

NAMES = CatalogNames()
_RECONCILE = re.compile(r"CALL \w+\.sys\.reconcile_lake\('(?P<table>[^']+)', '(?P<action>\w+)'\)")
_RETRY = re.compile(r"CALL \w+\.sys\.retry_tiering\('[^']*'\)")
_RESUME = re.compile(r"CALL \w+\.sys\.resume_tiering\('[^']*'\)")
_RENAME = re.compile(r"ALTER TABLE \S+ RENAME TO \S+")


class OnCall:
    """`follow` is all of it."""

    def __init__(self, deployment: Deployment, users: Users) -> None:
        self._world, self._users = deployment, users

    def follow(self, record: TableRecord) -> bool:
        """Looks, and runs what is named then. False: nothing is, though the table still waits for a person; its hint may say more."""
        world = self._world
        try:
            world.coordinator.repair_inspector.inspect_all()
        except SimulatedDeath:
            world.coordinator_died()
            return True
        except PanicException:
            return True
        latest = world.coordinator.table_records.get(record.table_id)
        statement = None if latest is None else next_action(latest, NAMES)
        if latest is None or statement is None:
            return latest not in self._users.failed_for_good()
        world.outcomes["next actions"] += 1
        if _RETRY.fullmatch(statement):
            self._users.perform(lambda: retry_tiering(world.coordinator.call_parts, RetryTiering(latest.path, caller="ann")))
        elif _RESUME.fullmatch(statement):
            self._users.perform(lambda: resume_tiering(world.coordinator.call_parts, ResumeTiering(latest.path, None, caller="ann")))
        elif _RENAME.fullmatch(statement):
            self._users.rename_lake_table(latest.path)
        else:
            self._reconcile(latest, statement)
        return True

    def _reconcile(self, record: TableRecord, statement: str) -> None:
        """Checks that the reconciliation succeeds and leaves nothing out, unless another change came between."""
        match = _RECONCILE.fullmatch(statement)
        assert match is not None, f"no procedure runs {statement}"
        assert match["table"] == str(record.path)
        try:
            result = self._users.reconcile(record.path, match["action"])
        except SimulatedDeath:
            self._world.coordinator_died()
        except PanicException:
            self._world.outcomes["call panicked"] += 1
        except CannotReconcile:
            self._world.outcomes["next action refused"] += 1
        except LakewardError as refused:
            self._world.outcomes[f"call {refused.error_class}"] += 1
        else:
            assert result.outcome != "reconciled" or result.records_left_out == 0, f"{statement} leaves {result.records_left_out} out"
