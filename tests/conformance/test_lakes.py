"""Every lake format must pass these tests: rounds and coordinator rely on each of them.

Driven through the interface of `tiering.lake.base` alone. Rounds over every kind of table and column type are in tests/behaviours/
and in the format's own tests.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from support.lakes.lake_kit import COLUMNS
from support.lakes.lakes_under_test import (
    LAKES,
    CleanPaimonInS3UnderTest,
    HdfsUnderTest,
    InS3UnderTest,
    LakeUnderTest,
    PaimonInS3UnderTest,
)
from support.object_store.rest_server import WAREHOUSE, RestCatalog
from support.object_store.s3_server import BUCKET, S3Server
from support.running.postgresql import DATABASE, PASSWORD, USER, running_postgresql
from tiering.errors import CommitOutcomeUnknown, Fenced, LakeTableReplaced
from tiering.lake.base import Committable, Lake, LakeTieringFactory, LakeView, WriterInitContext
from tiering.lake.maintenance import LakeMaintenance
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.rules.base_check import CommitOutcome, ExpectedLake, check_base, check_same_base, resolve_commit
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, round_of, sweep_verdicts
from tiering.lake.writing.serializers import deserialize_write_result, serialize_write_result
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TablePath, TableType

CLUSTER = "11111111-1111-1111-1111-111111111111"
TABLE = TableInfo(7, TablePath("sales", "orders"), TableType.LOG, COLUMNS, 2, datetime(2024, 1, 1, tzinfo=UTC))
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
HOUR = timedelta(hours=1)


ON_HDFS = "iceberg, hadoop catalog on HDFS"


BY_REST, BY_POSTGRESQL = "iceberg in S3, REST catalog", "iceberg in S3, SQL catalog on PostgreSQL"


@pytest.fixture(scope="session")
def rest_lake(rest_catalog_on_s3: RestCatalog) -> Mapping[str, str]:
    return {**rest_catalog_on_s3.lake, **rest_catalog_on_s3.secrets}


@pytest.fixture(scope="session")
def postgresql_lake(s3_store: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with running_postgresql(tmp_path_factory.mktemp("postgresql")) as port:
        uri = f"postgresql+psycopg://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/{DATABASE}"
        yield {"type": "sql", "uri": uri, "warehouse": f"{WAREHOUSE}-of-postgresql", **s3_store.place, **s3_store.keys}


IN_S3 = {BY_REST: "rest_lake", BY_POSTGRESQL: "postgresql_lake"}


PAIMON_IN_S3 = {"paimon in S3": PaimonInS3UnderTest, "paimon in S3, clean layout": CleanPaimonInS3UnderTest}


@pytest.fixture(params=[*LAKES, *(pytest.param(name, marks=pytest.mark.in_turn("world")) for name in (ON_HDFS, *IN_S3, *PAIMON_IN_S3))])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> LakeUnderTest:
    if request.param == ON_HDFS:
        return HdfsUnderTest(request.getfixturevalue("hdfs"), f"conformance-{uuid.uuid4().hex}")
    if request.param in IN_S3:
        return InS3UnderTest(tmp_path, request.getfixturevalue(IN_S3[request.param]))
    if request.param in PAIMON_IN_S3:
        store: S3Server = request.getfixturevalue("s3_store")
        place = {"warehouse": f"s3://{BUCKET}/paimon-{uuid.uuid4().hex}", **store.place, **store.keys}
        return PAIMON_IN_S3[request.param](place)
    return LAKES[request.param](tmp_path)


@dataclass(frozen=True)
class Round:
    """A round whose files are written and whose commit was not sent yet."""

    factory: LakeTieringFactory
    committable: Committable
    base: LakeView
    marker: Marker

    def commit(self, base: LakeView | None = None) -> int:
        return self.factory.create_committer().commit(self.committable, base or self.base, self.marker)


def rows(table: TableInfo, bucket: BucketKey, start: int, stop: int) -> pa.RecordBatch:
    """Records `[start, stop)` of one bucket; a column that is not in COLUMNS is null."""
    count = stop - start
    values: dict[str, pa.Array] = {
        "id": pa.array(range(start, stop), pa.int64()),
        "name": pa.array([f"name {offset}" for offset in range(start, stop)]),
        "small": pa.array([offset % 100 for offset in range(start, stop)], pa.int16()),
        "__bucket": pa.array([bucket.bucket_id] * count, pa.int32()),
        "__offset": pa.array(range(start, stop), pa.int64()),
        "__timestamp": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * count, pa.timestamp("us", "UTC")),
    }
    schema = table.lake_schema()
    return pa.RecordBatch.from_arrays([values.get(field.name, pa.nulls(count, field.type)) for field in schema], schema=schema)


def prepare(lake: Lake, round_id: str, stops: Mapping[BucketKey, int], table: TableInfo = TABLE) -> Round:
    """Writes everything between the lake's marker and `stops`."""
    base = lake.ensure_table(table)
    factory = lake.tiering_factory(table)
    before = {} if base.marker is None else dict(base.marker.buckets)
    results = []
    for bucket, stop in stops.items():
        start = before[bucket].tiered if bucket in before else 0
        writer = factory.create_writer(WriterInitContext(table, base.table_uuid, bucket, None, round_id, f"nonce-{round_id}"))
        writer.write(rows(table, bucket, start, stop))
        results.append(deserialize_write_result(serialize_write_result(writer.complete(start, stop))))
    after = {**before, **{bucket: TieredRange(0, stop) for bucket, stop in stops.items()}}
    base_round = None if base.marker is None else base.marker.round_id
    proofs = advanced({} if base.marker is None else base.marker.proofs, before, after, results, round_id)
    marker = Marker(CLUSTER, table.table_id, base.table_uuid, round_id, 1, base_round, after, proofs=proofs)
    return Round(factory, Committable(round_id, tuple(results)), base, marker)


