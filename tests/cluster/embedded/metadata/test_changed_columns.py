"""Changes of columns: what is refused changes nothing, a request that is sent again changes nothing twice, and comments stay."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.embedded import (
    PATH,
    SCHEMA,
    EmbeddedCluster,
    ManualClock,
    cities,
    days,
    make_table,
    order_ids,
    orders,
    scan,
    scan_all,
    served,
)
from tiering.cluster.column_types import MAX_COLUMNS, MAX_COMMENTS_BYTES
from tiering.cluster.embedded.kv import state
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import InvalidArgument, InvalidData, InvalidName, LakewardError, ServiceUnreachable, UnsupportedType
from tiering.model.schema.changes import (
    AddColumn,
    After,
    ChangeComment,
    ChangeType,
    DropColumn,
    DropNotNull,
    MoveColumn,
    RenameColumn,
    SchemaChange,
)
from tiering.model.schema.field_ids import COMMENT, comment, field_id
from tiering.model.tables import BucketKey

CITY = ("city",)
WIDE = [AddColumn(pa.field(f"c{number}", pa.int8())) for number in range(MAX_COLUMNS)]


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ([RenameColumn(CITY, "ID")], InvalidArgument, "'id' exists already"),
        ([RenameColumn(CITY, "__offset")], InvalidName, "__offset"),
        ([ChangeType(CITY, pa.int64())], InvalidArgument, "is STRING and cannot become BIGINT"),
        ([ChangeType(CITY, pa.uint64())], UnsupportedType, "uint64"),
        ([DropColumn(("id",))], InvalidArgument, "'id' is a key"),
        ([DropNotNull(("id",))], InvalidArgument, "'id' is a key"),
        ([DropColumn(("town",))], InvalidArgument, "no column 'town'"),
        ([AddColumn(pa.field("more", pa.int8()), ("city",))], InvalidArgument, "not a struct"),
        ([MoveColumn(CITY, After("town"))], InvalidArgument, "no column 'town'"),
        ([ChangeComment(CITY, "x" * (MAX_COMMENTS_BYTES + 1))], InvalidArgument, "comments"),
        ([DropColumn(())], InvalidArgument, "names no column"),
        (WIDE, InvalidArgument, f"at most {MAX_COLUMNS}"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_with_all_others(
    cluster: EmbeddedCluster, change: list[SchemaChange], error: type[LakewardError], reason: str
) -> None:
    table = make_table(cluster, bucket_count=2, bucket_keys=("id",))
    with pytest.raises(error, match=reason):
        cluster.alter_table(PATH, {"x": "y"}, [RenameColumn(CITY, "town"), RenameColumn(("town",), "city"), *change])
    assert cluster.table(PATH) == table


def test_comments_stay_and_other_metadata_of_a_new_table_does_not(cluster: EmbeddedCluster) -> None:
    street = pa.field("street", pa.string(), metadata={COMMENT: "inner"})
    noted = pa.field("address", pa.struct([street]), metadata={COMMENT: "outer", b"x": b"y"})
    make_table(cluster, schema=pa.schema([*SCHEMA, noted], metadata={b"x": b"y"}))
    table = cluster.alter_table(PATH, {}, [RenameColumn(("address",), "place"), ChangeComment(("id",), "key")])
    place = table.schema.field("place")
    assert (comment(place), comment(place.type.field(0)), comment(table.schema.field("id"))) == ("outer", "inner", "key")
    assert b"x" not in {**(place.metadata or {}), **(table.schema.metadata or {})}
    assert [field_id(field) for field in table.schema] == [1, 2, 3]


def test_a_dropped_name_is_free_and_its_values_do_not_come_back(cluster: EmbeddedCluster) -> None:
    make_table(cluster)
    cluster.append(PATH, cities((1, "Bonn")), "writer", 0)
    cluster.alter_table(PATH, {}, [DropColumn(CITY)])
    table = cluster.alter_table(PATH, {}, [AddColumn(SCHEMA.field("city"))])
    cluster.append(PATH, cities((2, "Ulm")), "writer", 1)
    assert scan_all(cluster, table)["city"].to_pylist() == [None, "Ulm"]


def test_a_change_whose_answer_was_lost_is_made_once(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage, served(storage) as remote:
        make_table(remote)
        perform, answers = remote._stub.AlterTable, []

        def lose_first(request: object, timeout: float) -> object:
            answers.append(perform(request, timeout=timeout))
            if len(answers) == 1:
                raise ServiceUnreachable("the answer was lost")
            return answers[-1]

        monkeypatch.setattr(remote._stub, "AlterTable", lose_first)
        table = remote.alter_table(PATH, {}, [DropColumn(CITY)])
        assert (len(answers), table.schema.names, table.schema_id) == (2, ["id"], 2)
        with pytest.raises(InvalidArgument, match="no column 'city'"):
            remote.alter_table(PATH, {}, [DropColumn(CITY)])


def test_a_write_of_before_the_change_is_known_again_and_a_new_one_needs_the_new_names(cluster: EmbeddedCluster) -> None:
    make_table(cluster)
    ranges = list(cluster.append(PATH, orders(0, 3), "writer", 0))
    cluster.alter_table(PATH, {}, [RenameColumn(CITY, "town"), MoveColumn(("town",), After(None))])

    assert list(cluster.append(PATH, orders(0, 3), "writer", 0)) == ranges
    for other in (orders(1, 3), orders(0, 3).rename_columns(["id", "town"])):
        with pytest.raises(InvalidArgument, match="wrote other rows"):
            cluster.append(PATH, other, "writer", 0)
    with pytest.raises(InvalidData, match="no column 'city'"):
        cluster.append(PATH, orders(3, 3), "writer", 1)
    assert scan_all(cluster, cluster.table(PATH))["id"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("is_keyed", [False, True])
def test_rows_of_a_dropped_partition_are_written_again_after_a_change(cluster: EmbeddedCluster, is_keyed: bool) -> None:
    rows = days((1, "eu", "2024-05-01"), (2, "us", "2024-05-01"))
    keys = ("id", "region", "day")
    make_table(
        cluster,
        bucket_keys=("id",),
        partition_keys=("region", "day"),
        primary_key=keys if is_keyed else (),
        schema=rows.schema,
    )
    write = cluster.upsert if is_keyed else cluster.append
    first = list(write(PATH, rows, "writer", 0))
    cluster.drop_partition(PATH, "eu$2024-05-01")
    table = cluster.alter_table(PATH, {}, [RenameColumn(CITY, "town"), AddColumn(pa.field("more", pa.int8()), position=After(None))])

    again = list(write(PATH, rows, "writer", 0))
    assert first[1] in again
    assert len(again) == 2
    assert list(write(PATH, rows, "writer", 0)) == again
    assert sorted(scan_all(cluster, table).select(["id", "town", "more"]).to_pylist(), key=str) == [
        {"id": 1, "town": "city 1", "more": None},
        {"id": 2, "town": "city 2", "more": None},
    ]


def test_rows_stay_if_the_process_ends_while_the_state_follows(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([*SCHEMA, pa.field("at", pa.struct([("x", pa.int16())]))])
    rows = pa.table({"id": [1, 2], "city": ["a", "b"], "at": [{"x": 1}, None]}, schema=schema)
    storage = EmbeddedStorage(tmp_path, clock)
    make_table(storage, primary_key=("id",), schema=schema)
    storage.upsert(PATH, rows, "writer", 0)
    storage.alter_table(
        PATH, {}, [ChangeType(("at", "x"), pa.int64()), AddColumn(pa.field("y", pa.int8()), ("at",)), RenameColumn(CITY, "town")]
    )

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(state, "converted_rows", die)
        with pytest.raises(KeyboardInterrupt):
            storage.delete(PATH, order_ids(1), "writer", 1)
    storage.close()

    with EmbeddedStorage(tmp_path, clock) as storage:
        table = storage.table(PATH)
        storage.delete(PATH, order_ids(1, 2), "writer", 1)
        deleted = scan(storage, table, BucketKey(None, 0), 2, 4).select(["id", "town", "at"]).to_pylist()
        assert deleted == [{"id": 1, "town": "a", "at": {"x": 1, "y": None}}, {"id": 2, "town": "b", "at": None}]
