"""Real processes over TLS with identities, and what changes under them: a token is revoked, a certificate expires and is replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cryptography import x509

from support.running.cluster_of_processes import LAKEWARD, Deployment, wait_stopped, wake
from support.running.processes import Process, wait_for
from support.services.certificates import LOCAL, Authority
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub
from tiering import crash_points
from tiering.access.client_access import TLS_CA, TLS_CERT, TLS_KEY, TOKEN_FILE, USER_FOLDER
from tiering.access.tokens import add_token, new_token, revoke_token
from tiering.cli.commands.token import tokens_path
from tiering.client import LakewardClient
from tiering.errors import InsecureConnection
from tiering.model.tables import TablePath
from tiering.wire.channel import Connection

ORDERS = TablePath("sales", "orders")
PATIENCE_S = 180
SHORT_LIFE = timedelta(seconds=20)


@dataclass
class Secured(Deployment):
    """A deployment whose own calls are those of the service's owner; `etl` is another user, with a token in a file."""

    @property
    def token_file(self) -> Path:
        return self.folder / "etl.token"

    @property
    def as_etl(self) -> dict[str, str]:
        """The environment of a process that has nothing of the owner's."""
        return {TOKEN_FILE: str(self.token_file), USER_FOLDER: str(self.folder / "nobody")}

    def give_token(self) -> str:
        """Puts a new one into etl's file; its id."""
        token, stored = new_token("etl", datetime.now(UTC))
        add_token(tokens_path(self.data.root, None), stored)
        self.token_file.write_text(token + "\n")
        return stored.token_id

    def tierer_ids(self) -> list[str]:
        request = pb.ReadTableRequest(namespace="sys", name="tierers", columns=["tierer_id"])
        with Connection(self.uri) as connection, connection.calling():
            stub: Any = SysCatalogStub(connection.channel)
            answer = b"".join(piece.arrow for piece in stub.ReadTable(request))
        return [str(tierer_id) for tierer_id in pa.ipc.open_stream(answer).read_all().column(0).to_pylist()]


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Secured]:
    deployment = Secured(tmp_path)
    yield deployment
    deployment.close()


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """Trusted by the test and by all that it starts."""
    authority = Authority(tmp_path)
    monkeypatch.setenv(TLS_CA, str(authority.certificate))
    return authority


def test_a_tierer_that_shows_a_certificate_runs_rounds_to_their_end(
    deployment: Secured, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = authority.server()
    own, own_key = authority.issue("test", x509.DNSName("test.lake"))
    monkeypatch.setenv(TLS_CERT, str(own))
    monkeypatch.setenv(TLS_KEY, str(own_key))
    files = ("--server-cert", str(tls.certificate), "--server-key", str(tls.key), "--client-ca", str(authority.certificate))
    deployment.start_coordinator("--auth", "mtls", *files)
    certificate, key = authority.issue("tierer", x509.UniformResourceIdentifier("spiffe://lake/etl"))
    shown = {TLS_CERT: str(certificate), TLS_KEY: str(key), USER_FOLDER: str(deployment.folder / "nobody")}
    options = ("--uri", deployment.uri, "--tierer-id", "t1", "--master", "local[1]")
    deployment.start_program(*LAKEWARD, "tierer", *options, log_name="tierer", env=shown)
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, 300)
    deployment.wait_tiered(ORDERS, PATIENCE_S)
    deployment.assert_exact(ORDERS, 300)
    assert deployment.tierer_ids() == ["spiffe://lake/etl/t1"]


@pytest.mark.in_turn("point")
@pytest.mark.parametrize("point", [crash_points.AFTER_FILES, crash_points.AFTER_FENCE, crash_points.AFTER_LAKE_COMMIT])
def test_a_token_revoked_under_a_round_loses_nothing_and_a_new_one_goes_on(deployment: Secured, point: str) -> None:
    deployment.start_coordinator("--auth", "token")
    token_id = deployment.give_token()
    tierer = deployment.start_inline_tierer("t1", crash_point=f"{point}:stop", **deployment.as_etl)
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, 300)
    wait_stopped(tierer)
    revoke_token(tokens_path(deployment.data.root, None), token_id, datetime.now(UTC))
    wake(tierer)
    wait_for("its next heartbeat is refused", lambda: f"the token {token_id} was revoked" in tierer.output(), PATIENCE_S)
    deployment.append(ORDERS, 300, 300)
    assert deployment.status(ORDERS).pending_records != 0
    deployment.give_token()
    deployment.wait_tiered(ORDERS, PATIENCE_S)
    deployment.assert_exact(ORDERS, 600)
    assert tierer.popen.poll() is None, tierer.output()
    assert deployment.tierer_ids() == ["etl/t1"]


@pytest.mark.soak
def test_a_certificate_that_expires_under_a_tierer_is_replaced_without_a_restart(deployment: Secured, authority: Authority) -> None:
    tls = authority.server()
    deployment.start_coordinator("--auth", "token", "--server-cert", str(tls.certificate), "--server-key", str(tls.key))
    coordinator = deployment.coordinator
    deployment.give_token()
    tierer = deployment.start_inline_tierer("t1", **deployment.as_etl)
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, 300)
    deployment.wait_tiered(ORDERS, PATIENCE_S)
    with LakewardClient(deployment.uri) as connected:
        connected.list_tiering_statuses()
        wait_for("a certificate with a short life is in force", lambda: _takes(deployment, authority, coordinator), PATIENCE_S)
        wait_for("it has expired", lambda: "has expired" in _complaint(deployment.uri), PATIENCE_S)
        assert connected.list_tiering_statuses(), "connections that were safe when they were made go on"
        authority.server()
        wait_for("a new one is in force", lambda: _complaint(deployment.uri) == "", PATIENCE_S)
    deployment.append(ORDERS, 300, 300)
    deployment.wait_tiered(ORDERS, PATIENCE_S)
    deployment.assert_exact(ORDERS, 600)
    assert coordinator.popen.poll() is None
    assert tierer.popen.poll() is None


def _takes(deployment: Secured, authority: Authority, coordinator: Process) -> bool:
    """Whether the service took a certificate that ends soon: it takes none that has ended before it looks."""
    authority.server(*LOCAL, ends=SHORT_LIFE)
    return _complaint(deployment.uri) == "" and "new files of TLS are in force" in coordinator.output()


def _complaint(uri: str) -> str:
    """Returns the error of a new connection; empty if it is secure."""
    try:
        with LakewardClient(uri) as client:
            client.list_tiering_statuses()
    except InsecureConnection as error:
        return str(error)
    return ""