def tier(world: LakeUnderTest, round_id: str, stops: Mapping[BucketKey, int], table: TableInfo = TABLE) -> LakeView:
    """A whole round; the lake afterwards."""
    prepare(world.lake, round_id, stops, table).commit()
    return view(world, table)


def view(world: LakeUnderTest, table: TableInfo = TABLE) -> LakeView:
    current = world.lake.view(table.path)
    assert current is not None
    return current


def known(base: LakeView | None = None) -> ExpectedLake:
    return ExpectedLake(CLUSTER, TABLE.table_id, None if base is None else base.table_uuid, None if base is None else base.head)


def offsets(*ends: tuple[BucketKey, int]) -> list[tuple[int, int]]:
    return sorted((bucket.bucket_id, offset) for bucket, end in ends for offset in range(end))


def maintained(world: LakeUnderTest) -> LakeMaintenance:
    if not isinstance(world.lake, LakeMaintenance):
        pytest.skip("this format offers no maintenance")
    return world.lake


# --- tables


def test_a_table_that_is_not_there_has_no_view(world: LakeUnderTest) -> None:
    assert world.lake.view(TablePath("sales", "nothing")) is None


def test_a_table_is_made_once_and_empty(world: LakeUnderTest) -> None:
    first = world.lake.ensure_table(TABLE)
    again = world.another_process().ensure_table(TABLE)
    assert again.table_uuid == first.table_uuid
    assert (first.head, first.tiered, first.marker, dict(first.snapshots)) == (None, None, None, {})
    assert first.records in (0, None)
    assert "sales" in world.lake.databases()
    assert check_base(first, known()).marker is None


def test_no_table_is_made_where_none_may_be(world: LakeUnderTest) -> None:
    with pytest.raises(LakeTableReplaced, match="there is no lake table"):
        world.lake.ensure_table(TABLE, may_create=False)
    assert world.lake.view(TABLE.path) is None

    first = world.lake.ensure_table(TABLE)
    assert world.lake.ensure_table(TABLE, may_create=False).table_uuid == first.table_uuid


