"""Selects the rewrites that still fit the snapshot on which a commit builds. Other tools may have changed the table since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from tiering.lake.iceberg.commit.staging import FileChanges
from tiering.lake.iceberg.primary_key.bucket_files import live_entries, partition_of
from tiering.lake.iceberg.schema.partition_values import PartitionValue
from tiering.lake.iceberg.writing.data_files import FilesPayload


@dataclass
class _LiveFiles:
    """The live files of a snapshot. `data` and `equality`: partition value and sequence number of each data file and equality delete.

    `deletes`: by partition value of the present spec. `has_global`: some deletes of a former spec apply to all files.
    """

    data: dict[str, tuple[PartitionValue, int]] = field(default_factory=dict)
    equality: dict[str, tuple[PartitionValue, int]] = field(default_factory=dict)
    deletes: dict[PartitionValue, set[str]] = field(default_factory=lambda: defaultdict(set))
    has_global: bool = False


@dataclass(frozen=True)
class FittingRewrites:
    """The rewrites to commit, by their numbers. `obsolete` are all files to remove with them: the old data files, and delete files that
    name only these."""

    rewrites: Mapping[int, FilesPayload] = field(default_factory=dict)
    obsolete: frozenset[str] = frozenset()

    @property
    def kept(self) -> Collection[int]:
        """The numbers of the rewrites that are committed."""
        return self.rewrites.keys()

    def changes(self, table: Table) -> FileChanges | None:
        """Returns the changes of the table's files; None if there are none."""
        if not self.rewrites:
            return None
        files = [file for payload in self.rewrites.values() for file in payload.files]
        return FileChanges(files, table.metadata.default_spec_id, (), self.obsolete)


def fitting_rewrites(table: Table, head: int | None, rewrites: Mapping[int, FilesPayload]) -> FittingRewrites:
    """Returns the rewrites whose old files are all live in the snapshot `head`, and whose partition has just the delete files that they
    applied.

    Otherwise a row that was deleted since would reappear. The new files must have the table's present columns and spec.
    """
    if not rewrites or head is None or table.metadata.snapshot_by_id(head) is None:
        return FittingRewrites()
    written_here = {payload.change.base_snapshot_id for payload in rewrites.values() if payload.change is not None} == {head}
    if written_here and not any(payload.deletes for payload in rewrites.values()):
        return _with_obsolete(rewrites, None)
    live = _live(table, head)
    metadata = table.metadata
    present = (metadata.current_schema_id, metadata.default_spec_id)
    fitting = {
        number: payload for number, payload in rewrites.items() if _fits(payload, live) and (payload.schema_id, payload.spec_id) == present
    }
    return _with_obsolete(fitting, live)


def _live(table: Table, head: int) -> _LiveFiles:
    live = _LiveFiles()
    for entry in live_entries(table, head):
        file = entry.data_file
        partition, sequence_number = partition_of(file), entry.sequence_number or 0
        if file.content is DataFileContent.DATA:
            live.data[file.file_path] = partition, sequence_number
        elif file.spec_id == table.metadata.default_spec_id:
            live.deletes[partition].add(file.file_path)
            if file.content is DataFileContent.EQUALITY_DELETES:
                live.equality[file.file_path] = partition, sequence_number
        elif file.content is DataFileContent.EQUALITY_DELETES and not table.specs()[file.spec_id].fields:
            live.has_global = True
    return live


def _fits(payload: FilesPayload, live: _LiveFiles) -> bool:
    change = payload.change
    if change is None or live.has_global or not live.data.keys() >= set(change.obsolete):
        return False
    return live.deletes.get(change.partition, set()) == set(payload.deletes)


def _with_obsolete(rewrites: Mapping[int, FilesPayload], live: _LiveFiles | None) -> FittingRewrites:
    """Adds the obsolete files. `live` None: none of the rewrites applies a delete file."""
    replaced = {location for payload in rewrites.values() if payload.change is not None for location in payload.change.obsolete}
    deletes = {location: names for payload in rewrites.values() for location, names in payload.deletes.items()}
    remaining = {} if live is None else {location: place for location, place in live.data.items() if location not in replaced}
    oldest: dict[PartitionValue, int] = {}
    for partition, sequence_number in remaining.values():
        oldest[partition] = min(sequence_number, oldest.get(partition, sequence_number))
    equality = {} if live is None else live.equality
    applied = {location for location, names in deletes.items() if location not in equality and remaining.keys().isdisjoint(names)}
    for location in deletes.keys() & equality.keys():
        partition, sequence_number = equality[location]
        if oldest.get(partition, sequence_number) >= sequence_number:  # it applies to no remaining data file
            applied.add(location)
    return FittingRewrites(rewrites, frozenset(replaced | applied))
