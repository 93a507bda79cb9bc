"""One round's write results become one snapshot of a Paimon table, by one request (DESIGN 6 step 7).

pypaimon's own commit is not used: it retries on a new base, so that a stale writer succeeds, and a replay commits twice. Here the
snapshot is number base + 1 or none. After the request was sent every error means "unknown": only the lake can tell. Nothing is
deleted from then on.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import PurePath
from typing import Any, cast

from tiering.clock import Clock, SystemClock
from tiering.errors import BaseMoved, CommitOutcomeUnknown, LakeTableReplaced, RoundFailed
from tiering.instants import to_milliseconds
from tiering.lake.base import FLUSS_COMMIT_USER_KEY, NO_PROPERTIES, Committable, LakeView
from tiering.lake.marker import PATH_KEY, Marker, encode
from tiering.lake.outside_errors import describe
from tiering.lake.paimon.commit.manifests import BucketState, ManifestLists, Manifests
from tiering.lake.paimon.commit.publishing import is_kept, keep_from_expiry, publish
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.reading.marker_files import write_marker_file
from tiering.lake.paimon.reading.snapshots import BASE_DIGEST_KEY
from tiering.lake.paimon.schema.drift import check_written, drift
from tiering.lake.paimon.schema.stored_schema import read_schema
from tiering.lake.paimon.storage.base import MANIFEST, SNAPSHOT, Storage
from tiering.lake.paimon.storage.local import LOCAL
from tiering.lake.paimon.writing.payload import FilesPayload, decode_files
from tiering.lake.rules.commit_check import check_committable
from tiering.lake.rules.hints import replaced_hint
from tiering.lake.writing.sent_rounds import SentRounds

Publisher = Callable[[LoadedTable, int, bytes], None]

COMMIT_USER = "lakeward"
"""Where the cluster asks for no other one, as Fluss does."""
COMMIT_IDENTIFIER = 2**63 - 1
"""Paimon's `BATCH_COMMIT_IDENTIFIER`, which Fluss uses too."""
_CARRIED = ("indexManifest", "watermark", "statistics", "nextRowId")
"""What a snapshot takes over from the one before it."""


class PaimonCommitter:
    """A `LakeCommitter`. `sent` is shared by all committers of a process; `publisher` sends the request; `clock` tells when snapshots are
    committed."""

    def __init__(
        self, root: PurePath, sent: SentRounds, publisher: Publisher = publish, storage: Storage = LOCAL, clock: Clock | None = None
    ) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._storage = storage
        self._sent = sent
        self._publisher = publisher

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        """Sends one compare-and-set on the table and its head, once; returns the new snapshot's id.

        Raises CommitOutcomeUnknown after any error of the request. Before it was sent: LakeTableReplaced, Fenced, RoundFailed,
        SchemaDrift, LakeUnavailable; then nothing can have landed.
        """
        check_committable(committable, base, marker)
        loaded = cast(LoadedTable, base.handle)
        with lake_errors(f"look whether commits to {base.path} can be made", table_path=base.path):
            loaded.storage.check_commits(loaded.warehouse)
        payloads = _payloads(committable)
        self._check_files(committable, payloads, base, loaded)
        snapshot_id = 1 if base.head is None else base.head + 1
        self._keep(loaded, snapshot_id if base.tiered is None else base.tiered)
        content = self._stage(loaded, snapshot_id, marker, payloads, properties)
        self._sent.add(committable.round_id)
        try:
            self._publisher(loaded, snapshot_id, content)
        except BaseException as error:  # whatever it is: the request may have landed
            raise CommitOutcomeUnknown(
                f"the commit of round {marker.round_id} to {base.path} was sent, its outcome is not known: {describe(error)}",
                hint="The lake is read again to learn it.",
                table_path=base.path,
                round_id=marker.round_id,
                lake_snapshot_id=snapshot_id,
            ) from error
        with suppress(OSError):  # what was kept until now is older: it keeps this one, too
            keep_from_expiry(loaded, snapshot_id)
        return snapshot_id

    def abort(self, committable: Committable) -> None:
        """Deletes the files of a committable for which no request was ever sent. Never raises."""
        if self._sent.has(committable.round_id):
            return
        _delete(self._storage, (self._root / file.path for payload in _payloads(committable) for file in payload.files))

    def _keep(self, loaded: LoadedTable, snapshot_id: int) -> None:
        """Keeps the newest tiering commit, or what may be the first, from expiry; before the request, so that it always is."""
        with lake_errors(f"keep the snapshots of {loaded.path} from expiry", table_path=loaded.path):
            if not is_kept(loaded, snapshot_id):
                keep_from_expiry(loaded, snapshot_id)

    def _stage(
        self, loaded: LoadedTable, snapshot_id: int, marker: Marker, payloads: Sequence[FilesPayload], properties: Mapping[str, str]
    ) -> bytes:
        """Writes all that the new snapshot names; its own content. Nothing of it is visible."""
        prefix = f"lakeward-{marker.round_id}-{uuid.uuid4()}"
        path = loaded.path
        written: list[PurePath] = []
        try:
            with lake_errors(f"prepare the commit of {path}", table_path=path, round_id=marker.round_id):
                with opened_table(loaded) as folder:
                    for name in (SNAPSHOT, MANIFEST):
                        folder.make(name)
                manifests = Manifests(loaded, written)
                _check_buckets(manifests, payloads, marker)
                lists = manifests.write(prefix, payloads)
                all_properties = {**properties, **_marker_properties(loaded, marker, prefix, written)}
                return _content(loaded, snapshot_id, lists, all_properties, to_milliseconds(self._clock.now()))
        except BaseException:
            _delete(loaded.storage, written)  # of this attempt alone, and never sent
            raise

    def _check_files(self, committable: Committable, payloads: Sequence[FilesPayload], base: LakeView, loaded: LoadedTable) -> None:
        """Whether the files were written for this table and its columns, and all of them are still there."""
        for payload in payloads:
            if payload.lake_table_uuid != base.table_uuid:
                raise LakeTableReplaced(
                    f"files of round {committable.round_id} were written for the lake table {payload.lake_table_uuid}, "
                    f"{base.path} is {base.table_uuid} now",
                    hint=replaced_hint(base.path),
                    table_path=base.path,
                )
        with lake_errors(f"read the columns of {base.path}", table_path=base.path), opened_table(loaded) as folder:
            for schema_id in {payload.schema_id for payload in payloads} - {loaded.schema.schema_id}:
                written = read_schema(folder, schema_id)
                if written is None:
                    raise drift(base.path, None, f"was given other columns while a round wrote files for its schema {schema_id}")
                check_written(base.path, written, loaded.schema)
        files = [file for payload in payloads for file in payload.files]
        with lake_errors(f"look at the new files of {base.path}", table_path=base.path):
            sizes = loaded.storage.sizes([loaded.root / file.path for file in files])
        missing = [file.path for file, size in zip(files, sizes, strict=True) if size != file.size_bytes]
        if missing:
            raise RoundFailed(
                f"{len(missing)} files of round {committable.round_id} are gone or changed, the first is {missing[0]}",
                cause_class="DataFilesMissing",
                hint="Nothing was committed; the next round writes them anew. Does a clean-up delete files that no snapshot names yet?",
                table_path=base.path,
                round_id=committable.round_id,
            )


