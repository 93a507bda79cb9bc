"""A codec finds each difference between a dataclass and its message when it is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.v1.common_pb2 import PbBucket, PbBucketOffset, PbRecordedSnapshot, PbTablePath
from tiering.rpc.v1.coordinator_pb2 import PbUpkeepOrder
from tiering.wire.codec import Codec, MappingCodec, time_from_pb


@dataclass(frozen=True)
class LacksName:
    database_name: str


@dataclass(frozen=True)
class WrongType:
    database_name: str
    table_name: int


@dataclass(frozen=True)
class MayBeAbsent:
    database_name: str
    table_name: str | None


@dataclass(frozen=True)
class SeveralTypes:
    database_name: str
    table_name: str | int


@dataclass(frozen=True)
class NoCollection:
    database_name: str
    table_name: tuple[str, ...]


@dataclass(frozen=True)
class WrongMapping:
    lake_snapshot_id: int
    offsets: Mapping[str, int]


@pytest.mark.parametrize(
    ("value_class", "message_class"),
    [
        (LacksName, PbTablePath),
        (WrongType, PbTablePath),
        (MayBeAbsent, PbTablePath),
        (SeveralTypes, PbTablePath),
        (NoCollection, PbTablePath),
        (TablePath, PbBucket),
        (WrongMapping, PbRecordedSnapshot),
    ],
)
def test_a_difference_raises_type_error(value_class: type[Any], message_class: type[Any]) -> None:
    with pytest.raises(TypeError):
        Codec(value_class, message_class)


def test_fields_elsewhere_and_beside_have_to_exist() -> None:
    assert Codec(LacksName, PbTablePath, beside=("table_name",)).to_pb(LacksName("a"), table_name="b") == PbTablePath(
        database_name="a", table_name="b"
    )
    with pytest.raises(TypeError):
        Codec(TablePath, PbTablePath, elsewhere=("comment",))
    with pytest.raises(TypeError):
        Codec(TablePath, PbTablePath, beside=("comment",))


def test_a_mapping_needs_entries_of_a_key_and_a_value() -> None:
    with pytest.raises(TypeError):
        MappingCodec(str, int, PbBucketOffset)
    with pytest.raises(ValueError, match="too many"):
        MappingCodec(BucketKey, int, PbUpkeepOrder)


def test_a_time_that_python_cannot_represent_raises_an_error() -> None:
    assert time_from_pb(Timestamp()) == datetime(1970, 1, 1, tzinfo=UTC)
    with pytest.raises(OverflowError):
        time_from_pb(Timestamp(seconds=10**12))
    with pytest.raises(OverflowError):
        time_from_pb(Timestamp(seconds=2**62))