def test_a_column_that_is_new_is_added_and_leaves_the_newest_tiering_commit_where_it_is(world: LakeUnderTest) -> None:
    before = tier(world, "r1", {B0: 3})
    wider = replace(TABLE, schema=TABLE.schema.append(pa.field("note", pa.string())))

    after = world.lake.ensure_table(wider)

    assert (after.table_uuid, after.head, after.tiered, after.marker) == (before.table_uuid, before.head, before.tiered, before.marker)
    assert tier(world, "r2", {B0: 5}, wider).marker is not None
    assert world.offsets(wider) == offsets((B0, 5))


# --- writing


def test_nothing_that_is_written_shows_before_the_commit(world: LakeUnderTest) -> None:
    prepared = prepare(world.lake, "r1", {B0: 10, B1: 5})
    assert view(world).head is None
    prepared.commit()
    assert world.offsets(TABLE) == offsets((B0, 10), (B1, 5))


def test_a_write_result_says_what_was_written(world: LakeUnderTest) -> None:
    results = prepare(world.lake, "r1", {B0: 10}).committable.results
    assert [(result.bucket, result.starting_offset, result.reached_offset, result.records) for result in results] == [(B0, 0, 10, 10)]


def test_bytes_that_are_no_write_result_are_refused(world: LakeUnderTest) -> None:
    world.lake.ensure_table(TABLE)
    with pytest.raises(ValueError, match="version 9"):
        deserialize_write_result(b"\x09whatever")


def test_a_factory_travels_to_executors(world: LakeUnderTest) -> None:
    if not world.factories_travel:
        pytest.skip("this lake lives in one process")
    base = world.lake.ensure_table(TABLE)
    factory: LakeTieringFactory = pickle.loads(pickle.dumps(world.lake.tiering_factory(TABLE)))
    writer = factory.create_writer(WriterInitContext(TABLE, base.table_uuid, B0, None, "r1", "nonce"))
    writer.write(rows(TABLE, B0, 0, 4))
    assert writer.complete(0, 4).records == 4


def test_a_writer_for_another_lake_table_is_refused(world: LakeUnderTest) -> None:
    world.lake.ensure_table(TABLE)
    with pytest.raises(LakeTableReplaced):
        world.lake.tiering_factory(TABLE).create_writer(WriterInitContext(TABLE, "another-table", B0, None, "r1", "nonce"))


def test_partitions_have_ranges_of_their_own(world: LakeUnderTest) -> None:
    schema = pa.schema([*COLUMNS, pa.field("region", pa.string(), nullable=False)])
    table = replace(TABLE, path=TablePath("sales", "by_region"), schema=schema, partition_keys=("region",))
    base = world.lake.ensure_table(table)
    factory = world.lake.tiering_factory(table)
    results = []
    for partition_id, region in ((1, "eu"), (2, "us")):
        bucket = BucketKey(partition_id, 0)
        writer = factory.create_writer(WriterInitContext(table, base.table_uuid, bucket, region, "r1", f"nonce-{region}"))
        batch = rows(table, bucket, 0, 5)
        column = batch.schema.get_field_index("region")
        writer.write(batch.set_column(column, batch.schema.field(column), pa.array([region] * 5)))
        results.append(writer.complete(0, 5))
    buckets = {result.bucket: TieredRange(0, 5) for result in results}
    proofs = advanced({}, {}, buckets, results, "r1")
    marker = Marker(CLUSTER, table.table_id, base.table_uuid, "r1", 1, None, buckets, proofs=proofs)
    factory.create_committer().commit(Committable("r1", tuple(results)), base, marker)
    assert view(world, table).marker == marker
    assert world.offsets(table) == sorted([*offsets((B0, 5)), *offsets((B0, 5))])


