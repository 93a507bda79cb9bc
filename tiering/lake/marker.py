"""The marker: the record inside a lake table of how far it is tiered, and its codec (DESIGN 6).

The marker travels in the snapshot that it describes. The snapshot's summary has `lakeward.round-id` (plain) and one of these keys:
`lakeward.marker` (JSON, version 1), `lakeward.marker.zst` (base64 of that JSON, compressed with zstd), or `lakeward.marker.path` (the path
of a file with the compressed JSON). Pure: the lake reads and writes the file.

The JSON lists buckets grouped by partition and sorted, `[partition id or null, [bucket, start, tiered, bucket, ...]]`, so that equal
markers have equal text. Optional keys, in the same form:

    traces           [bucket, trace, ...], if the cluster has traces
    proofs           [bucket, since, rows, checksum, chain, ranges without rows, bucket, ...], for a clean layout
    skipped          [bucket, offset, bucket, offset, ...], after `CALL sys.skip_record`
    skipped_traces   [bucket, offset, trace, ...], for skipped records with a trace
    dead_letters     [bucket, offset, ...], the skipped records that rounds put aside (`lake.dead_letters`)
    superseded       [bucket, offset, offset of the later change, change type, microseconds, ...], former dead letters that stay skipped
    left_out         [bucket, start, stop, bucket, start, stop, ...], after `CALL sys.reconcile_lake(..., 'accept')` of a log that was cut
    archives         a list of partition ids, for a partitioned primary-key table
    backfills        a list of `Backfill.to_plain`, after `CALL sys.backfill_table`
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import zstandard

from tiering.errors import MarkerCorrupt
from tiering.lake.proof.backfilled_rows import Backfill
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.proof.file_footer import Run, merged
from tiering.model.tables import BucketKey, SkippedRecords

ROUND_ID_KEY = "lakeward.round-id"
PLAIN_KEY = "lakeward.marker"
ZSTD_KEY = "lakeward.marker.zst"
PATH_KEY = "lakeward.marker.path"

VERSION = 1
PLAIN_LIMIT_BYTES = 4 * 1024
"""A longer marker is compressed, because every later metadata file of the table contains the summary."""
SUMMARY_LIMIT_BYTES = 256 * 1024
"""A marker that is longer even when compressed becomes a file."""
DECODED_LIMIT_BYTES = 256 * 1024 * 1024
"""Far above any real marker. It keeps a damaged length from exhausting the memory."""

_ZSTD_LEVEL = 3
_PROOF_LENGTH = 5
"""Number of `BucketProof.values`."""


LeftOut = Mapping[BucketKey, Sequence[Run]]
"""Ranges of records `[start, stop)` by bucket, in order."""
DeadLetters = Mapping[BucketKey, Sequence[int]]
"""Offsets of dead letters by bucket, in order."""


@dataclass(frozen=True)
class LaterChange:
    """The change of a key that won over the replay of a dead letter. `time_us`: when the replay was refused for it, since 1970."""

    offset: int
    change_type: str
    time_us: int


Superseded = Mapping[BucketKey, Mapping[int, LaterChange]]
"""By bucket and offset the former dead letters that a later change of their key supersedes."""


@dataclass(frozen=True)
class TieredRange:
    """The tiered range of one bucket: the lake holds the records `[start, tiered)`."""

    start: int
    tiered: int


@dataclass(frozen=True)
class Marker:
    """The record of which rows of which table a lake table holds, and which round wrote the last of them."""

    cluster_id: str
    table_id: int
    lake_table_uuid: str
    round_id: str
    tiering_epoch: int
    base_round_id: str | None
    buckets: Mapping[BucketKey, TieredRange]
    traces: Mapping[BucketKey, str] = field(default_factory=dict)
    """Per bucket the trace by which the cluster recognizes the last record below `tiered` (`RewritableLogs`). Buckets without a trace
    are not checked."""
    proofs: Mapping[BucketKey, BucketProof] = field(default_factory=dict)
    """For a table with a clean layout, what rounds wrote to each bucket. A bucket without a proof cannot be proved by the marker."""
    skipped: SkippedRecords = field(default_factory=dict)
    """Records below `tiered` that `CALL sys.skip_record` or a round left out, in order of their offsets. The lake rightly lacks them."""
    dead_letters: DeadLetters = field(default_factory=dict)
    """The records in `skipped` that rounds put aside, because the lake cannot hold them."""
    superseded: Superseded = field(default_factory=dict)
    """The records in `skipped` that were dead letters, and that no replay makes rows of. `dead_letters` does not name them."""
    left_out: LeftOut = field(default_factory=dict)
    """Ranges of records below `tiered` that an `accept` left out, because neither the log nor the lake had them any more."""
    archives: frozenset[int] | None = None
    """Living partitions whose name had rows in the lake before any of their buckets was tiered. Usually these are rows of a dropped
    partition. None = not recorded, as in a marker of an older version or of a table that needs no such record."""
    backfills: tuple[Backfill, ...] = ()
    """The backfills of a log table whose rows the lake table has, the oldest first."""

    @property
    def ends(self) -> dict[BucketKey, int]:
        """Per bucket the next offset to tier."""
        return {bucket: tiered.tiered for bucket, tiered in self.buckets.items()}


@dataclass(frozen=True)
class EncodedMarker:
    """The marker as summary properties. If `overflow` is set, the lake stores it as a file and adds `lakeward.marker.path`."""

    properties: dict[str, str]
    overflow: bytes | None = None


def encode(marker: Marker) -> EncodedMarker:
    """Returns the marker as summary properties. Equal markers give equal text."""
    properties = {ROUND_ID_KEY: marker.round_id}
    text = _to_json(marker)
    if len(text) <= PLAIN_LIMIT_BYTES:
        return EncodedMarker({**properties, PLAIN_KEY: text})
    packed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(text.encode("ascii"))
    encoded = base64.b64encode(packed).decode("ascii")
    if len(encoded) <= SUMMARY_LIMIT_BYTES:
        return EncodedMarker({**properties, ZSTD_KEY: encoded})
    return EncodedMarker(properties, packed)


def decode(summary: Mapping[str, str], read_file: Callable[[str], bytes]) -> Marker | None:
    """Returns the marker of a snapshot's summary; None if the summary has no marker of Lakeward.

    `read_file` reads an overflow file by its path. Each LakewardError that it raises passes through. Raises MarkerCorrupt for a
    marker that cannot be read, including one of an unknown version.
    """
    round_id = summary.get(ROUND_ID_KEY)
    present = [key for key in (PLAIN_KEY, ZSTD_KEY, PATH_KEY) if key in summary]
    if round_id is None and not present:
        return None
    if round_id is None or len(present) != 1:
        raise _corrupt(f"its snapshot summary has {', '.join(present) or 'no marker'} and round id {round_id}", round_id)
    key = present[0]
    text = summary[key]
    if key == ZSTD_KEY:
        text = _unpack(_from_base64(text, round_id), round_id)
    elif key == PATH_KEY:
        text = _unpack(_read(read_file, text, round_id), round_id)
    marker = _from_json(text, round_id)
    if marker.round_id != round_id:
        raise _corrupt(f"it is the marker of round {marker.round_id}", round_id)
    return marker


def _to_json(marker: Marker) -> str:
    skipped = [(bucket, offset, trace) for bucket, records in marker.skipped.items() for offset, trace in records.items()]
    document = {
        "version": VERSION,
        "cluster_id": marker.cluster_id,
        "table_id": marker.table_id,
        "lake_table_uuid": marker.lake_table_uuid,
        "round_id": marker.round_id,
        "tiering_epoch": marker.tiering_epoch,
        "base_round_id": marker.base_round_id,
        "buckets": _grouped((bucket, tiered.start, tiered.tiered) for bucket, tiered in marker.buckets.items()),
    }
    optional = {
        "traces": _grouped(marker.traces.items()),
        "proofs": _grouped((bucket, *proof.values) for bucket, proof in marker.proofs.items()),
        "skipped": _grouped((bucket, offset) for bucket, offset, _ in skipped),
        # A key of its own, because older versions read `skipped` as offsets only.
        "skipped_traces": _grouped((bucket, offset, trace) for bucket, offset, trace in skipped if trace is not None),
        "dead_letters": _grouped((bucket, offset) for bucket, offsets in marker.dead_letters.items() for offset in offsets),
        "superseded": _grouped(
            (bucket, offset, change.offset, change.change_type, change.time_us)
            for bucket, changes in marker.superseded.items()
            for offset, change in sorted(changes.items())
        ),
        "left_out": _grouped((bucket, *run) for bucket, runs in marker.left_out.items() for run in runs),
    }
    document |= {key: groups for key, groups in optional.items() if groups}
    if marker.archives is not None:
        document["archives"] = sorted(marker.archives)
    if marker.backfills:
        document["backfills"] = [backfill.to_plain() for backfill in marker.backfills]
    return json.dumps(document, separators=(",", ":"))


def _grouped(entries: Iterable[tuple[BucketKey, *tuple[int | str, ...]]]) -> list[tuple[int | None, list[int | str]]]:
    """Returns buckets with their values, sorted and grouped by partition."""
    groups: dict[int | None, list[int | str]] = defaultdict(list)
    for bucket, *values in sorted(entries, key=lambda entry: entry[0].sort_key()):
        groups[bucket.partition_id].extend((bucket.bucket_id, *values))
    return list(groups.items())


def _from_json(text: str, round_id: str) -> Marker:
    try:
        document = json.loads(text)
        version = document["version"]
        if version != VERSION:
            raise _corrupt(f"its version is {version!r}; this Lakeward reads version {VERSION}", round_id)
        return Marker(
            cluster_id=_text(document["cluster_id"]),
            table_id=_number(document["table_id"]),
            lake_table_uuid=_text(document["lake_table_uuid"]),
            round_id=_text(document["round_id"]),
            tiering_epoch=_number(document["tiering_epoch"]),
            base_round_id=None if document["base_round_id"] is None else _text(document["base_round_id"]),
            buckets=_buckets(document["buckets"]),
            traces={bucket: _text(trace) for bucket, (trace,) in _entries(document.get("traces", []), 1)},
            proofs={bucket: _proof(*values) for bucket, values in _entries(document.get("proofs", []), _PROOF_LENGTH)},
            skipped=_skipped(document.get("skipped", []), document.get("skipped_traces", [])),
            dead_letters=_dead_letters(document.get("dead_letters", [])),
            superseded=_superseded(document.get("superseded", [])),
            left_out=_left_out(document.get("left_out", [])),
            archives=frozenset(map(_number, document["archives"])) if "archives" in document else None,
            backfills=tuple(map(Backfill.of_plain, document.get("backfills", []))),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _corrupt(f"{type(error).__name__}: {error}", round_id) from error


def _entries(groups: list[tuple[int | None, list[Any]]], size: int) -> Iterator[tuple[BucketKey, list[Any]]]:
    """Yields the entries of `_grouped`: each bucket with its `size` values. Raises ValueError, TypeError."""
    for partition_id, numbers in groups:
        partition = None if partition_id is None else _number(partition_id)
        if len(numbers) % (size + 1):
            raise ValueError(f"partition {partition_id} lists {len(numbers)} values, not {size + 1} an entry")
        for first in range(0, len(numbers), size + 1):
            yield BucketKey(partition, _number(numbers[first])), numbers[first + 1 : first + 1 + size]


def _buckets(groups: list[tuple[int | None, list[Any]]]) -> dict[BucketKey, TieredRange]:
    buckets: dict[BucketKey, TieredRange] = {}
    for bucket, (start, tiered) in _entries(groups, 2):
        if not 0 <= _number(start) <= _number(tiered):
            raise ValueError(f"bucket {bucket} has the range [{start}, {tiered})")
        if bucket in buckets:
            raise ValueError(f"bucket {bucket} is listed twice")
        buckets[bucket] = TieredRange(start, tiered)
    return buckets


def _skipped(
    groups: list[tuple[int | None, list[Any]]], trace_groups: list[tuple[int | None, list[Any]]]
) -> dict[BucketKey, dict[int, str | None]]:
    skipped: dict[BucketKey, dict[int, str | None]] = defaultdict(dict)
    for bucket, (offset,) in _entries(groups, 1):
        skipped[bucket][_number(offset)] = None
    for bucket, (offset, trace) in _entries(trace_groups, 2):
        skipped[bucket][_number(offset)] = _text(trace)
    return dict(skipped)


def _dead_letters(groups: list[tuple[int | None, list[Any]]]) -> DeadLetters:
    letters: dict[BucketKey, list[int]] = defaultdict(list)
    for bucket, (offset,) in _entries(groups, 1):
        letters[bucket].append(_number(offset))
    return {bucket: tuple(offsets) for bucket, offsets in letters.items()}


def _superseded(groups: list[tuple[int | None, list[Any]]]) -> Superseded:
    superseded: dict[BucketKey, dict[int, LaterChange]] = defaultdict(dict)
    for bucket, (offset, later, change_type, time_us) in _entries(groups, 4):
        superseded[bucket][_number(offset)] = LaterChange(_number(later), _text(change_type), _number(time_us))
    return dict(superseded)


def _left_out(groups: list[tuple[int | None, list[Any]]]) -> dict[BucketKey, tuple[Run, ...]]:
    left_out: dict[BucketKey, list[Run]] = defaultdict(list)
    for bucket, (start, stop) in _entries(groups, 2):
        if not 0 <= _number(start) < _number(stop):
            raise ValueError(f"bucket {bucket} leaves out the range [{start}, {stop})")
        left_out[bucket].append((start, stop))
    return {bucket: tuple(runs) for bucket, runs in left_out.items()}


def next_left_out(before: LeftOut, buckets: Mapping[BucketKey, TieredRange], now: LeftOut | None = None) -> LeftOut:
    """Returns `Marker.left_out` of a marker with `buckets`. `before` is the base's; `now`: the ranges that this commit leaves out."""
    after: dict[BucketKey, tuple[Run, ...]] = {}
    for bucket, tiered in buckets.items():
        runs = merged([*before.get(bucket, ()), *(now or {}).get(bucket, ())])
        kept = tuple((max(start, tiered.start), min(stop, tiered.tiered)) for start, stop in runs)
        if kept := tuple(run for run in kept if run[0] < run[1]):
            after[bucket] = kept
    return after


