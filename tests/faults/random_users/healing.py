"""After a story: what is printed is done until nothing is left to do; then lake, proof and model agree."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from datetime import UTC, datetime

from faults.random_users.command_line import lakeward
from faults.random_users.model import Table
from faults.random_users.users import Users

from support.running.commands import Ended
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.model.status import TableStatus
from tiering.model.tables import TablePath

HEAL_SECONDS = 120
LOOK_SECONDS = 0.3
PERSON_SECONDS = 15
"""Seconds without a named statement, after which a person chooses one from the hint."""
WAY_OUT_SECONDS = 12
"""By then the coordinator has looked whether what it named was done: it does so every five."""
REPEATS = 3
"""Repetitions of one statement for one table; more are a cycle."""
_CALL = re.compile(r"CALL (?:fluss\.)?sys\.(?P<procedure>\w+)\('(?P<table>[\w.]+)'(?:, '(?P<action>\w+)')?\)")
_RENAME_TABLE = re.compile(r"ALTER TABLE lake\.(?P<database>\w+)\.(?P<table>\w+) RENAME TO (?P<name>\w+)")
_RENAME_BY_HAND = re.compile(r"Rename or drop the lake table \S+ in the lake's catalog")
_SET_SNAPSHOT = re.compile(r"CALL lake\.system\.set_current_snapshot\('(?P<table>[\w.]+)', (?P<snapshot>\d+)\)")
_COMMANDS = {"resume_tiering": "resume", "retry_tiering": "retry", "tier_table": "tier"}


class Healing:
    """See the module."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._ran: Counter[tuple[str, str]] = Counter()
        self._ran_at: dict[tuple[str, str], float] = {}
        self._failed_since: dict[str, float] = {}

    def heal(self) -> None:
        """Returns when all that is in a log is in its lake table, and a sweep went over them; fails when that does not come about."""
        users = self._users
        users.deployment.settle()
        users.note("the end begins")
        for table in users.tables.values():
            users.do("set-option", str(table.path), "table.datalake.enabled=true")
            users.do("resume", str(table.path))
        begun, end = datetime.now(UTC), time.monotonic() + HEAL_SECONDS
        while unsettled := [status for status in users.statuses() if not self._is_settled(status, begun)]:
            assert time.monotonic() < end, [self._line(status) for status in unsettled]
            for status in unsettled:
                if status.table_name in users.tables:  # one that was just dropped may still be listed
                    self._help(users.tables[status.table_name], status)
            time.sleep(LOOK_SECONDS)  # between two looks at a service
        assert {status.table_name for status in users.statuses()} == set(users.tables)
        users.sweep(None, dry_run=False)

    @staticmethod
    def _is_settled(status: TableStatus, begun: datetime) -> bool:
        is_observed = status.offsets_observed_time is not None and status.offsets_observed_time > begun
        return is_observed and status.status == "Scheduled" and status.pending_records == 0 and status.last_error is None

    @staticmethod
    def _line(status: TableStatus) -> str:
        return (
            f"{status.table_name} {status.status} ({status.status_reason}), {status.pending_records} pending, {status.error_class}: "
            f"{status.last_error} [{status.error_hint}] -> {status.next_action}"
        )

    def _help(self, table: Table, status: TableStatus) -> None:
        """One thing, the one that is named."""
        name = status.table_name
        if status.next_action is not None:
            self._failed_since.pop(name, None)
            self._run(table, status.next_action, status)
        elif status.status == "Failed" and status.error_retryable:
            self._users.run("retry", str(table.path))
        elif status.status == "Failed" and time.monotonic() > self._failed_since.setdefault(name, time.monotonic()) + PERSON_SECONDS:
            del self._failed_since[name]
            self._choose(table, status)

    def _choose(self, table: Table, status: TableStatus) -> None:
        """A person does what a hint has: a new lake table if it offers one, which helps against everything, else the first thing."""
        hint = status.error_hint or ""
        rename = _RENAME_BY_HAND.search(hint)
        call = _CALL.search(hint, 0 if rename is None else rename.end())
        assert call is not None, f"nothing to do: {self._line(status)}"
        if rename is not None and self._users.lake.by_hand(table).exists(table.path):
            self._rename(table, f"{table.path.table_name}_hinted_{self._users.number()}")
        self._run(table, call[0], status)

    def _run(self, table: Table, statement: str, status: TableStatus) -> None:
        step = (table.path.table_name, statement)
        if time.monotonic() < self._ran_at.get(step, -WAY_OUT_SECONDS) + WAY_OUT_SECONDS:
            return
        self._users.note(f"{self._line(status)}")
        self._ran_at[step] = time.monotonic()
        self._ran[step] += 1
        times = self._ran[step]
        assert times <= REPEATS, f"the statements go in a circle: {self._line(status)}"
        if (rename := _RENAME_TABLE.fullmatch(statement)) is not None:
            assert TablePath(rename["database"], rename["table"]) == table.path
            self._rename(table, rename["name"])
        elif (snapshot := _SET_SNAPSHOT.fullmatch(statement)) is not None:
            self._users.lake.set_snapshot(table, int(snapshot["snapshot"]))
        else:
            self._call(table, statement)

    def _rename(self, table: Table, name: str) -> None:
        self._users.note(f"in the lake: renames {table.path} to {name}")
        self._users.lake.by_hand(table).rename(table.path, name)

    def _call(self, table: Table, statement: str) -> None:
        call = _CALL.fullmatch(statement)
        assert call is not None, f"there is no way to run {statement}"
        assert call["table"] == str(table.path)
        if call["procedure"] == "reconcile_lake":
            self._users.reconcile(table, call["action"], dry_run=False)
        else:
            self._users.run(_COMMANDS[call["procedure"]], str(table.path))


def prove(users: Users) -> None:
    """Each table: what readers see, what the service's proof says, and of the first table what one without a service says."""
    differences: list[str] = []
    for place, table in enumerate(users.tables.values()):
        differences += table.differences(users.lake.rows(table))
        words = ("validate", str(table.path), "--level", "rows", "--format", "json")
        differences += _wrong(table, users.run(*words), "the service")
        if place == 0:  # it takes seconds, and is the same proof
            differences += _wrong(table, lakeward(*words, "--data", str(users.deployment.data.root)), "validate --data")
    assert not differences, "\n".join(differences)
    assert not users.deployment.defects, users.deployment.defects
    assert not (failures := users.deployment.failures_in_logs()), "\n".join(failures)


def _wrong(table: Table, ended: Ended, prover: str) -> list[str]:
    """Returns the differences that the proof finds and should not find."""
    if ended.status == ExitStatus.DONE or table.is_unsure or table.removed or table.left_out != 0:
        return []
    if not table.former and "no lake table" in ended.err:
        return []
    rows = [row for row in json.loads(ended.out) if row["ok"] is False] if ended.out.startswith("[") else []
    return [f"{table.path}: {prover} says {ended.status}: {rows or ended.err}"]