def primary_key_table(world: LakeUnderTest, key: tuple[str, ...]) -> TableInfo:
    if not world.holds_primary_keys:
        pytest.skip("this lake holds log tables only")
    keys = [pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string(), nullable=False)]
    schema = pa.schema([*keys, pa.field("name", pa.string())])
    path = TablePath("sales", "customers")
    return TableInfo(8, path, TableType.PRIMARY_KEY, schema, 1, TABLE.created_at, primary_key=key)


@pytest.mark.parametrize("key", [("id",), ("id", "city")], ids=["one key column", "two"])
def test_a_primary_key_table_holds_the_last_row_of_each_key(world: LakeUnderTest, key: tuple[str, ...]) -> None:
    table = primary_key_table(world, key)
    insert, before, after, delete = ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE

    changed_keys(world, table, "r1", 0, [(insert, 1, "one"), (insert, 2, "two"), (before, 1, "one"), (after, 1, "uno")])
    assert world.names(table) == {1: "uno", 2: "two"}
    changed_keys(world, table, "r2", 4, [(delete, 2, "two"), (before, 1, "uno"), (after, 1, "eins"), (insert, 3, "drei")])
    assert world.names(table) == {1: "eins", 3: "drei"}
    changed_keys(world, table, "r3", 8, [(delete, 1, "eins"), (insert, 1, "again")])
    assert world.names(table) == {1: "again", 3: "drei"}


def test_a_changelog_without_before_images_leaves_the_last_row_of_each_key(world: LakeUnderTest) -> None:
    """Fluss writes such a changelog with `table.changelog.image` = WAL: an insert is a `+U`, too."""
    customers, after, delete = primary_key_table(world, ("id",)), ChangeType.UPDATE_AFTER, ChangeType.DELETE

    changed_keys(world, customers, "r1", 0, [(after, 1, "one"), (after, 2, "two"), (after, 1, "uno")])
    assert world.names(customers) == {1: "uno", 2: "two"}
    changed_keys(world, customers, "r2", 3, [(after, 1, "eins"), (delete, 2, "two"), (after, 2, "zwei"), (after, 3, "drei")])
    assert world.names(customers) == {1: "eins", 2: "zwei", 3: "drei"}
    changed_keys(world, customers, "r3", 7, [(delete, 1, "eins"), (after, 4, "vier"), (delete, 4, "vier")])
    assert world.names(customers) == {2: "zwei", 3: "drei"}


def changed_keys(world: LakeUnderTest, table: TableInfo, round_id: str, start: int, changes: list[tuple[ChangeType, int, str]]) -> None:
    """A whole round over `changes`, which begin at the offset `start`."""
    base = world.lake.ensure_table(table)
    factory = world.lake.tiering_factory(table)
    standing = world.lake.bucket_files(table, base, {B0: None}).get(B0, b"")
    writer = factory.create_writer(WriterInitContext(table, base.table_uuid, B0, None, round_id, f"nonce-{round_id}", standing))
    records = [
        {
            "id": key,
            "city": f"city {key % 2}",
            "name": name,
            "__bucket": 0,
            "__offset": offset,
            "__timestamp": TABLE.created_at,
            "__change_type": int(kind),
        }
        for offset, (kind, key, name) in enumerate(changes, start)
    ]
    writer.write(pa.RecordBatch.from_pylist(records, schema=table.read_schema()))
    stop = start + len(changes)
    base_round = None if base.marker is None else base.marker.round_id
    results, ranges = (writer.complete(start, stop),), {B0: TieredRange(0, stop)}
    proofs = advanced({} if base.marker is None else base.marker.proofs, base.ranges, ranges, results, round_id)
    marker = Marker(CLUSTER, table.table_id, base.table_uuid, round_id, 1, base_round, ranges, proofs=proofs)
    factory.create_committer().commit(Committable(round_id, results), base, marker)


# --- committing


def test_a_commit_is_one_snapshot_with_the_rounds_id_and_its_marker(world: LakeUnderTest) -> None:
    prepared = prepare(world.lake, "r1", {B0: 10})
    snapshot_id = prepared.commit()
    after = world.another_process().view(TABLE.path)
    assert after is not None
    assert (after.head, after.tiered, after.marker) == (snapshot_id, snapshot_id, prepared.marker)
    assert {snapshot.round_id for snapshot in after.snapshots.values()} == {"r1"}
    assert after.records in (10, None)