def next_skipped(
    before: SkippedRecords, by_round: SkippedRecords, bases: Mapping[BucketKey, int], buckets: Mapping[BucketKey, TieredRange]
) -> dict[BucketKey, dict[int, str | None]]:
    """Returns `Marker.skipped` after a round that read `buckets` from `bases` on and left out `by_round`. `before` is the base's.

    `by_round` has all records that were ever left out. The base's marker lacks those below its end if an older version wrote it.
    """
    after: dict[BucketKey, dict[int, str | None]] = {}
    for bucket, tiered in buckets.items():
        base = bases.get(bucket, tiered.tiered)
        earlier = {offset: trace for offset, trace in before.get(bucket, {}).items() if tiered.start <= offset < base}
        now = {offset: trace for offset, trace in by_round.get(bucket, {}).items() if tiered.start <= offset < tiered.tiered}
        if earlier or now:
            after[bucket] = {offset: now.get(offset) or earlier.get(offset) for offset in sorted({*earlier, *now})}
    return after


def next_dead_letters(before: DeadLetters, now: DeadLetters, skipped: SkippedRecords) -> dict[BucketKey, tuple[int, ...]]:
    """Returns `Marker.dead_letters` of a marker with these `skipped` records. `before` is the base's; `now`: those that a round put aside.

    A record that a marker does not skip any more is no dead letter.
    """
    letters = {bucket: {*before.get(bucket, ()), *now.get(bucket, ())} & offsets.keys() for bucket, offsets in skipped.items()}
    return {bucket: tuple(sorted(offsets)) for bucket, offsets in letters.items() if offsets}


