"""A ticket has everything about its read, so a coordinator that did not open the read plans the same rows."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tiering.coordinator.readers.tickets import TicketSigner
from tiering.model.reading.open_reads import OpenRead
from tiering.model.reading.scans import ReadMoment
from tiering.model.tables import BucketKey, TablePath

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = st.integers(0, 2**62)
BUCKETS = st.builds(BucketKey, st.none() | NUMBERS, st.integers(0, 2**31 - 1))


@st.composite
def moments(draw: st.DrawFn) -> ReadMoment:
    ranges = draw(st.dictionaries(BUCKETS, st.tuples(NUMBERS, NUMBERS), max_size=5))
    subset = st.sets(st.sampled_from(sorted(ranges, key=BucketKey.sort_key))) if ranges else st.just(set[BucketKey]())
    kv_snapshots = {bucket: draw(NUMBERS) for bucket in draw(subset)}
    return ReadMoment(
        path=TablePath(draw(st.text(max_size=5)), draw(st.text(max_size=5))),
        table_id=draw(NUMBERS),
        lake_snapshot_id=draw(st.none() | NUMBERS),
        starting_offsets={bucket: start for bucket, (start, _) in ranges.items()},
        stopping_offsets={bucket: stop for bucket, (_, stop) in ranges.items()},
        kv_snapshots=kv_snapshots,
        replaced=frozenset(draw(subset)) & kv_snapshots.keys(),
        only_in_lake=draw(st.dictionaries(BUCKETS, NUMBERS, max_size=2)),
        lake_mark=draw(st.none() | NUMBERS),
        changelog_starts={bucket: draw(NUMBERS) for bucket in draw(subset)},
        schema_id=draw(NUMBERS),
    )


@given(moments())
def test_a_ticket_has_the_whole_moment(moment: ReadMoment) -> None:
    read = OpenRead("read-1", moment, "alice", "spark", "app-1", NOW, NOW, NOW)
    signer = TicketSigner(b"key")

    assert signer.read(signer.sign(read)) == read