def test_commits_form_a_chain_and_a_view_stays_what_it_was(world: LakeUnderTest) -> None:
    first = tier(world, "r1", {B0: 10})
    second = tier(world, "r2", {B0: 20, B1: 7})
    assert first.tiered is not None
    assert second.tiered is not None
    newest, oldest = second.snapshots[second.tiered], second.snapshots[first.tiered]
    assert newest.parent_id == first.head
    assert newest.sequence_number > oldest.sequence_number
    assert newest.committed_at >= oldest.committed_at
    assert second.tiered not in first.snapshots
    assert check_base(second, known(first)).marker == second.marker
    assert world.offsets(TABLE) == offsets((B0, 20), (B1, 7))


def test_a_long_marker_with_partitions_comes_back(world: LakeUnderTest) -> None:
    prepared = prepare(world.lake, "r1", {B0: 10})
    buckets = {BucketKey(partition, bucket): TieredRange(bucket, 2**40 + bucket) for partition in range(500) for bucket in range(9)}
    marker = replace(prepared.marker, buckets={**prepared.marker.buckets, **buckets})
    replace(prepared, marker=marker).commit()
    assert view(world).marker == marker


def test_a_commit_without_files_moves_the_marker(world: LakeUnderTest) -> None:
    tier(world, "r1", {B0: 10})
    after = tier(world, "r2", {})
    assert after.marker is not None
    assert after.marker.round_id == "r2"
    assert world.offsets(TABLE) == offsets((B0, 10))


def test_a_commit_that_is_sent_twice_lands_once(world: LakeUnderTest) -> None:
    prepared = prepare(world.lake, "r1", {B0: 10})
    prepared.commit()
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert world.offsets(TABLE) == offsets((B0, 10))
    assert len(view(world).snapshots) == 1


def test_a_lost_answer_is_resolved_as_ours(world: LakeUnderTest) -> None:
    prepared = prepare(world.lake, "r1", {B0: 10})
    with pytest.raises(CommitOutcomeUnknown):
        world.faulty_committer(prepared.factory, lands=True).commit(prepared.committable, prepared.base, prepared.marker)
    resolved = resolve_commit(view(world), "r1", check_base(prepared.base, known()))
    assert (resolved.outcome, resolved.snapshot_id) == (CommitOutcome.OURS, view(world).tiered)
    assert world.offsets(TABLE) == offsets((B0, 10))


def test_a_lost_request_is_resolved_as_not_found_and_may_be_sent_again(world: LakeUnderTest) -> None:
    prepared = prepare(world.lake, "r1", {B0: 10})
    base = check_base(prepared.base, known())
    with pytest.raises(CommitOutcomeUnknown):
        world.faulty_committer(prepared.factory, lands=False).commit(prepared.committable, prepared.base, prepared.marker)
    assert resolve_commit(view(world), "r1", base).outcome is CommitOutcome.NOT_FOUND
    prepared.commit(check_same_base(base, view(world), known()).view)
    assert world.offsets(TABLE) == offsets((B0, 10))


def test_a_round_on_a_stale_base_never_lands(world: LakeUnderTest) -> None:
    tier(world, "r1", {B0: 10})
    stale = prepare(world.lake, "r2", {B0: 20})
    tier(world, "r3", {B0: 15})

    with pytest.raises(CommitOutcomeUnknown):
        stale.commit()

    assert resolve_commit(view(world), "r2", check_base(stale.base, known())).outcome is CommitOutcome.OTHER_ROUND
    with pytest.raises(Fenced):
        stale.commit(view(world))
    assert world.offsets(TABLE) == offsets((B0, 15))