def next_superseded(before: Iterable[Superseded], skipped: SkippedRecords, letters: DeadLetters) -> dict[BucketKey, dict[int, LaterChange]]:
    """Returns `Marker.superseded` of a marker with these `skipped` records and dead letters. `before`: those of earlier markers."""
    after: dict[BucketKey, dict[int, LaterChange]] = defaultdict(dict)
    for bucket, changes in (entry for superseded in before for entry in superseded.items()):
        left = skipped.get(bucket, {}).keys() - letters.get(bucket, ())
        after[bucket] |= {offset: change for offset, change in changes.items() if offset in left}
    return {bucket: changes for bucket, changes in after.items() if changes}


def _proof(since: object, rows: object, checksum: object, chain: object, empty: object) -> BucketProof:
    return BucketProof.of(_number(since), _number(rows), _text(checksum), _text(chain), _text(empty))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _from_base64(text: str, round_id: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _corrupt(f"it is not base64: {error}", round_id) from error


def _read(read_file: Callable[[str], bytes], path: str, round_id: str) -> bytes:
    try:
        return read_file(path)
    except FileNotFoundError as error:
        raise _corrupt(f"its file {path} is missing", round_id) from error


def _unpack(packed: bytes, round_id: str) -> str:
    try:
        size = zstandard.frame_content_size(packed)
        if not 0 <= size <= DECODED_LIMIT_BYTES:
            raise _corrupt(f"it claims to be {size} bytes long", round_id)
        return zstandard.ZstdDecompressor().decompress(packed).decode("ascii")
    except (zstandard.ZstdError, UnicodeDecodeError) as error:
        raise _corrupt(f"it cannot be decompressed: {error}", round_id) from error


def _corrupt(why: str, round_id: str | None) -> MarkerCorrupt:
    return MarkerCorrupt(
        f"the marker of round {round_id} cannot be read: {why}",
        hint="No row was lost, and no row is tiered until the marker can be read. Was the table tiered by a newer Lakeward, "
        "or were its snapshot properties or the .lakeward folder changed by hand?",
        round_id=round_id,
    )
