"""Statements and advice for the hints of errors about lake tables. Pure.

A hint names only things that exist. A user who follows it ends the error.
"""

from __future__ import annotations

from tiering.errors import LakeTableReplaced
from tiering.lake.base import LakeView
from tiering.model.tables import TablePath


def reconcile_call(path: TablePath | None, action: str) -> str:
    """Returns the statement `CALL sys.reconcile_lake('db.t', 'retier')`."""
    return f"CALL sys.reconcile_lake('{path or '<table>'}', '{action}')"


def accept_hint(path: TablePath | None) -> str:
    """Returns the advice for a table whose rows carry no offsets."""
    return f"{reconcile_call(path, 'accept')} continues from the recorded offsets and reads no row."


def adopt_hint(path: TablePath) -> str:
    """Returns the advice for a lake table with rows that no tiering service wrote."""
    return (
        f"Did another pipeline write the same records? CALL sys.adopt_table('{path}', lake_table => '{path}', offsets => map('0', ...)) "
        "compares its rows with the log, and rounds continue behind them."
    )


def tier_call(path: TablePath | None) -> str:
    """Returns the statement `CALL sys.tier_table('db.t')`."""
    return f"CALL sys.tier_table('{path or '<table>'}')"


PARQUET_PROPERTIES = ("write.format.default", "write.delete.format.default")
"""Properties of an Iceberg table that name the format of the files that engines write."""


def rewrite_call(path: TablePath | None, catalog: str = "<lake catalog>") -> str:
    """Returns the statement that rewrites all files of an Iceberg table with its present partition spec and format.

    `rewrite-all` includes files of any size. `remove-dangling-deletes` removes delete files that no longer apply to any file: those of
    another partition spec, and those older than the new files. The new files therefore get the sequence number of their own commit
    (`use-starting-sequence-number` is false).
    """
    options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true', 'use-starting-sequence-number', 'false')"
    return f"CALL {catalog}.system.rewrite_data_files(table => '{path or '<table>'}', options => {options})"


def new_table_hint(path: TablePath | None) -> str:
    """Returns the advice that helps against every error: tier to a new lake table, and keep the present one under another name."""
    return (
        f"Rename or drop the lake table {path or ''} in the lake's catalog, then {reconcile_call(path, 'retier')}: Lakeward creates a new "
        "lake table and fills it with what KV snapshots and the log still hold. Only the former lake table has rows of dropped partitions."
    )


def keeping_table_hint(path: TablePath | None) -> str:
    """Returns the advice for a lake table that may hold the only copy of rows of a dropped partition: keep it under another name."""
    return (
        f"Rename the lake table {path or ''} in the lake's catalog, which keeps all of its rows, also those of dropped partitions, then "
        f"{reconcile_call(path, 'retier')}: Lakeward creates a new lake table and fills it with what KV snapshots and the log still hold."
    )


def absent_hint(path: TablePath | None) -> str:
    """Returns the advice for a lake table that no longer exists."""
    return (
        f"Restore it in the lake's catalog, then {tier_call(path)}. Or let Lakeward create a new lake table and fill it with what KV "
        f"snapshots and the log still hold: {reconcile_call(path, 'retier')}."
    )


def absent_table(path: TablePath) -> LakeTableReplaced:
    """Returns the error for a lake table that was tiered to and no longer exists."""
    return LakeTableReplaced(f"there is no lake table {path}", hint=absent_hint(path), table_path=path)


def replaced_hint(path: TablePath | None) -> str:
    """Returns the advice for a lake table that was replaced by another one, before the rows of the other one were read."""
    return (
        f"Put the former lake table back in its place, then {tier_call(path)}. Or keep the one that is there now: "
        f"{reconcile_call(path, 'retier')}."
    )


def newest_tiering_commit(view: LakeView) -> str:
    """Returns a clause that says how the format finds that commit: `the tag lakeward-tiered names snapshot 5`."""
    if view.reference is None:
        return f"its newest tiering commit is snapshot {view.tiered}"
    return f"the {view.reference} names snapshot {view.tiered}"


def set_head_back(view: LakeView, snapshot: str) -> str:
    """Returns a clause that tells a user to set the main branch on a former snapshot."""
    command = "" if view.set_head_command is None else f" ({view.set_head_command})"
    return f"Set the main branch on {snapshot}{command}"


def is_empty(view: LakeView | None) -> bool:
    """Whether readers see no row. A lake that cannot count its rows is taken for one with rows."""
    return view is None or view.head is None or view.records == 0


def continue_hint(view: LakeView, retier: str = "from the rows it holds", accept: str = "from the recorded offsets") -> str:
    """Returns the advice to keep the lake table as it is. For an empty table it leaves out `accept`, which would lose all tiered rows."""
    hint = f"{reconcile_call(view.path, 'retier')} ({retier})"
    if is_empty(view):
        return hint + "."
    return (
        f"{hint}, or {reconcile_call(view.path, 'accept')} ({accept}; the column records_left_out says how many records that leaves out)."
    )