def _check_buckets(manifests: Manifests, payloads: Sequence[FilesPayload], marker: Marker) -> None:
    """Whether the sequence numbers of the changes follow those that stand in each bucket: by these readers tell which row is newer."""
    changes = {manifests.place(payload): payload for payload in payloads if payload.base_sequence is not None and not payload.replaces}
    standing = manifests.buckets(changes.keys())
    for place, payload in changes.items():
        now = standing.get(place, BucketState()).sequence
        if payload.base_sequence is not None and now > payload.base_sequence:
            path = manifests.loaded.path
            raise BaseMoved(
                f"bucket {payload.bucket} of {path} got rows up to sequence number {now} while round {marker.round_id} wrote its changes, "
                f"which follow {payload.base_sequence}",
                table_path=path,
                round_id=marker.round_id,
            )


def _content(loaded: LoadedTable, snapshot_id: int, lists: ManifestLists, properties: Mapping[str, str], now_ms: int) -> bytes:
    head = loaded.head
    before: Mapping[str, Any] = {} if head is None else head.document
    own = {name: value for name, value in properties.items() if name != FLUSS_COMMIT_USER_KEY}
    document = {
        "version": 3,
        "id": snapshot_id,
        "schemaId": loaded.schema.schema_id,
        "baseManifestList": lists.base[0],
        "baseManifestListSize": lists.base[1],
        "deltaManifestList": lists.delta[0],
        "deltaManifestListSize": lists.delta[1],
        **_changelog(lists),
        "commitUser": properties.get(FLUSS_COMMIT_USER_KEY, COMMIT_USER),
        "commitIdentifier": COMMIT_IDENTIFIER,
        "commitKind": "OVERWRITE" if lists.removes_files else "APPEND",
        # A clock behind the last commit's: Paimon looks snapshots up by time.
        "timeMillis": max(now_ms, int(before.get("timeMillis", 0))),
        "totalRecordCount": int(before.get("totalRecordCount") or 0) + lists.added_records,
        "deltaRecordCount": lists.added_records,
        **{name: before[name] for name in _CARRIED if before.get(name) is not None},
        "properties": own if head is None else {**own, BASE_DIGEST_KEY: head.digest},
        "uuid": str(uuid.uuid4()),
        "writerVersion": f"lakeward-{version('lakeward')}",
    }
    return json.dumps(document, indent=2).encode()


def _changelog(lists: ManifestLists) -> dict[str, object]:
    if lists.changelog is None:
        return {}
    name, size = lists.changelog
    return {"changelogManifestList": name, "changelogManifestListSize": size, "changelogRecordCount": lists.changelog_records}


def _marker_properties(loaded: LoadedTable, marker: Marker, prefix: str, written: list[PurePath]) -> dict[str, str]:
    encoded = encode(marker)
    if encoded.overflow is None:
        return encoded.properties
    path = loaded.marker_folder / f"{prefix}.marker"
    written.append(path)
    write_marker_file(loaded.storage, path, encoded.overflow)
    return {**encoded.properties, PATH_KEY: loaded.storage.location(path)}


def _payloads(committable: Committable) -> list[FilesPayload]:
    return [decode_files(result.payload) for result in committable.results]


def _delete(storage: Storage, paths: Iterable[PurePath]) -> None:
    for path in paths:
        with suppress(OSError):  # the sweep comes later
            storage.delete(path)
