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
    archives         a list of partition ids, for a partitioned primary-key table
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import zstandard

from tiering.errors import MarkerCorrupt
from tiering.lake.proof.bucket_proof import BucketProof
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
_PROOF_LENGTH = 6
"""Number of values of a proof in the list of a partition."""


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
    """Records below `tiered` that `CALL sys.skip_record` left out, in order of their offsets. The lake rightly lacks them."""
    archives: frozenset[int] | None = None
    """Living partitions whose name had rows in the lake before any of their buckets was tiered. Usually these are rows of a dropped
    partition. None = not recorded, as in a marker of an older version or of a table that needs no such record."""


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
    groups: dict[int | None, list[int]] = defaultdict(list)
    for bucket in sorted(marker.buckets, key=BucketKey.sort_key):
        tiered = marker.buckets[bucket]
        groups[bucket.partition_id].extend((bucket.bucket_id, tiered.start, tiered.tiered))
    document = {
        "version": VERSION,
        "cluster_id": marker.cluster_id,
        "table_id": marker.table_id,
        "lake_table_uuid": marker.lake_table_uuid,
        "round_id": marker.round_id,
        "tiering_epoch": marker.tiering_epoch,
        "base_round_id": marker.base_round_id,
        "buckets": list(groups.items()),
    }
    if marker.traces:
        traces: dict[int | None, list[int | str]] = defaultdict(list)
        for bucket in sorted(marker.traces, key=BucketKey.sort_key):
            traces[bucket.partition_id].extend((bucket.bucket_id, marker.traces[bucket]))
        document["traces"] = list(traces.items())
    if marker.proofs:
        proofs: dict[int | None, list[int | str]] = defaultdict(list)
        for bucket in sorted(marker.proofs, key=BucketKey.sort_key):
            proofs[bucket.partition_id].extend((bucket.bucket_id, *marker.proofs[bucket].values))
        document["proofs"] = list(proofs.items())
    if marker.skipped:
        skipped: dict[int | None, list[int]] = defaultdict(list)
        for bucket in sorted(marker.skipped, key=BucketKey.sort_key):
            for offset in marker.skipped[bucket]:
                skipped[bucket.partition_id].extend((bucket.bucket_id, offset))
        document["skipped"] = list(skipped.items())
        document.update(_skipped_traces(marker.skipped))
    if marker.archives is not None:
        document["archives"] = sorted(marker.archives)
    return json.dumps(document, separators=(",", ":"))


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
            traces=_traces(document.get("traces", [])),
            proofs=_proofs(document.get("proofs", [])),
            skipped=_skipped(document.get("skipped", []), document.get("skipped_traces", [])),
            archives=frozenset(map(_number, document["archives"])) if "archives" in document else None,
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _corrupt(f"{type(error).__name__}: {error}", round_id) from error


def _buckets(groups: list[tuple[int | None, list[int]]]) -> dict[BucketKey, TieredRange]:
    buckets: dict[BucketKey, TieredRange] = {}
    for partition_id, numbers in groups:
        partition = None if partition_id is None else _number(partition_id)
        if len(numbers) % 3:
            raise ValueError(f"partition {partition_id} lists {len(numbers)} numbers, not three a bucket")
        for position in range(0, len(numbers), 3):
            bucket_id, start, tiered = (_number(number) for number in numbers[position : position + 3])
            key = BucketKey(partition, bucket_id)
            if not 0 <= start <= tiered:
                raise ValueError(f"bucket {key} has the range [{start}, {tiered})")
            if key in buckets:
                raise ValueError(f"bucket {key} is listed twice")
            buckets[key] = TieredRange(start, tiered)
    return buckets


def _traces(groups: list[tuple[int | None, list[object]]]) -> dict[BucketKey, str]:
    return {
        _bucket_key(partition_id, bucket_id): _text(trace)
        for partition_id, entries in groups
        for bucket_id, trace in zip(entries[::2], entries[1::2], strict=True)
    }


def _skipped_traces(skipped: SkippedRecords) -> dict[str, object]:
    """Returns the entry `skipped_traces`. It is a key of its own because older versions read `skipped` as offsets only."""
    groups: dict[int | None, list[int | str]] = defaultdict(list)
    for bucket in sorted(skipped, key=BucketKey.sort_key):
        for offset, trace in skipped[bucket].items():
            if trace is not None:
                groups[bucket.partition_id].extend((bucket.bucket_id, offset, trace))
    return {"skipped_traces": list(groups.items())} if groups else {}


def _skipped(
    groups: list[tuple[int | None, list[object]]], trace_groups: list[tuple[int | None, list[object]]]
) -> dict[BucketKey, dict[int, str | None]]:
    skipped: dict[BucketKey, dict[int, str | None]] = defaultdict(dict)
    for partition_id, numbers in groups:
        for bucket_id, offset in zip(numbers[::2], numbers[1::2], strict=True):
            skipped[_bucket_key(partition_id, bucket_id)][_number(offset)] = None
    for partition_id, entries in trace_groups:
        for bucket_id, offset, trace in zip(entries[::3], entries[1::3], entries[2::3], strict=True):
            skipped[_bucket_key(partition_id, bucket_id)][_number(offset)] = _text(trace)
    return dict(skipped)


def _bucket_key(partition_id: int | None, bucket_id: object) -> BucketKey:
    return BucketKey(None if partition_id is None else _number(partition_id), _number(bucket_id))


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


def _proofs(groups: list[tuple[int | None, list[object]]]) -> dict[BucketKey, BucketProof]:
    proofs: dict[BucketKey, BucketProof] = {}
    for partition_id, entries in groups:
        partition = None if partition_id is None else _number(partition_id)
        if len(entries) % _PROOF_LENGTH:
            raise ValueError(f"partition {partition_id} lists {len(entries)} values, not {_PROOF_LENGTH} a proof")
        for first in range(0, len(entries), _PROOF_LENGTH):
            bucket_id, since, rows, checksum, chain, empty = entries[first : first + _PROOF_LENGTH]
            proof = BucketProof.of(_number(since), _number(rows), _text(checksum), _text(chain), _text(empty))
            proofs[BucketKey(partition, _number(bucket_id))] = proof
    return proofs


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
