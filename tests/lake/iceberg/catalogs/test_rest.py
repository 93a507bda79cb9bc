"""Commits over a REST catalog, by a small server of the test's own on a loopback port: answers that come late, wrong or never."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from support.lakes.hostile_lake import change_metadata, plant
from tiering.errors import CommitOutcomeUnknown, ForbiddenLocation, InvalidArgument, LakeUnavailable
from tiering.lake.iceberg.catalogs.file_io import io_of
from tiering.lake.iceberg.catalogs.opening import STORE_TIMEOUTS, open_catalog
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.rules.base_check import Base, CommitOutcome, resolve_commit
from tiering.model.tables import BucketKey

B0 = BucketKey(None, 0)


class RestServer(ThreadingHTTPServer):
    """Enough of the REST catalog's protocol for tables that exist, and for making them, in front of a SQL catalog.

    `answers` holds what happens to the next commits: `drop` ends the connection after the commit landed, a number
    answers with that status after it landed, `not:<number>` answers with it instead of committing.
    """

    daemon_threads = True

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.catalog = catalog
        self.answers: list[str] = []
        self.commits: list[CommitTableRequest] = []
        self.namespace: dict[str, str] = {}
        """Properties of each namespace."""
        self.refuses_locations = False
        self.config: dict[str, Any] = {"defaults": {}, "overrides": {}}
        self.table_config: dict[str, Any] = {}
        self.storage_credentials: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.redirection = ""

    def document(self, table: Table) -> dict[str, Any]:
        return {
            "metadata-location": table.metadata_location,
            "metadata": json.loads(table.metadata.model_dump_json()),
            "config": self.table_config,
            "storage-credentials": self.storage_credentials,
        }


class _Handler(BaseHTTPRequestHandler):
    server: RestServer

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        if self.server.redirection:
            self.send_response(307)
            self.send_header("Location", self.server.redirection)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if self.path.startswith("/v1/config"):
            return self._answer(200, self.server.config)
        if self.path.count("/") == 3:
            return self._answer(200, {"namespace": ["sales"], "properties": self.server.namespace})
        try:
            return self._answer(200, self.server.document(self.server.catalog.load_table(self._identifier())))
        except NoSuchTableError as error:
            return self._error(404, error)

    def do_HEAD(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/tables"):
            return self._create(CreateTableRequest.model_validate({"location": None, **json.loads(body)}))
        if self.path.endswith("/namespaces"):
            return self._error(409, RuntimeError("it is there"))
        request = CommitTableRequest.model_validate_json(body)
        self.server.commits.append(request)
        answer = self.server.answers.pop(0) if self.server.answers else "200"
        if answer.startswith("not:"):
            return self._error(int(answer.removeprefix("not:")), RuntimeError("as the test asked"))
        try:
            table = self.server.catalog.load_table(self._identifier())
            self.server.catalog.commit_table(table, request.requirements, request.updates)
        except CommitFailedException as error:
            return self._error(409, error)
        if answer == "drop":
            self.connection.close()
            self.close_connection = True
            return None
        if answer != "200":
            return self._error(int(answer), RuntimeError("as the test asked"))
        return self._answer(200, self.server.document(self.server.catalog.load_table(self._identifier())))

    def _create(self, request: CreateTableRequest) -> None:
        if request.location is not None and self.server.refuses_locations:
            return self._error(400, RuntimeError("this server chooses the folders itself"))
        table = self.server.catalog.create_table(
            ("sales", request.name),
            request.table_schema,
            request.location,
            request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            request.write_order or UNSORTED_SORT_ORDER,
            request.properties,
        )
        return self._answer(200, self.server.document(table))

    def _identifier(self) -> tuple[str, str]:
        *_, namespace, _, table = self.path.split("/")
        return namespace, table

    def _error(self, status: int, error: Exception) -> None:
        self._answer(status, {"error": {"message": str(error), "type": type(error).__name__, "code": status}})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Not in the test's output."""