def test_a_foreign_commit_in_between_is_built_upon(world: LakeUnderTest) -> None:
    tier(world, "r1", {B0: 10})
    prepared = prepare(world.lake, "r2", {B0: 20})
    base = check_base(prepared.base, known(prepared.base))
    world.foreign_commit(TABLE)

    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert resolve_commit(view(world), "r2", base).outcome is CommitOutcome.NOT_FOUND
    prepared.commit(check_same_base(base, view(world), known(prepared.base)).view)

    after = view(world)
    assert after.marker == prepared.marker
    assert check_base(after, known(prepared.base)).marker == prepared.marker
    assert world.offsets(TABLE) == offsets((B0, 20))


def test_a_foreign_commit_is_never_taken_for_the_newest_tiering_commit(world: LakeUnderTest) -> None:
    before = tier(world, "r1", {B0: 10})
    world.foreign_commit(TABLE)
    after = view(world)
    assert after.head != before.head
    assert (after.tiered, after.marker) == (before.tiered, before.marker)
    assert check_base(after, known(before)).marker == before.marker


# --- what is left over


def stored(world: LakeUnderTest) -> set[str]:
    return {file.name for file in maintained(world).stored_files(view(world))}


def test_an_aborted_writer_takes_only_its_own_files(world: LakeUnderTest) -> None:
    tier(world, "r1", {B0: 10})
    before = stored(world)
    base = view(world)
    writer = world.lake.tiering_factory(TABLE).create_writer(WriterInitContext(TABLE, base.table_uuid, B0, None, "r2", "nonce"))
    writer.write(rows(TABLE, B0, 10, 20))
    writer.complete(10, 20)
    assert stored(world) > before
    writer.abort()
    assert stored(world) == before


def test_an_aborted_committable_takes_only_its_own_files(world: LakeUnderTest) -> None:
    tier(world, "r1", {B0: 10})
    before = stored(world)
    aborted, other = prepare(world.lake, "r2", {B0: 20}), prepare(world.lake, "r3", {B0: 20})
    aborted.factory.create_committer().abort(aborted.committable)
    other.commit()
    assert stored(world) >= before
    assert not any(round_of(name, {"r2"}) for name in stored(world))
    assert world.offsets(TABLE) == offsets((B0, 20))


def test_the_sweep_finds_what_a_dead_round_left_and_nothing_else(world: LakeUnderTest) -> None:
    lake = maintained(world)
    tier(world, "r1", {B0: 10})
    prepare(world.lake, "dead", {B0: 20})
    now = view(world)
    table = SweptTable(now.table_uuid, now.snapshots.keys(), now.tiered, lake.live_files(now), {"r1"})
    fates = {"r1": RoundFate(ended=True, granted_on=(None,), landed=True, granted_for=now.table_uuid), "dead": RoundFate(ended=True)}

    verdicts = sweep_verdicts(lake.stored_files(now), fates, table, datetime.now(UTC) + HOUR, HOUR / 2)

    doomed = [file for file, verdict in verdicts if verdict is Verdict.REMOVE]
    assert [round_of(file.name, fates) for file in doomed] == ["dead"]
    assert all(verdict in (Verdict.REMOVE, Verdict.LIVE, Verdict.NOT_OURS) for _, verdict in verdicts)
    for file in doomed:
        lake.delete_file(now, file.location)
        lake.delete_file(now, file.location)  # again does no harm
    assert world.offsets(TABLE) == offsets((B0, 10))
    tier(world, "r2", {B0: 20})
    assert world.offsets(TABLE) == offsets((B0, 20))


def test_a_survey_tells_offsets_and_markers(world: LakeUnderTest) -> None:
    lake = maintained(world)
    before = tier(world, "r1", {B0: 10, B1: 5})
    survey = lake.survey(TABLE.path)
    assert survey is not None
    assert survey.newest_marker == before.marker
    assert lake.row_offsets(TABLE, survey.view, {}).ranges() == {(None, 0): (0, 10), (None, 1): (0, 5)}
    assert lake.survey(TablePath("sales", "nothing")) is None
