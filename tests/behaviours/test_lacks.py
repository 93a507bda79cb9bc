"""A backend really lacks what it declares to lack, and the suite leaves nothing else out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from support.behaviours.backends import EMBEDDED, FLUSS, LACKS, OTHER_KINDS
from support.behaviours.deployment import SCHEMA, Deployment
from support.behaviours.lacks import Lack
from support.behaviours.summary import summary
from tiering.cluster.registry import BUILT_IN
from tiering.errors import AlreadyExists, InvalidArgument, LakewardError


def no_kv_snapshot_on_demand(deployment: Deployment) -> None:
    table = deployment.make("planes", key=("id",))
    table.write({1: "a"})
    with pytest.raises(LakewardError, match="KV snapshot"):
        table.call("take_kv_snapshot")


def no_log_cut_on_demand(deployment: Deployment) -> None:
    """Two of the cluster's KV snapshots later, which come every other second, all of a tiered log is there."""
    table = deployment.make("planes", key=("id",), properties={"table.log.ttl": "1ms"})
    for text in ("a", "b"):
        table.write({1: text})
        table.tiered()
        table.kv_snapshots()
    assert {bucket.log_start for bucket in deployment.cluster.offsets(table.info).values()} == {0}


def no_remembered_writers(deployment: Deployment) -> None:
    table = deployment.make("orders", buckets=1)
    rows = pa.Table.from_pylist([{"id": 1, "text": "a"}], schema=SCHEMA)
    ranges = [deployment.cluster.append(table.path, rows, "writer", 0) for _ in range(2)]
    assert [appended.stopping_offset for (appended,) in ranges] == [1, 2]
    assert not deployment.cluster.remembers_writers


def no_skipped_records(deployment: Deployment) -> None:
    table = deployment.make("planes", key=("id",))
    table.write({1: "a"})
    with pytest.raises(LakewardError):
        table.call("skip_record", bucket_id=0, offset=0)


def no_other_table_options(deployment: Deployment) -> None:
    table = deployment.make("orders")
    with pytest.raises(InvalidArgument, match="Fluss cannot alter"):
        table.call("set_table_option", name="table.log.ttl", value="3 d")


def not_every_timestamp_upserted(deployment: Deployment) -> None:
    table = deployment.make("days", pa.schema([*SCHEMA, pa.field("at", pa.timestamp("us"))]), key=("id",))
    for at, why in ((datetime(9999, 12, 31, 23), "overflowed"), (datetime(1969, 12, 31, 23, 59, 59, 1), "nanoOfMillisecond")):
        with pytest.raises(LakewardError, match=why):
            table.upsert([{"id": 1, "at": at}])


def no_several_bucket_keys(deployment: Deployment) -> None:
    schema = pa.schema([field.with_nullable(False) for field in SCHEMA])
    with pytest.raises(InvalidArgument, match=r"(?i)one (bucket key|field)"):
        deployment.make("two", schema, key=("id", "text")).write({1: "a"})


def not_every_bucket_key(deployment: Deployment) -> None:
    table = deployment.make("instants", pa.schema([pa.field("at", pa.timestamp("us", "UTC"), nullable=False)]), key=("at",))
    with pytest.raises(InvalidArgument, match="Unsupported type for Iceberg"):
        table.upsert([{"at": datetime(2024, 2, 29, tzinfo=UTC)}])
    table = deployment.make("texts", pa.schema([pa.field("text", pa.string(), nullable=False)]), key=("text",))
    with pytest.raises(InvalidArgument, match="must not be empty"):
        table.upsert([{"text": ""}])


def no_added_columns(deployment: Deployment) -> None:
    table = deployment.make("orders")
    with pytest.raises(InvalidArgument, match="AddColumn"):
        table.add_column("note", pa.string())


def no_lake_enabled_again(deployment: Deployment) -> None:
    table = deployment.make("orders")
    table.set_lake(False)
    with pytest.raises(AlreadyExists, match="already exists"):
        table.set_lake(True)


def no_name_used_again(deployment: Deployment) -> None:
    table = deployment.make("orders", key=("id",))
    table.write({1: "a"})
    table.tiered()
    table.drop()
    with pytest.raises(AlreadyExists) as refused:
        deployment.make("orders", key=("id",))
    assert "lake" in str(refused.value.hint)


PROOFS: Mapping[Lack, Callable[[Deployment], None]] = {
    Lack.KV_SNAPSHOT_ON_DEMAND: no_kv_snapshot_on_demand,
    Lack.LOG_CUT_ON_DEMAND: no_log_cut_on_demand,
    Lack.REMEMBERED_WRITERS: no_remembered_writers,
    Lack.SKIPPED_RECORDS: no_skipped_records,
    Lack.OTHER_TABLE_OPTIONS: no_other_table_options,
    Lack.EVERY_TIMESTAMP_UPSERTED: not_every_timestamp_upserted,
    Lack.SEVERAL_BUCKET_KEYS: no_several_bucket_keys,
    Lack.ADDED_COLUMNS: no_added_columns,
    Lack.EVERY_BUCKET_KEY: not_every_bucket_key,
    Lack.LAKE_ENABLED_AGAIN: no_lake_enabled_again,
    Lack.NAME_USED_AGAIN: no_name_used_again,
}
DECLARED = [(next(name for name, lacks in LACKS.items() if lack in lacks), lack) for lack in Lack]
"""Each with one backend: what both of Fluss lack is the same there."""


@pytest.mark.parametrize(("backend", "lack"), DECLARED, indirect=["backend"], ids=[f"{name}: {lack.name}" for name, lack in DECLARED])
def test_a_declared_lack_is_real(deployment: Deployment, lack: Lack) -> None:
    PROOFS[lack](deployment)


def test_the_embedded_cluster_lacks_nothing_and_every_kind_has_a_backend() -> None:
    assert not LACKS[EMBEDDED]
    assert not any(LACKS[name] for name in OTHER_KINDS)
    assert BUILT_IN.keys() <= LACKS.keys()
    assert PROOFS.keys() == set(Lack)


def test_nothing_is_left_out_but_for_a_declared_lack() -> None:
    sources = [path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path.name != Path(__file__).name]
    assert not [line for text in sources for line in text.splitlines() if re.search(r"\b(skip|skipif|xfail|importorskip)\(", line)]
    assert all(f"Lack.{lack.name}" in "".join(sources) for lack in Lack if lack is not Lack.REMEMBERED_WRITERS)


def test_the_list_is_printed_when_the_suite_has_run() -> None:
    report = pytest.TestReport("tests/behaviours/test_x.py::test_y[fluss-log]", ("", 0, ""), {}, "passed", None, "call", duration=1.5)
    [first, *rest] = summary([report])
    assert first == "fluss: 1 tests in 2 s; cannot do:"
    assert sorted(rest) == sorted(f"  {lack.name}: {lack.value}" for lack in LACKS[FLUSS])
