"""Commits a round's write results as one snapshot of a Paimon table, with one request (DESIGN 6 step 7).

pypaimon's own commit is not used: it retries on a new base, so that a stale writer succeeds, and a replay commits twice. Here the new
snapshot is number base + 1, or nothing is committed. After the request was sent, every error means that the outcome is unknown: only the
lake can tell. From then on nothing is deleted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import PurePath
from typing import Any, cast

import structlog

from tiering import crash_points
from tiering.clock import Clock, SystemClock
from tiering.errors import BaseMoved
from tiering.instants import to_milliseconds
from tiering.lake.base import FLUSS_COMMIT_USER_KEY, NO_PROPERTIES, Committable, LakeView
from tiering.lake.marker import PATH_KEY, Marker, encode
from tiering.lake.outside_errors import describe
from tiering.lake.paimon.commit.expiry import expire_snapshots
from tiering.lake.paimon.commit.manifests import BucketState, ManifestLists, Manifests
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.loading import LoadedTable, opened_table, write_marker_file
from tiering.lake.paimon.reading.snapshots import BASE_DIGEST_KEY, EARLIEST, LATEST, parse_snapshot
from tiering.lake.paimon.schema.drift import check_written, drift
from tiering.lake.paimon.storage.base import CONSUMER, MANIFEST, SNAPSHOT, Storage, TableFolder, discard
from tiering.lake.paimon.storage.local import LOCAL
from tiering.lake.paimon.writing.payload import FilesPayload, decode_files
from tiering.lake.rules.commit_check import check_committable, check_none_missing, check_target, outcome_unknown, upkeep_stats
from tiering.lake.writing.sent_rounds import SentRounds
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder, UpkeepStats

APPEND, COMPACT, OVERWRITE = "APPEND", "COMPACT", "OVERWRITE"
"""Kinds of commits. Readers that follow a table skip COMPACT: it changes files but no rows."""

COMMIT_USER = "lakeward"
"""Commit user, unless the cluster requires another one, as Fluss does."""
COMMIT_IDENTIFIER = 2**63 - 1
"""Paimon's `BATCH_COMMIT_IDENTIFIER`, which Fluss uses too."""
_CARRIED = ("indexManifest", "watermark", "statistics", "nextRowId")
"""Fields that a snapshot takes over from its predecessor."""


def next_id(loaded: LoadedTable) -> int:
    """Returns the id of the snapshot that follows the head of `loaded`: ids are consecutive and begin with 1."""
    return 1 if loaded.head is None else loaded.head.snapshot_id + 1