@pytest.fixture
def server(kit: Any) -> Iterator[RestServer]:
    kit.tier(kit.table(), "r1", {B0: 10})
    server = RestServer(open_catalog(kit.properties))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def rest(server: RestServer, kit: Any) -> Any:
    """The kit with its lake behind the server."""
    kit.lake = IcebergLake(
        {
            "type": "rest",
            "uri": f"http://127.0.0.1:{server.server_address[1]}",
            "token": "t",
            "lakeward.allowed-locations": kit.properties["warehouse"],
        }
    )
    return kit


def dense(stop: int) -> list[tuple[int, int]]:
    return [(0, offset) for offset in range(stop)]


def test_a_round_lands_over_rest(rest: Any, server: RestServer) -> None:
    table = rest.table()
    after = rest.tier(table, "r2", {B0: 25})
    assert after.marker.round_id == "r2"
    assert after.tiered == after.head
    assert rest.offsets_in_lake(table) == dense(25)
    assert [requirement.type for requirement in server.commits[0].requirements] == [
        "assert-table-uuid",
        "assert-current-schema-id",
        "assert-ref-snapshot-id",
        "assert-ref-snapshot-id",
    ]


@pytest.mark.parametrize("answer", ["drop", "500", "502", "409", "404", "429"])
def test_a_commit_that_landed_is_ours_whatever_was_answered(rest: Any, server: RestServer, answer: str) -> None:
    table = rest.table()
    base = rest.view(table)
    server.answers = [answer]
    prepared = rest.prepare(table, "r2", {B0: 25}, view=base)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert len(server.commits) == 1
    assert resolve_commit(rest.view(table), "r2", Base(base, base.marker, False)).outcome is CommitOutcome.OURS
    assert rest.offsets_in_lake(table) == dense(25)


@pytest.mark.parametrize("answer", ["not:500", "not:409", "not:503"])
def test_a_commit_that_did_not_land_can_be_sent_again(rest: Any, server: RestServer, answer: str) -> None:
    table = rest.table()
    base = rest.view(table)
    server.answers = [answer]
    prepared = rest.prepare(table, "r2", {B0: 25}, view=base)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert resolve_commit(rest.view(table), "r2", Base(base, base.marker, False)).outcome is CommitOutcome.NOT_FOUND
    prepared.commit(rest.view(table))
    assert rest.offsets_in_lake(table) == dense(25)


@pytest.mark.parametrize("first", ["401", "not:401"])
def test_a_request_sent_again_for_its_credentials_lands_once(rest: Any, server: RestServer, first: str) -> None:
    """pyiceberg repeats a commit after a 401. Had the first one landed after all, the second meets its requirements."""
    table = rest.table()
    server.answers = [first]
    prepared = rest.prepare(table, "r2", {B0: 25})
    if first == "401":
        with pytest.raises(CommitOutcomeUnknown):
            prepared.commit()
    else:
        prepared.commit()
    assert len(server.commits) == 2
    assert rest.view(table).marker.round_id == "r2"
    assert rest.offsets_in_lake(table) == dense(25)


def test_a_stale_writer_is_refused_over_rest(rest: Any, server: RestServer) -> None:
    table = rest.table()
    base = rest.view(table)
    late = rest.prepare(table, "late", {B0: 30}, view=base)
    rest.tier(table, "early", {B0: 20})
    with pytest.raises(CommitOutcomeUnknown):
        late.commit()
    assert resolve_commit(rest.view(table), "late", Base(base, base.marker, False)).outcome is CommitOutcome.OTHER_ROUND
    assert rest.offsets_in_lake(table) == dense(20)


def test_a_server_that_is_away_is_a_lake_that_is_away(rest: Any, server: RestServer) -> None:
    table = rest.table()
    prepared = rest.prepare(table, "r2", {B0: 20})
    server.server_close()
    server.shutdown()
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    with pytest.raises(LakeUnavailable, match=r"cannot read the lake table sales\.orders"):
        rest.lake.view(table.path)
    assert rest.offsets_in_lake(table) == dense(10)


def test_a_server_that_tells_where_its_tables_are_gets_each_in_a_folder_of_its_own(rest: Any, server: RestServer) -> None:
    warehouse = rest.properties["warehouse"].removeprefix("file://")
    server.namespace = {"location": f"{warehouse}/elsewhere"}
    rest.lake.ensure_table(rest.table("visits"))
    location = rest.catalog().load_table("sales.visits").location()
    assert re.fullmatch(rf"{warehouse}/elsewhere/visits-[0-9a-f]{{12}}", location)


