"""Users change lake tables beside Lakeward: with pyiceberg, and in the way in which Paimon's own commands change files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from faults.random_users.kept_deployment import KeptDeployment
from faults.random_users.model import Row, Table
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from support.lake_kinds.by_hand import LakeByHand, lake_by_hand

ACTIONS = ("compact", "delete rows", "roll back", "rename", "drop", "expire", "empty")
_HARMLESS = frozenset({"compact", "delete rows"})
_REWRITES = frozenset({"compact", "delete rows", "empty"})
_AT_ONCE_IN_ICEBERG = frozenset({"rename", "drop", "roll back", "expire"})
_AT_ONCE_IN_PAIMON = frozenset({"rename", "drop"})
_LOST_RACES = (CommitFailedException, NoSuchTableError, OSError, json.JSONDecodeError)
"""A round was quicker than the user; it is the user's command that fails."""


class LakeUsers:
    """Neither pyiceberg nor the commands that work on files look twice, so that much is to be done while no round of the table runs."""

    def __init__(self, deployment: KeptDeployment, tables: Mapping[str, Table]) -> None:
        self._deployment = deployment
        self._tables = tables
        self._number = 0

    def by_hand(self, table: Table) -> LakeByHand:
        return lake_by_hand(table.kind.format, self._deployment.data.lake_properties)

    def rows(self, table: Table) -> list[Row]:
        """Rows that readers see; none without a table."""
        by_hand = self.by_hand(table)
        rows: list[Row] = by_hand.rows(table.path).to_pylist() if by_hand.exists(table.path) else []
        return rows

    def needs_quiet(self, table: Table, action: str) -> bool:
        """Returns whether only a careless user would do it while rounds of the table run: the action reads before it writes, and writes in
        steps."""
        return action not in (_AT_ONCE_IN_PAIMON if table.kind.format == "paimon" else _AT_ONCE_IN_ICEBERG)

    def change(self, table: Table, action: str, number: int) -> str:
        """Does it if it can be done; says what became of it."""
        by_hand, path = self.by_hand(table), table.path
        if not by_hand.exists(path):
            return "there is no lake table"
        try:
            former = by_hand.line(path)
            if not former:
                return "the lake table is empty"
            table.is_harmed |= action not in _HARMLESS
            self._act(table, action, number, former)
        except _LOST_RACES as error:
            if action not in _AT_ONCE_IN_PAIMON:
                table.is_harmed = table.is_unsure = True
            return f"failed: {error!r}"
        if action in _REWRITES and self._was_overtaken(table, former[-1]):
            table.is_unsure = True
            return "done, and a round committed meanwhile"
        return "done"

    def _act(self, table: Table, action: str, number: int, former: Sequence[int]) -> None:
        by_hand, path = self.by_hand(table), table.path
        match action:
            case "compact":
                by_hand.rewrite(path)
            case "delete rows":
                self._delete(table, number)
            case "roll back" if len(former) > 1:
                by_hand.roll_back(path, former[-2])
            case "rename":
                by_hand.rename(path, self._former_name(table))
            case "drop":
                by_hand.drop(path)
            case "expire":
                by_hand.expire(path)
            case "empty":
                self._empty(table)

    def _delete(self, table: Table, number: int) -> None:
        """All rows of one id; not the last one."""
        ids = sorted({row["id"] for row in self.rows(table)})
        if len(ids) > 1:
            self.remove(table, ids[number % len(ids)])

    def remove(self, table: Table, identity: int) -> None:
        """All rows of this id."""
        self.by_hand(table).delete(table.path, "id", identity)
        table.removed += [row for row in table.former if row["id"] == identity]

    def _empty(self, table: Table) -> None:
        rows = self.rows(table)  # a round that commits meanwhile makes the table one that is unsure
        self.by_hand(table).empty(table.path)
        table.removed += rows

    def _former_name(self, table: Table) -> str:
        self._number += 1
        return f"{table.path.table_name}_by_hand_{self._number}"

    def _was_overtaken(self, table: Table, former_head: int) -> bool:
        """Whether a round committed between the user's look and the user's commit."""
        line = self.by_hand(table).line(table.path)
        return former_head not in line or len(line) - line.index(former_head) > 3

    def set_snapshot(self, table: Table, snapshot_id: int) -> None:
        """`CALL lake.system.set_current_snapshot`, which Iceberg alone has."""
        loaded = load_catalog("lake", **self._deployment.data.lake_properties).load_table(str(table.path))
        loaded.manage_snapshots().set_current_snapshot(snapshot_id).commit()