def snapshot_content(loaded: LoadedTable, lists: ManifestLists, properties: Mapping[str, str], now_ms: int, kind: str) -> bytes:
    """Returns the content of the snapshot file that follows the head of `loaded`, with the manifests `lists`."""
    head = loaded.head
    before: Mapping[str, Any] = {} if head is None else head.document
    own = {name: value for name, value in properties.items() if name != FLUSS_COMMIT_USER_KEY}
    document = {
        "version": 3,
        "id": next_id(loaded),
        "schemaId": loaded.schema.schema_id,
        "baseManifestList": lists.base[0],
        "baseManifestListSize": lists.base[1],
        "deltaManifestList": lists.delta[0],
        "deltaManifestListSize": lists.delta[1],
        **_changelog(lists),
        "commitUser": properties.get(FLUSS_COMMIT_USER_KEY, COMMIT_USER),
        "commitIdentifier": COMMIT_IDENTIFIER,
        "commitKind": kind,
        # The clock may be behind the last commit's. Times must not decrease, because Paimon looks up snapshots by time.
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


Publisher = Callable[[LoadedTable, int, bytes], None]


def followed_by(loaded: LoadedTable, content: bytes) -> LoadedTable:
    """Returns `loaded` with the snapshot `content` added to its head."""
    return replace(loaded, chain=(*loaded.chain, parse_snapshot(next_id(loaded), content)))


def publish_compaction(
    loaded: LoadedTable, round_id: str, rewrites: Sequence[FilesPayload], publisher: Publisher, now_ms: int
) -> tuple[LoadedTable, Sequence[int]]:
    """Publishes those of `rewrites` that fit the head of `loaded`, as a snapshot of kind COMPACT; publishes nothing if none fits. Returns
    the table afterwards, and the numbers of the published rewrites.

    Each Paimon snapshot has one kind, and readers that follow a table treat every file that an APPEND adds as new rows. So merged files
    need a separate snapshot, as in Paimon's own commits (`FileStoreCommitImpl`). It follows the round's snapshot, by a separate
    compare-and-set on that snapshot, and has no marker. Whether it succeeds or not, the round has landed, and the newest tiering commit is
    the round's. If the process dies in between, the small files stay as they were.

    Raises the errors of pypaimon and the storage. Unless the request was sent, the written manifests are deleted.
    """
    written: list[PurePath] = []
    try:
        manifests = Manifests(loaded, written)
        kept = fitting_rewrites(manifests, rewrites)
        if not kept:
            return loaded, ()
        lists = manifests.write(f"lakeward-{round_id}-{uuid.uuid4()}", [rewrites[number] for number in kept])
        content = snapshot_content(loaded, lists, {}, now_ms, COMPACT)
    except BaseException:
        discard(loaded.storage, written)
        raise
    crash_points.reach(crash_points.BEFORE_COMPACTION)
    publisher(loaded, next_id(loaded), content)
    return followed_by(loaded, content), kept


def fitting_rewrites(manifests: Manifests, rewrites: Sequence[FilesPayload]) -> list[int]:
    """Returns the numbers of the `rewrites` whose old files are all live in the head, and whose new files exist.

    The new files have the table's present columns. None fits if another writer has added deletion vectors: rows that these delete would
    reappear.
    """
    loaded = manifests.loaded
    if loaded.head is not None and loaded.head.document.get("indexManifest") is not None:
        return []
    own = {
        number: work
        for number, work in enumerate(rewrites)
        if (work.lake_table_uuid, work.schema_id) == (loaded.uuid, loaded.schema.schema_id)
    }
    bucket_states = manifests.buckets({manifests.place(work) for work in own.values()})
    fitting = [number for number, work in own.items() if fits_bucket(work, bucket_states.get(manifests.place(work), BucketState()))]
    files = [(number, file) for number in fitting for file in own[number].files]
    sizes = loaded.storage.sizes([loaded.root / file.path for _, file in files])
    lost = {number for (number, file), size in zip(files, sizes, strict=True) if size != file.size_bytes}
    return [number for number in fitting if number not in lost]


def fits_bucket(work: FilesPayload, state: BucketState) -> bool:
    """Returns whether all old files are in the bucket, and the new ones have a place among the remaining files.

    Above level 0 the new files become the bucket's only sorted run of their level, without delete rows. So every remaining file has to be
    of level 0 and have only newer rows.
    """
    removed = set(work.removed)
    old = [entry.file for entry in state.entries if entry.file.file_name in removed]
    if len(old) < len(removed):
        return False
    newest = max((int(file.max_sequence_number) for file in old), default=-1)
    others = [entry.file for entry in state.entries if entry.file.file_name not in removed]
    return work.level == 0 or all(file.level == 0 and int(file.min_sequence_number) > newest for file in others)


_log = structlog.get_logger(__name__)


CONSUMER_FILE = "consumer-lakeward"
"""File of a Paimon consumer, which keeps snapshots from `nextSnapshot` on from expiry (`ExpireSnapshotsImpl`)."""


# A single request publishes a snapshot of a Paimon table: it creates the file `snapshot-<base + 1>`, by a link or a PUT. A link never
# replaces a file, and cannot be made in a dropped folder. That makes it the compare-and-set on the head and on the table. It is sent
# once. So is a PUT in S3 with `If-None-Match: *`. But a folder in S3 is only a prefix of names: a table that is dropped and recreated
# while the request is under way accepts the snapshot. Its marker names the former table, so no round continues from it.
# Paimon's own committers check whether the name is free and then rename, which on a local path replaces a file created in between. So
# they do not fence a JVM that commits to the same table at the same instant. On HDFS their rename is safe.
class RefusedCommit(Exception):
    """The table has changed since it was read, or may have. Only the lake can tell whether the snapshot landed."""


def publish(base: LoadedTable, snapshot_id: int, content: bytes) -> None:
    """Creates the snapshot on the head of `base`. Raises RefusedCommit, OSError; after any error the outcome is unknown."""
    with opened_table(base) as folder:
        _check_in_place(folder, base)
        if base.head is None and folder.numbers(SNAPSHOT):
            raise RefusedCommit("the table got its first snapshot in the meantime")
        _check_head(folder, base)
        folder.create(SNAPSHOT, f"snapshot-{snapshot_id}", content)
        if folder.read(f"{SNAPSHOT}/snapshot-{snapshot_id}") != content:
            raise RefusedCommit(f"snapshot {snapshot_id} was replaced at the moment of its creation")
        _check_head(folder, base)
        _check_in_place(folder, base)
        with suppress(OSError):  # LATEST is only a hint
            folder.replace(SNAPSHOT, LATEST, str(snapshot_id).encode())


def _check_in_place(folder: TableFolder, base: LoadedTable) -> None:
    if not folder.is_in_place():
        raise RefusedCommit(f"the folder {base.location} was renamed or replaced")


def _check_head(folder: TableFolder, base: LoadedTable) -> None:
    """Raises RefusedCommit unless the head of `base` is as it was read and has not expired. For a table without a head, snapshot 1 must not
    have expired.

    Names of expired snapshots are free again: a late commit under such a name would become the head through the hint LATEST.
    """
    head = base.head
    if head is not None and folder.read(f"{SNAPSHOT}/snapshot-{head.snapshot_id}") != head.content:
        raise RefusedCommit(f"snapshot {head.snapshot_id} expired or was rolled back")
    oldest = 1 if head is None else head.snapshot_id
    earliest = folder.read(f"{SNAPSHOT}/{EARLIEST}")
    if earliest is not None and earliest.strip().isdigit() and int(earliest) > oldest:
        raise RefusedCommit(f"snapshot {oldest} expired")


def keep_from_expiry(base: LoadedTable, snapshot_id: int) -> None:
    """Keeps `snapshot_id` and later snapshots from expiry, until this is called with a higher id. Raises OSError."""
    with opened_table(base) as folder:
        folder.make(CONSUMER)
        folder.replace(CONSUMER, CONSUMER_FILE, json.dumps({"nextSnapshot": snapshot_id}).encode())


def is_kept(base: LoadedTable, snapshot_id: int) -> bool:
    """Returns whether Lakeward's consumer keeps `snapshot_id`. After a roll-back it may keep only newer ones."""
    with opened_table(base) as folder:
        content = folder.read(f"{CONSUMER}/{CONSUMER_FILE}")
    with suppress(ValueError, KeyError, TypeError):
        return content is not None and int(json.loads(content)["nextSnapshot"]) <= snapshot_id
    return False


@dataclass(frozen=True)
class _Staged:
    """A snapshot that is not published yet. `kept`: the numbers of the rewrites that it contains."""

    content: bytes
    lists: ManifestLists
    kept: Sequence[int]


class PaimonCommitter:
    """A `LakeCommitter`. `sent` is shared by all committers of a process. `publisher` sends the request. `clock` gives the commit times.
    Snapshots expire as the options of `table` say; None = no expiry.
    """

    def __init__(
        self,
        root: PurePath,
        sent: SentRounds,
        publisher: Publisher = publish,
        storage: Storage = LOCAL,
        clock: Clock | None = None,
        table: TableInfo | None = None,
    ) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._storage = storage
        self._sent = sent
        self._publisher = publisher
        self._table = table
        self.last_upkeep: UpkeepStats | None = None
        """Implements `CommitUpkeep.last_upkeep`."""

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        """Sends one compare-and-set on the table and its head, once; returns the new snapshot's id.

        Raises CommitOutcomeUnknown after any error of the request. Before the request was sent: LakeTableReplaced, Fenced, RoundFailed,
        SchemaDrift, LakeUnavailable; then nothing can have landed.
        """
        check_committable(committable, base, marker)
        loaded = cast(LoadedTable, base.handle)
        with lake_errors(f"check whether commits to {base.path} are possible", table_path=base.path):
            loaded.storage.check_commits(loaded.warehouse)
        payloads = _payloads(committable)
        self._check_files(committable, payloads, base, loaded)
        snapshot_id, rewrites = next_id(loaded), _rewrites(committable)
        self._keep(loaded, snapshot_id if base.tiered is None else base.tiered)
        staged = self._stage(loaded, marker, payloads, () if payloads else rewrites, properties, committable.order)
        self.last_upkeep = upkeep_stats(committable, staged.kept, 0, staged.lists.manifests)
        self._sent.add(committable.round_id)
        try:
            self._publisher(loaded, snapshot_id, staged.content)
        except BaseException as error:  # after any error the request may have landed
            raise outcome_unknown(marker.round_id, base, snapshot_id, error) from error
        with suppress(OSError):  # the consumer names an older snapshot, which keeps this one too
            keep_from_expiry(loaded, snapshot_id)
        self._after_commit(loaded, staged, committable, rewrites if payloads else ())
        return snapshot_id

    def abort(self, committable: Committable) -> None:
        """Deletes the files of a committable for which no request was ever sent. Never raises."""
        if self._sent.has(committable.round_id):
            return
        payloads = [*_payloads(committable), *_rewrites(committable)]
        discard(self._storage, (self._root / file.path for payload in payloads for file in payload.files))

    def _keep(self, loaded: LoadedTable, snapshot_id: int) -> None:
        """Keeps the newest tiering commit, or the possibly first one, from expiry. Called before the request, so that the commit is
        protected at all times.
        """
        with lake_errors(f"keep the snapshots of {loaded.path} from expiry", table_path=loaded.path):
            if not is_kept(loaded, snapshot_id):
                keep_from_expiry(loaded, snapshot_id)

    def _after_commit(self, base: LoadedTable, staged: _Staged, committable: Committable, rewrites: Sequence[FilesPayload]) -> None:
        """Does upkeep of the table after the round's commit. If it fails, it is left to a later round, because this round has landed."""
        now_ms, order = to_milliseconds(self._clock.now()), committable.order
        kept, expired = staged.kept, 0
        try:
            loaded = followed_by(base, staged.content)
            if rewrites:
                loaded, kept = publish_compaction(loaded, committable.round_id, rewrites, self._publisher, now_ms)
            expired = expire_snapshots(base, loaded, self._table, now_ms, None if order is None else order.expiry)
        except Exception as error:
            _log.warning("the upkeep of a lake table after a commit failed", table=str(base.path), error=describe(error))
        self.last_upkeep = upkeep_stats(committable, kept, expired, staged.lists.manifests)

    def _stage(
        self,
        loaded: LoadedTable,
        marker: Marker,
        payloads: Sequence[FilesPayload],
        rewrites: Sequence[FilesPayload],
        properties: Mapping[str, str],
        order: UpkeepOrder | None,
    ) -> _Staged:
        """Writes all files that the new snapshot names; none of them is visible yet. Leaves out `rewrites` that do not fit the head."""
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
                kept = fitting_rewrites(manifests, rewrites) if rewrites else []
                changes = [*payloads, *(rewrites[number] for number in kept)]
                lists = manifests.write(prefix, changes, merges_all=order is not None and order.manifests)
                all_properties = {**properties, **_marker_properties(loaded, marker, prefix, written)}
                kind = COMPACT if kept else OVERWRITE if lists.removes_files else APPEND
                return _Staged(snapshot_content(loaded, lists, all_properties, to_milliseconds(self._clock.now()), kind), lists, kept)
        except BaseException:
            discard(loaded.storage, written)  # only files of this attempt, which was never sent
            raise

    def _check_files(self, committable: Committable, payloads: Sequence[FilesPayload], base: LakeView, loaded: LoadedTable) -> None:
        """Raises unless the files were written for this table and its columns, and all of them still exist."""
        check_target(committable.round_id, (payload.lake_table_uuid for payload in payloads), base)
        with lake_errors(f"read the columns of {base.path}", table_path=base.path):
            for schema_id in {payload.schema_id for payload in payloads} - {loaded.schema.schema_id}:
                written = loaded.schema.version(schema_id)
                if written is None:
                    raise drift(base.path, None, f"got other columns while a round wrote files for its schema {schema_id}")
                check_written(base.path, written, loaded.schema)
        files = [file for payload in payloads for file in payload.files]
        with lake_errors(f"check the new files of {base.path}", table_path=base.path):
            sizes = loaded.storage.sizes([loaded.root / file.path for file in files])
        missing = [file.path for file, size in zip(files, sizes, strict=True) if size != file.size_bytes]
        check_none_missing(committable.round_id, base, missing)


def _check_buckets(manifests: Manifests, payloads: Sequence[FilesPayload], marker: Marker) -> None:
    """Raises BaseMoved unless the sequence numbers of the changes follow those in each bucket: readers use them to find the newest row of a
    key.
    """
    changes = {manifests.place(payload): payload for payload in payloads if payload.base_sequence is not None and not payload.replaces}
    bucket_states = manifests.buckets(changes.keys())
    for place, payload in changes.items():
        now = bucket_states.get(place, BucketState()).sequence
        if payload.base_sequence is not None and now > payload.base_sequence:
            path = manifests.loaded.path
            raise BaseMoved(
                f"bucket {payload.bucket} of {path} got rows up to sequence number {now} while round {marker.round_id} wrote its changes, "
                f"which follow {payload.base_sequence}",
                table_path=path,
                round_id=marker.round_id,
            )


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


def _rewrites(committable: Committable) -> list[FilesPayload]:
    return [decode_files(rewrite.payload) for rewrite in committable.rewrites]
