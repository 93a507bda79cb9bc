"""Which rewrites of files still fit the snapshot that a commit builds on: other tools may have changed the table since they were made."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table

from tiering.lake.iceberg.primary_key.file_check import is_live
from tiering.lake.iceberg.writing.data_files import FilesPayload


def fitting_rewrites(table: Table, head: int | None, rewrites: Sequence[FilesPayload]) -> list[FilesPayload]:
    """Those of `rewrites` whose old files are all live in the snapshot `head`, while no row of the table is deleted.

    A row of an old file that was deleted would come back with the new file. The new files have the table's present columns and spec.
    """
    metadata = table.metadata
    snapshot = None if head is None else metadata.snapshot_by_id(head)
    if snapshot is None or not rewrites:
        return []
    if {payload.change.base_snapshot_id for payload in rewrites if payload.change is not None} == {head}:
        return list(rewrites)  # they were made from this very snapshot
    live: set[str] = set()
    for manifest in snapshot.manifests(table.io):
        if not is_live(manifest):
            continue
        if manifest.content is ManifestContent.DELETES:
            return []
        live.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    present = (metadata.current_schema_id, metadata.default_spec_id)
    return [
        payload
        for payload in rewrites
        if payload.change is not None and live.issuperset(payload.change.obsolete) and (payload.schema_id, payload.spec_id) == present
    ]
