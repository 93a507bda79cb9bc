"""Paimon tables in S3: what a store has to do for them, what is refused, and what a commit meets that comes late."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.lakes.paimon_kit import B0, CLUSTER_ID, PaimonKit, PreparedRound
from support.object_store.faulty_http import Fault, FaultyHttp, faulty_http
from support.object_store.paimon_warehouse import PaimonWarehouse
from support.object_store.s3_server import BUCKET, S3Server
from support.worlds.coordinator_world import HandClock
from tiering.errors import CommitOutcomeUnknown, InvalidArgument, LakeTableReplaced, LakeUnavailable, MarkerCorrupt
from tiering.lake.catalog_properties import public_properties, storage_properties
from tiering.lake.paimon import opening
from tiering.lake.paimon.commit.committer import PaimonCommitter, publish
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.opening import open_paimon, warehouse_in_s3
from tiering.lake.paimon.reading.loading import marker_folder, read_marker_file, write_marker_file
from tiering.lake.paimon.storage.s3 import PROBE, S3Storage
from tiering.lake.rules.base_check import ExpectedLake, check_base
from tiering.lake.writing.sent_rounds import SentRounds
from tiering.model.tables import SnapshotRetention


class KitInS3(PaimonKit):
    """A warehouse in S3, by these properties."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.warehouse: Any = warehouse_in_s3(properties)
        self.storage = S3Storage.of(storage_properties(properties))
        self.lake = PaimonLake(self.warehouse, self.storage)


@pytest.fixture
def warehouse(s3_store: S3Server) -> PaimonWarehouse:
    return PaimonWarehouse(s3_store)


@pytest.fixture
def proxy(s3_store: S3Server) -> Iterator[FaultyHttp]:
    with faulty_http(s3_store.endpoint) as proxy:
        yield proxy


@pytest.fixture
def kit(warehouse: PaimonWarehouse, proxy: FaultyHttp) -> KitInS3:
    """A kit whose requests go through the proxy."""
    return KitInS3({**warehouse.all_properties, "s3.endpoint": proxy.uri})


def prepared(kit: KitInS3, round_id: str = "r1") -> PreparedRound:
    return kit.prepare(kit.log_table(), round_id, {"id": [1, 2], "name": ["a", "b"]})


@pytest.mark.parametrize(("status", "reason"), [(200, "it ignores If-None-Match"), (501, "it answers 501")])
def test_a_store_without_conditional_writes_is_refused_before_a_table_is_made(
    kit: KitInS3, proxy: FaultyHttp, warehouse: PaimonWarehouse, status: int, reason: str
) -> None:
    proxy.add(Fault.ERROR_INSTEAD, "PUT", PROBE, status=status)
    with pytest.raises(InvalidArgument, match=reason) as caught:
        kit.lake.ensure_table(kit.log_table())
    assert "one of two concurrent rounds would be lost" in str(caught.value.hint)
    assert warehouse.store.files(warehouse.folder) == []


def test_a_store_is_asked_once_in_the_life_of_a_process(kit: KitInS3, proxy: FaultyHttp) -> None:
    prepared(kit).commit()
    prepared(kit, "r2").commit()
    KitInS3({**dict(kit.storage.properties), "warehouse": kit.storage.location(kit.warehouse)}).lake.ensure_table(kit.log_table())
    assert len([path for path in proxy.put if path.endswith(PROBE)]) == 2  # one made it, one was refused


def test_a_store_that_is_away_is_no_verdict(kit: KitInS3, proxy: FaultyHttp) -> None:
    proxy.add(Fault.ERROR_INSTEAD, status=503)
    with pytest.raises(LakeUnavailable, match="503"):
        kit.lake.ensure_table(kit.log_table())
    proxy.heal()
    assert prepared(kit).commit() == 1


def test_a_commit_is_sent_once_whatever_is_answered(kit: KitInS3, proxy: FaultyHttp) -> None:
    waiting = prepared(kit)
    rule = proxy.add(Fault.ERROR_INSTEAD, "PUT", "/snapshot/snapshot-1", status=503)
    with pytest.raises(CommitOutcomeUnknown, match="503"):
        waiting.commit()
    assert rule.hits == 1


def test_of_two_commits_on_one_base_the_second_is_refused_and_leaves_the_first(kit: KitInS3) -> None:
    first, second = prepared(kit, "r1"), prepared(kit, "r2")
    assert first.commit() == 1
    with pytest.raises(CommitOutcomeUnknown):
        second.commit()
    with pytest.raises(CommitOutcomeUnknown):
        PaimonCommitter(second.factory.state.root, SentRounds(), put_blindly, kit.storage).commit(
            second.committable, second.base, second.marker
        )
    view = kit.lake.view(kit.log_table().path)
    assert view is not None
    assert view.marker == first.marker


def put_blindly(base: Any, snapshot_id: int, content: bytes) -> None:
    """The request alone, as one that was held up on its way."""
    with base.storage.opened_table(base.root) as folder:
        folder.create("snapshot", f"snapshot-{snapshot_id}", content)


def test_a_commit_that_comes_late_is_no_base_of_a_table_that_was_made_anew(kit: KitInS3, warehouse: PaimonWarehouse) -> None:
    table, waiting = kit.log_table(), prepared(kit)

    def meanwhile(*request: Any) -> None:
        warehouse.store.file_system().delete_dir_contents(f"{BUCKET}/{warehouse.folder}/sales.db/orders")
        PaimonLake(kit.warehouse, kit.storage).ensure_table(table)
        put_blindly(*request)

    committer = PaimonCommitter(waiting.factory.state.root, SentRounds(), meanwhile, kit.storage)
    committer.commit(waiting.committable, waiting.base, waiting.marker)
    view = kit.lake.view(table.path)
    assert view is not None
    assert view.table_uuid != waiting.base.table_uuid
    with pytest.raises(LakeTableReplaced):
        check_base(view, ExpectedLake(CLUSTER_ID, table.table_id, view.table_uuid, None))