@pytest.mark.parametrize("namespace", [{}, {"location": "/elsewhere"}])
def test_a_server_that_chooses_folders_itself_does(rest: Any, server: RestServer, namespace: dict[str, str]) -> None:
    server.namespace, server.refuses_locations = namespace, True
    rest.lake.ensure_table(rest.table("visits"))
    assert rest.catalog().load_table("sales.visits").location().endswith("/sales/visits")


HOSTILE = {
    "py-io-impl": "evil_module.Evil",
    "py-catalog-impl": "evil_module.Evil",
    "s3.retry-strategy-impl": "evil_module.Evil",
    "uri": "http://127.0.0.1:1/",
    "oauth2-server-uri": "http://127.0.0.1:1/",
    "rest.sigv4-enabled": "true",
    "header.X-Iceberg-Access-Delegation": "remote-signing",
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.proxy-uri": "http://127.0.0.1:1",
    "s3.signer": "S3V4RestSigner",
    "warehouse": "file:///",
    "lakeward.allowed-locations": "file:///",
    "scan-planning-mode": "server",
    "snapshot-loading-mode": "nothing",
    "auth": {"type": "custom", "impl": "evil_module.Evil"},
    "ssl": {"cabundle": "/etc/passwd"},
}
"""Answers of a catalog that tries to be more than a catalog."""


@pytest.mark.parametrize("where", ["defaults", "overrides", "config", "storage-credentials", "properties"])
def test_of_a_catalogs_answers_nothing_but_credentials_passes(
    rest: Any, server: RestServer, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = plant(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    secrets = {"s3.access-key-id": "vended", "s3.session-token": "vended-token"}
    texts = {name: value for name, value in HOSTILE.items() if isinstance(value, str)}
    match where:
        case "config":
            server.table_config = {**texts, **secrets}
        case "storage-credentials":
            server.storage_credentials = [{"prefix": "file", "config": {**texts, **secrets}}]
        case "properties":
            catalog_file = rest.folder / "lake-catalog.db"
            change_metadata(catalog_file, lambda document: document["properties"].update(texts))
        case _:
            server.config[where] = {**HOSTILE, "prefix": "a/b", "namespace-separator": "%1F"}
    table = rest.table()
    own_places = rest.lake._properties["lakeward.allowed-locations"]
    after = rest.tier(table, "r2", {B0: 25})
    assert after.marker.round_id == "r2"
    assert not trace.exists()
    io = io_of(after.handle)
    passed = secrets if where in ("config", "storage-credentials") else {}
    assert io.properties == {**STORE_TIMEOUTS, **passed}
    assert [f"file://{root.removeprefix('file://')}" for root in io.places.roots] == [own_places]
    assert after.handle.config == {}
    prefix = "/v1/a/b/" if where in ("defaults", "overrides") else "/v1/namespaces/"
    assert all(path.startswith((prefix, "/v1/config")) for path in server.paths)


@pytest.mark.parametrize("prefix", ["../../x", "a?b", "a b", 7, "@evil"])
def test_a_prefix_that_no_path_has_is_refused(rest: Any, server: RestServer, prefix: object) -> None:
    server.config["overrides"] = {"prefix": prefix}
    with pytest.raises((InvalidArgument, LakeUnavailable), match="prefix"):
        rest.lake.view(rest.table().path)


def test_without_a_warehouse_that_is_a_place_no_local_file_is_opened(rest: Any, server: RestServer) -> None:
    properties = {name: value for name, value in rest.lake._properties.items() if name != "lakeward.allowed-locations"}
    with pytest.raises(ForbiddenLocation, match="the object store of its catalog"):
        IcebergLake({**properties, "warehouse": "a_name"}).view(rest.table().path)


def test_a_redirection_is_not_followed(rest: Any, server: RestServer) -> None:
    with RestServer(server.catalog) as other:
        server.redirection = f"http://127.0.0.1:{other.server_address[1]}/v1/config"
        with pytest.raises(LakeUnavailable, match="redirects"):
            rest.lake.view(rest.table().path)
    assert server.paths == ["/v1/config"]
    assert other.paths == []
