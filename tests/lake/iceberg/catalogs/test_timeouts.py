"""A catalog that takes requests and never answers: every one of them ends, those for a token and a commit included."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy as sa
from pyiceberg.catalog.rest import RestCatalog
from requests.adapters import HTTPAdapter

from tiering.errors import CommitOutcomeUnknown, LakeUnavailable
from tiering.lake.catalog_timeouts import REST_CONNECT, REST_SOCKET
from tiering.lake.iceberg.catalogs.bounded import BoundedTokenProvider
from tiering.lake.iceberg.catalogs.opening import STORE_TIMEOUTS, open_catalog
from tiering.lake.iceberg.lake import IcebergLake
from tiering.library_guards.sql_timeouts import SQLITE_BUSY_SECONDS, bound_waits, limit_statements
from tiering.model.tables import BucketKey, TablePath

QUICK = {"rest.client.connection-timeout-ms": "300", "rest.client.socket-timeout-ms": "300"}
LONG_SECONDS = 20
PATH = TablePath("sales", "orders")


class HangingServer(ThreadingHTTPServer):
    """Answers what `answers` has for a path, and keeps everybody else waiting until it is closed."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.ended = threading.Event()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HangingServer

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.server.asked.append(f"{self.command} {path}")
        if path not in self.server.answers:
            self.server.ended.wait(LONG_SECONDS * 2)
            return
        body = json.dumps(self.server.answers[path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def server() -> Iterator[HangingServer]:
    server = HangingServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.ended.set()
    server.shutdown()
    server.server_close()


CONFIG = {"/v1/config": {"defaults": {}, "overrides": {}}}


@pytest.mark.parametrize(
    ("answers", "more", "hangs_at"),
    [
        ({}, {}, "GET /v1/config"),
        (CONFIG, {}, "GET /v1/namespaces/sales/tables/orders"),
        ({}, {"credential": "id:secret"}, "POST /v1/oauth/tokens"),
    ],
    ids=["config", "table", "token"],
)
def test_a_request_that_is_never_answered_ends(server: HangingServer, answers: Any, more: dict[str, str], hangs_at: str) -> None:
    server.answers = answers
    lake = IcebergLake({"type": "rest", "uri": server.uri, "warehouse": "s3://lake", **QUICK, **more})
    started = time.monotonic()
    with pytest.raises(LakeUnavailable, match="timed out"):
        lake.view(PATH)
    assert time.monotonic() - started < LONG_SECONDS
    assert server.asked[-1] == hangs_at


def test_a_token_of_the_newer_kind_that_never_comes_ends_too(server: HangingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.lake.iceberg.catalogs.bounded.TOKEN_SECONDS", (0.3, 0.3))
    auth = {"type": "oauth2", "oauth2": {"client_id": "id", "client_secret": "secret", "token_url": f"{server.uri}/token"}}
    with pytest.raises(requests.exceptions.ReadTimeout):
        open_catalog({"type": "rest", "uri": server.uri, "auth": auth, **QUICK})  # type: ignore[dict-item]
    assert server.asked == ["POST /token"]


def test_a_token_that_comes_is_used(server: HangingServer) -> None:
    server.answers = {"/token": {"access_token": "t", "expires_in": 100}}
    provider = BoundedTokenProvider("id", "secret", f"{server.uri}/token", refresh_margin=10)
    assert (provider.get_token(), provider.get_token(), server.asked) == ("t", "t", ["POST /token"])
    server.answers = {"/token": {"access_token": "t"}}
    with pytest.raises(ValueError, match="expires_in"):
        BoundedTokenProvider("id", "secret", f"{server.uri}/token").get_token()


def test_a_server_that_takes_no_connection_ends() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        uri = f"http://127.0.0.1:{full.getsockname()[1]}"
        with pytest.raises(LakeUnavailable, match="timed out"):
            IcebergLake({"type": "rest", "uri": uri, "warehouse": "s3://lake", **QUICK}).view(PATH)


def test_a_commit_that_is_never_answered_has_an_unknown_outcome(server: HangingServer, kit: Any) -> None:
    table = kit.table()
    prepared = kit.prepare(table, "r1", {BucketKey(None, 0): 5})
    server.answers = CONFIG
    rest = open_catalog({**kit.properties, "type": "rest", "uri": server.uri, **QUICK})
    with pytest.raises(CommitOutcomeUnknown):
        prepared.with_catalog(lambda _: rest).commit()
    assert server.asked[-1] == f"POST /v1/namespaces/{table.path.database_name}/tables/{table.path.table_name}"


def test_requests_have_time_outs_without_any_option(server: HangingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    send = HTTPAdapter.send

    def watched(adapter: HTTPAdapter, request: Any, *args: Any, **options: Any) -> Any:
        waited.append(options["timeout"])
        return send(adapter, request, *args, **options)

    monkeypatch.setattr(HTTPAdapter, "send", watched)
    server.answers = {**CONFIG, "/v1/namespaces": {"namespaces": []}, "/v1/oauth/tokens": {"access_token": "t", "token_type": "bearer"}}
    catalog = open_catalog({"type": "rest", "uri": server.uri, "credential": "id:secret"})
    assert isinstance(catalog, RestCatalog)
    assert catalog.list_namespaces() == []
    assert len(waited) == len(server.asked) == 4  # a token for the configuration, one for the rest
    assert set(waited) == {(REST_CONNECT.default / 1_000, REST_SOCKET.default / 1_000)}


@pytest.mark.parametrize("value", ["0", "-1", "soon", ""])
def test_a_time_out_that_is_no_number_is_refused(server: HangingServer, value: str) -> None:
    lake = IcebergLake({"type": "rest", "uri": server.uri, "rest.client.socket-timeout-ms": value})
    with pytest.raises(LakeUnavailable, match=r"rest\.client\.socket-timeout-ms"):
        lake.view(PATH)


def test_the_object_store_has_time_outs_too_wherever_a_writer_goes(kit: Any) -> None:
    kit.lake.ensure_table(kit.table())
    assert STORE_TIMEOUTS.items() <= kit.lake.tiering_factory(kit.table()).state.storage.items()
    own = open_catalog({**kit.properties, "s3.request-timeout": "5"})
    assert (own.properties["s3.request-timeout"], own.properties["s3.connect-timeout"]) == ("5", "10")


def test_catalogs_of_the_environment_are_bounded_too(server: HangingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"type": "rest", "uri": server.uri, **QUICK}.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.replace('.', '__').replace('-', '_').upper()}", value)
    with pytest.raises(LakeUnavailable, match="timed out"):
        IcebergLake({}).view(PATH)


# --- databases


def test_a_database_in_a_file_is_waited_for_a_while(kit: Any) -> None:
    catalog: Any = open_catalog(kit.properties)
    with catalog.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == SQLITE_BUSY_SECONDS * 1_000
    own: Any = open_catalog({**kit.properties, "uri": f"{kit.properties['uri']}?timeout=0.1"})
    with own.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 100


class Cursor:
    def __init__(self, announced: list[str]) -> None:
        self._announced = announced

    def execute(self, statement: str) -> None:
        self._announced.append(statement)

    def close(self) -> None:
        """Nothing to close."""


class Connection:
    def __init__(self) -> None:
        self.said: list[str] = []

    def cursor(self) -> Cursor:
        return Cursor(self.said)

    def commit(self) -> None:
        self.said.append("COMMIT")


def test_statements_of_postgresql_are_limited_for_the_whole_session() -> None:
    connection = Connection()
    limit_statements(connection)
    assert connection.said == ["SET statement_timeout = 60000", "COMMIT"]


def test_what_the_url_says_itself_stays(tmp_path: Path) -> None:
    engine = bound_waits(sa.create_engine(f"sqlite:///{tmp_path}/x.db", connect_args={"timeout": 3}))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 3_000