def test_a_table_that_was_made_anew_meanwhile_takes_no_commit(kit: KitInS3, warehouse: PaimonWarehouse) -> None:
    table, waiting = kit.log_table(), prepared(kit)

    def late(*request: Any) -> None:
        warehouse.store.file_system().delete_dir_contents(f"{BUCKET}/{warehouse.folder}/sales.db/orders")
        PaimonLake(kit.warehouse, kit.storage).ensure_table(table)
        publish(*request)

    with pytest.raises(CommitOutcomeUnknown, match="dropped or replaced"):
        PaimonCommitter(waiting.factory.state.root, SentRounds(), late, kit.storage).commit(
            waiting.committable, waiting.base, waiting.marker
        )
    view = kit.lake.view(table.path)
    assert view is not None
    assert view.head is None


def test_a_marker_file_is_read_from_its_own_place_alone(kit: KitInS3) -> None:
    folder = marker_folder(kit.warehouse, str(uuid.uuid4()))
    write_marker_file(kit.storage, folder / "a.marker", b"content")
    assert read_marker_file(kit.storage, folder, kit.storage.location(folder / "a.marker")) == b"content"
    for elsewhere in (f"s3://{BUCKET}/a.marker", str(folder / "a.marker"), kit.storage.location(folder / "x" / "a.marker")):
        with pytest.raises(MarkerCorrupt):
            read_marker_file(kit.storage, folder, elsewhere)


def test_no_key_is_in_what_is_shown_or_told(kit: KitInS3, warehouse: PaimonWarehouse) -> None:
    kit.lake.ensure_table(kit.log_table())
    factory, secret = kit.lake.tiering_factory(kit.log_table()), warehouse.store.secret_key
    assert secret not in repr(factory)
    assert secret not in repr(kit.storage)
    assert secret not in str(public_properties(warehouse.all_properties))


PLACE = {"warehouse": "s3://bucket/lake", "s3.region": "us-east-1"}


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({**PLACE, "type": "rest"}, "catalog of type 'rest'"),
        ({"warehouse": "s3://bucket/lake"}, "no region"),
        ({**PLACE, "s3.role-arn": "arn:aws:iam::1:role/r"}, "'s3.role-arn'"),
        ({**PLACE, "s3.anonymous": "true"}, "'s3.anonymous'"),
        *(
            ({**PLACE, "warehouse": f"s3://{path}"}, "not supported")
            for path in ("", "/", "bucket//lake", "bucket/../lake", "id:key@bucket/lake")
        ),
        *(({"warehouse": place}, "not supported") for place in ("gs://bucket/lake", "hdfs://host/lake", "oss://bucket/lake", "lake")),
    ],
)
def test_what_is_not_supported_is_refused_by_name(properties: Mapping[str, str], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason) as caught:
        open_paimon(properties)
    assert caught.value.hint
    assert "key@" not in str(caught.value)


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "find_spec", lambda _: None)
    with pytest.raises(InvalidArgument, match="boto3") as caught:
        open_paimon(PLACE)
    assert "[paimon-s3]" in str(caught.value.hint)


def test_keys_come_from_the_environment_of_a_process(monkeypatch: pytest.MonkeyPatch, warehouse: PaimonWarehouse) -> None:
    for name, value in warehouse.secrets.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper().replace('.', '__').replace('-', '_')}", value)
    assert open_paimon(warehouse.lake).databases() == []


def test_a_snapshot_is_copied_whole_for_engines_that_read_local_files(kit: KitInS3, tmp_path: Path) -> None:
    prepared(kit).commit()
    view = kit.lake.view(kit.log_table().path)
    assert view is not None
    [file] = kit.lake.file_lists(view, None, tmp_path).data
    assert file.location.startswith(f"s3://{kit.warehouse}/sales.db/orders/bucket-0/")
    assert Path(file.path).stat().st_size == view.size_bytes or view.size_bytes is None
    shutil.rmtree(tmp_path)
    with pytest.raises(InvalidArgument, match="is not a local file"):
        kit.lake.file_lists(view, None)


def test_executors_need_neither_pypaimon_nor_boto3() -> None:
    modules = "import sys, tiering.lake.paimon.factory, tiering.lake.paimon.storage.s3"
    code = f"{modules}; print({{'pypaimon', 'boto3', 'botocore'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_small_files_are_merged_and_snapshots_expire_in_s3(warehouse: PaimonWarehouse) -> None:
    kit, clock = KitInS3(warehouse.all_properties), HandClock()
    kit.lake = PaimonLake(kit.warehouse, kit.storage, clock)
    options = {"table.datalake.layout": "clean"}
    table = kit.log_table(properties=options, snapshot_retention=SnapshotRetention(60_000, 2))
    for number in range(12):
        round_of_row = kit.prepare(table, f"r{number}", {"id": [number], "name": ["x"]})
        rewrites = kit.lake.merge_small_files(table, round_of_row.base, {B0: None}, f"r{number}", lambda: "m", 1 << 20)
        replace(round_of_row, committable=replace(round_of_row.committable, rewrites=tuple(rewrites))).commit()
        clock.advance(40)
    view = kit.lake.view(table.path)
    assert view is not None
    assert (view.files or 0) < 8
    assert len(view.snapshots) <= 5
    assert kit.lake.row_offsets(table, view, {}).ranges() == {(None, 0): (0, 12)}
    assert kit.lake.live_files(view)
