"""Commits one round's write results as one snapshot, by one request (DESIGN 6 step 7).

The request is `Catalog.commit_table` with explicit requirements. pyiceberg's transactions are not used to commit. They retry
(`commit.retry.*`), which rebases a stale writer, and they clean up, which can delete the manifests of a commit that landed.
`SqlCatalog.commit_table` sends one conditional UPDATE. `RestCatalog.commit_table` repeats a request only after an answer of 401 or 419,
which replaced the commit, and under the same requirements.

After the request was sent, every error means that the outcome is unknown: only the lake can tell it. Nothing is deleted from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import cast

import structlog
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tiering.clock import Clock
from tiering.errors import SchemaDrift
from tiering.instants import to_milliseconds
from tiering.lake.base import NO_PROPERTIES, Committable, LakeView
from tiering.lake.iceberg.commit.marker_files import marker_path, write_marker_file
from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager, StagedSnapshot
from tiering.lake.iceberg.commit.upkeep import Upkeep, UpkeepPauses, upkeep_of
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import replaced_partitions
from tiering.lake.iceberg.schema.columns import recorded_ids
from tiering.lake.iceberg.schema.drift import check_written, drift
from tiering.lake.iceberg.schema.layout import recorded_spec
from tiering.lake.iceberg.upkeep.live_files import FittingRewrites, fitting_rewrites
from tiering.lake.iceberg.writing.data_files import FilesPayload, decode_files
from tiering.lake.marker import PATH_KEY, Marker, encode
from tiering.lake.outside_errors import describe
from tiering.lake.rules.commit_check import check_committable, check_none_missing, check_target, outcome_unknown, upkeep_stats
from tiering.lake.rules.hints import tier_call
from tiering.lake.writing.sent_rounds import SentRounds
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepStats

_log = structlog.get_logger(__name__)

STAT_THREADS = 16


class IcebergCommitter:
    """A `LakeCommitter`. All committers of a process share `sent`. `clock` gives the commit times of snapshots."""

    def __init__(self, catalog: Catalog, io: FileIO, sent: SentRounds, clock: Clock, table: TableInfo, pauses: UpkeepPauses) -> None:
        self._clock = clock
        self._catalog = catalog
        self._io = io
        self._sent = sent
        self._table = table
        self._pauses = pauses
        self.last_upkeep: UpkeepStats | None = None
        """The upkeep of the newest request (`CommitUpkeep.last_upkeep`)."""

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        """Sends one compare-and-set on uuid, head and tag of `base`, once. Returns the new snapshot's id.

        Raises CommitOutcomeUnknown after any error of the request. Before the request it raises LakeTableReplaced, Fenced, BaseMoved,
        RoundFailed, SchemaDrift or LakeUnavailable: then nothing can have landed.
        """
        check_committable(committable, base, marker)
        table = cast(Table, base.handle)
        payloads = _payloads(committable)
        files, spec_id = self._new_files(committable, payloads, base, table)
        changes = [payload.change for payload in payloads if payload.change is not None]
        replaced = replaced_partitions(changes, base, table)
        obsolete = frozenset(location for change in changes for location in change.obsolete)
        merging = self._merging(committable, base, table)
        order = FileChanges(files, spec_id, replaced, obsolete), merging.changes(table)
        merges_all = committable.order is not None and committable.order.manifests
        staged = self._stage(table, base, marker, *order, properties, all_manifests=merges_all)
        upkeep = self._upkeep_beside(committable, base, table)
        self.last_upkeep = upkeep_stats(committable, sorted(merging.kept), len(upkeep.removed), staged.manifests, staged.rewritten)
        self._sent.add(committable.round_id)
        try:
            self._catalog.commit_table(table, (*staged.requirements, *upkeep.requirements), (*staged.updates, *upkeep.updates))
        except BaseException as error:  # after any error the request may have landed
            if upkeep.updates:
                self._pauses.begin(base, error)
            raise outcome_unknown(marker.round_id, base, staged.snapshot_id, error) from error
        if upkeep.removed:
            self._pauses.removed(base)
        return staged.snapshot_id

    def abort(self, committable: Committable) -> None:
        """Deletes the files of a committable for which no request was ever sent. Never raises.

        If this process sent a request for the round, it deletes nothing.
        """
        if self._sent.has(committable.round_id):
            return
        self._delete(file.file_path for file in _files([*_payloads(committable), *_rewrites(committable)]))

    def _merging(self, committable: Committable, base: LakeView, table: Table) -> FittingRewrites:
        """Returns those rewrites of the committable that fit `base`. A rewrite never delays the rows of a round."""
        rewrites = {number: payload for number, payload in enumerate(_rewrites(committable)) if payload.lake_table_uuid == base.table_uuid}
        with lake_errors(f"read the manifests of {base.path}", table_path=base.path):
            present = {number: payload for number, payload in rewrites.items() if not self._missing(base, payload.files)}
            return fitting_rewrites(table, base.head, present)

    def _stage(
        self,
        table: Table,
        base: LakeView,
        marker: Marker,
        changes: FileChanges,
        merged: FileChanges | None,
        properties: Mapping[str, str],
        *,
        all_manifests: bool,
    ) -> StagedSnapshot:
        stager = SnapshotStager(table, base, marker.round_id, self._clock, all_manifests=all_manifests)
        try:
            with lake_errors(f"prepare the commit of {base.path}", table_path=base.path, round_id=marker.round_id):
                return stager.stage(changes, {**properties, **self._marker_properties(table, marker, stager)}, merged)
        except BaseException:
            self._delete(stager.files)  # files of this attempt only, for which no request was sent
            raise

    def _upkeep_beside(self, committable: Committable, base: LakeView, table: Table) -> Upkeep:
        """Returns the upkeep in the request. A repeated request has none, so that upkeep never prevents a round's commit."""
        if self._sent.has(committable.round_id):
            return Upkeep()
        try:
            order = None if committable.order is None else committable.order.expiry
            return upkeep_of(self._catalog, self._table, table, base, self._pauses, to_milliseconds(self._clock.now()), order)
        except Exception as error:
            _log.warning("a commit goes without upkeep of its table", table=str(base.path), error=describe(error))
            return Upkeep()

    def _marker_properties(self, table: Table, marker: Marker, stager: SnapshotStager) -> dict[str, str]:
        encoded = encode(marker)
        if encoded.overflow is None:
            return encoded.properties
        path = marker_path(table, self._catalog.properties.get("warehouse"), stager.commit_id)
        stager.files.append(path)
        write_marker_file(self._io, path, encoded.overflow)
        return {**encoded.properties, PATH_KEY: path}

    def _new_files(
        self, committable: Committable, payloads: Sequence[FilesPayload], base: LakeView, table: Table
    ) -> tuple[list[DataFile], int]:
        """Returns the files to add and the partition spec for which they were written. Checks that all of them still exist."""
        check_target(committable.round_id, (payload.lake_table_uuid for payload in payloads), base)
        present = table.metadata.default_spec_id
        spec_id, *others = {payload.spec_id for payload in payloads} or {present}
        # Files of a former spec may be added (spec, "Partition Evolution"). Lakeward changes the spec when the source's option changes.
        is_former = recorded_spec(table.metadata.properties) == present and spec_id in table.metadata.specs()
        if others or not (spec_id == present or is_former):
            raise SchemaDrift(
                f"the partition spec of the lake table {base.path} was changed while round {committable.round_id} wrote its files",
                hint=f"Restore the former spec, then {tier_call(base.path)}. The rows stay in the log until then.",
                table_path=base.path,
            )
        self._check_schema(payloads, base, table)
        files = list(_files(payloads))
        check_none_missing(committable.round_id, base, self._missing(base, files))
        return files, spec_id

    def _check_schema(self, payloads: Sequence[FilesPayload], base: LakeView, table: Table) -> None:
        """Raises SchemaDrift if a user changed the table's columns since the files were begun, so that they no longer fit."""
        recorded = recorded_ids(table.metadata.properties)
        if recorded is not None and recorded.schema_id == table.metadata.current_schema_id:
            return
        schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
        for schema_id in {payload.schema_id for payload in payloads} - {table.metadata.current_schema_id}:
            if schema_id not in schemas:
                raise drift(
                    base.path, None, f"got another schema while a round wrote files for its schema {schema_id}, which no longer exists"
                )
            check_written(base.path, schemas[schema_id], table.schema())

    def _missing(self, base: LakeView, files: Sequence[DataFile]) -> list[str]:
        """Returns the locations of those `files` that are gone or have another size."""

        def wrong(file: DataFile) -> bool:
            entry = self._io.new_input(file.file_path)
            return not entry.exists() or len(entry) != file.file_size_in_bytes

        with (
            lake_errors(f"check the new files of {base.path}", table_path=base.path),
            ThreadPoolExecutor(min(STAT_THREADS, len(files) or 1)) as pool,
        ):
            return [file.file_path for file, is_wrong in zip(files, pool.map(wrong, files), strict=True) if is_wrong]

    def _delete(self, locations: Iterable[str]) -> None:
        for location in locations:
            with suppress(Exception):  # the sweep deletes it later
                self._io.delete(location)


def _payloads(committable: Committable) -> list[FilesPayload]:
    return [decode_files(result.payload) for result in committable.results]


def _rewrites(committable: Committable) -> list[FilesPayload]:
    return [decode_files(rewrite.payload) for rewrite in committable.rewrites]


def _files(payloads: Iterable[FilesPayload]) -> Iterable[DataFile]:
    return (file for payload in payloads for file in payload.files)
