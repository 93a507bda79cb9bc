"""Statements and advice for the hints of errors about lake tables. Each names only what exists, and following it ends the error. Pure."""

from __future__ import annotations

from tiering.errors import LakeTableReplaced
from tiering.lake.base import LakeView
from tiering.model.tables import TablePath


def reconcile_call(path: TablePath | None, action: str) -> str:
    """`CALL sys.reconcile_lake('db.t', 'retier')`, as it is typed."""
    return f"CALL sys.reconcile_lake('{path or '<table>'}', '{action}')"


def accept_hint(path: TablePath | None) -> str:
    """Advice where rows tell no offsets."""
    return f"{reconcile_call(path, 'accept')} goes on from what was recorded, and looks at no row."


def tier_call(path: TablePath | None) -> str:
    """`CALL sys.tier_table('db.t')`, as it is typed."""
    return f"CALL sys.tier_table('{path or '<table>'}')"


PARQUET_PROPERTIES = ("write.format.default", "write.delete.format.default")
"""Properties of an Iceberg table that name the format of the files which engines write."""


def rewrite_call(path: TablePath | None, catalog: str = "<lake catalog>") -> str:
    """The statement that rewrites all files of an Iceberg table with its present partition spec and format, as it is typed.

    `rewrite-all` takes files of any size. `remove-dangling-deletes` removes delete files that apply to no file any more: those in another
    partition spec, or older than the new files, which therefore get the sequence number of their commit (`use-starting-sequence-number`).
    """
    options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true', 'use-starting-sequence-number', 'false')"
    return f"CALL {catalog}.system.rewrite_data_files(table => '{path or '<table>'}', options => {options})"


def new_table_hint(path: TablePath | None) -> str:
    """Advice that helps against every error: tier to a new lake table; the present one keeps its rows under another name."""
    return (
        f"Rename or drop the lake table {path or ''} in the lake's catalog, then {reconcile_call(path, 'retier')}: a new one is made and "
        "filled from what KV snapshots and log still hold. Rows of dropped partitions are in the former one alone."
    )


def keeping_table_hint(path: TablePath | None) -> str:
    """Advice where the lake table may hold the only copy of rows, those of a former partition: they stay under another name."""
    return (
        f"Rename the lake table {path or ''} in the lake's catalog, which keeps all of its rows, those of former partitions too, then "
        f"{reconcile_call(path, 'retier')}: a new one is made and filled from what KV snapshots and log still hold."
    )


def absent_hint(path: TablePath | None) -> str:
    """Advice where the lake table that was tiered to is gone."""
    return (
        f"Bring it back into the lake's catalog, then {tier_call(path)}. Or have a new one made, filled from what KV snapshots and log "
        f"still hold: {reconcile_call(path, 'retier')}."
    )


def absent_table(path: TablePath) -> LakeTableReplaced:
    """The error of whoever needs the lake table that was tiered to, and finds none."""
    return LakeTableReplaced(f"there is no lake table {path}", hint=absent_hint(path), table_path=path)


def replaced_hint(path: TablePath | None) -> str:
    """Advice where another lake table stands in the place of the one that was tiered to, and nobody looked at what it holds."""
    return (
        f"Put the former lake table back in its place, then {tier_call(path)}. Or go on with the one that is there now: "
        f"{reconcile_call(path, 'retier')}."
    )


def newest_tiering_commit(view: LakeView) -> str:
    """How the format knows it: `the tag lakeward-tiered names snapshot 5`, as a sentence without its end."""
    if view.reference is None:
        return f"its newest tiering commit is snapshot {view.tiered}"
    return f"the {view.reference} names snapshot {view.tiered}"


def set_head_back(view: LakeView, snapshot: str) -> str:
    """What a user does to set the main branch on a former snapshot, as a sentence without its end."""
    command = "" if view.set_head_command is None else f" ({view.set_head_command})"
    return f"Set the main branch on {snapshot}{command}"


def set_reference(view: LakeView, snapshot: str) -> str:
    """`Set the tag lakeward-tiered on snapshot 5, then CALL sys.tier_table('db.t'). Or `; empty without such a reference."""
    return "" if view.reference is None else f"Set the {view.reference} on {snapshot}, then {tier_call(view.path)}. Or "


def is_empty(view: LakeView | None) -> bool:
    """Whether readers see no row. A lake that cannot tell counts as one with rows."""
    return view is None or view.head is None or view.records == 0


def go_on_hint(view: LakeView, path: TablePath, retier: str, accept: str) -> str:
    """Advice to go on with the lake table as it is. Of an empty one without `accept`, by which all tiered rows would stay out of it."""
    hint = f"{reconcile_call(path, 'retier')} ({retier})"
    if is_empty(view):
        return hint + "."
    return f"{hint}, or {reconcile_call(path, 'accept')} ({accept}; the column records_left_out says how many records that leaves out)."
