"""TLS between real clients and a real server: what opens, what is refused and in which words, and new files while the server runs."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from support.services.certificates import DAY, LOCAL, Authority
from support.services.served import at_uri
from support.worlds.coordinator_world import World
from tiering.access.authentication import CertificateAuthenticator
from tiering.access.client_access import ClientAccess
from tiering.client import LakewardClient
from tiering.errors import InsecureConnection, SetupError, Unauthenticated
from tiering.wire.security import server_tls
from tiering.wire.security.call_authentication import CallAuthentication
from tiering.wire.security.server_tls import ServerTls, read_configuration, server_context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def listed(uri: str, access: ClientAccess) -> int:
    with LakewardClient(uri, access) as client:
        return len(client.list_tiering_statuses())


def refusal(uri: str, access: ClientAccess) -> InsecureConnection:
    with pytest.raises(InsecureConnection) as raised:
        listed(uri, access)
    return raised.value


def test_a_client_that_trusts_the_issuer_is_served(authority: Authority) -> None:
    with at_uri(World(), tls=authority.server()) as uri:
        assert listed(uri, authority.trusted) == 1
        assert listed(uri.replace("127.0.0.1", "localhost"), authority.trusted) == 1


def test_a_certificate_of_another_name_is_named(authority: Authority) -> None:
    with at_uri(World(), tls=authority.server(x509.DNSName("lake.example"))) as uri:
        assert "certificate has another name" in refusal(uri, authority.trusted).message


def test_an_unknown_issuer_is_named(authority: Authority, tmp_path: Path) -> None:
    with at_uri(World(), tls=authority.server()) as uri:
        error = refusal(uri, Authority(tmp_path, "other").trusted)
        assert "this client does not trust" in error.message
        assert "--tls-ca" in error.hint


def test_plain_text_to_a_port_with_tls_is_named(authority: Authority) -> None:
    with at_uri(World(), tls=authority.server()) as uri:
        error = refusal(uri, ClientAccess())
        assert "speaks TLS, and this client does not" in error.message
        assert "LAKEWARD_TLS_CA" in error.hint


def test_tls_to_a_port_with_plain_text_is_named(authority: Authority) -> None:
    with at_uri(World()) as uri:
        assert "does not speak TLS" in refusal(uri, authority.trusted).message


def test_a_certificate_that_expired_while_the_service_runs_is_named(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = authority.server()
    valid = read_configuration(tls)
    authority.server(ends=-DAY)  # the same files
    with monkeypatch.context() as patch:
        patch.setattr(server_tls, "read_configuration", lambda tls: _expired(tls, valid))
        with at_uri(World(), tls=tls) as uri:
            assert "has expired" in refusal(uri, authority.trusted).message


def _expired(tls: ServerTls, valid: object) -> object:
    """Returns the state of gRPC after a certificate that was valid at the start has expired."""
    import grpc

    del valid
    return grpc.ssl_server_certificate_configuration([(tls.key.read_bytes(), tls.certificate.read_bytes())], None)


def test_no_server_starts_with_files_that_are_of_no_use(authority: Authority, tmp_path: Path) -> None:
    tls = authority.server()
    expired = authority.issue("expired", *LOCAL, ends=timedelta(minutes=-1))
    broken = tmp_path / "broken.pem"
    broken.write_text("no PEM")
    for files, problem in (
        (ServerTls(*expired), "expired at"),
        (replace(tls, key=expired[1]), "is not that of the certificate"),
        (replace(tls, certificate=broken), "holds no certificate"),
        (replace(tls, key=broken), "is no private key"),
        (replace(tls, client_ca=broken), "holds no certificate"),
        (replace(tls, key=tmp_path / "nothing"), "No such file"),
    ):
        with pytest.raises(SetupError, match=problem):
            read_configuration(files)


def test_new_files_are_taken_while_the_server_runs_and_useless_ones_are_not(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    tls = authority.server()
    with at_uri(World(), tls=tls) as uri, LakewardClient(uri, authority.trusted) as open_before:
        assert len(open_before.list_tiering_statuses()) == 1
        tls.certificate.write_text("half of a fi")
        assert listed(uri, authority.trusted) == 1
        replaced = other.issue("server", *LOCAL, files="next")
        for target, source in zip((tls.key, tls.certificate), reversed(replaced), strict=True):
            os.replace(source, target)
        assert listed(uri, other.trusted) == 1
        refusal(uri, authority.trusted)
        assert len(open_before.list_tiering_statuses()) == 1


def shaken_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Returns the name of the issuer of the server's certificate, after a handshake in memory. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server, server_hostname="localhost"), server.wrap_bio(to_server, to_client, server_side=True)]
    for side in (*sides, *sides):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return str(dict(part[0] for part in (sides[0].getpeercert() or {})["issuer"])["commonName"])  # type: ignore[misc]  # pairs


def trusting(*authorities: Authority, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for authority in authorities:
        context.load_verify_locations(authority.certificate)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def test_an_https_server_takes_new_files_too_and_no_useless_ones(tmp_path: Path) -> None:
    first, second = Authority(tmp_path), Authority(tmp_path, "second")
    tls = replace(first.server(), client_ca=tmp_path / "clients.pem")
    assert tls.client_ca is not None
    tls.client_ca.write_bytes(first.certificate.read_bytes())
    server, of_first, of_second = server_context(tls), first.issue("a"), second.issue("b")
    assert shaken_hands(server, trusting(first, second, certificate=of_first)) == "authority"
    second.issue("server", *LOCAL)  # replaces both files of the server
    tls.key.write_text("half of a fi")
    assert shaken_hands(server, trusting(first, second, certificate=of_first)) == "authority"
    second.issue("server", *LOCAL)
    tls.client_ca.write_bytes(second.certificate.read_bytes())
    assert shaken_hands(server, trusting(first, second, certificate=of_second)) == "second"
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shaken_hands(server, trusting(first, second, certificate=of_first))
    with pytest.raises(SetupError, match="is no private key"):
        server_context(replace(tls, key=tls.certificate))


def test_mtls_takes_the_name_of_the_clients_certificate(authority: Authority, tmp_path: Path) -> None:
    world = World()
    tls = replace(authority.server(), client_ca=authority.certificate)
    with at_uri(world, CallAuthentication(CertificateAuthenticator()), tls=tls) as uri:
        with LakewardClient(uri, authority.client(x509.DNSName("etl"))) as client:
            client.pause_tiering("sales.orders", caller="olga")
            assert client.list_tiering_statuses()[0].paused_by == "etl"
        spiffe = authority.client(x509.DNSName("host"), x509.UniformResourceIdentifier("spiffe://prod/etl"))
        with LakewardClient(uri, spiffe) as client:
            client.resume_tiering("sales.orders")
            client.pause_tiering("sales.orders")
            assert client.list_tiering_statuses()[0].paused_by == "spiffe://prod/etl"
        with pytest.raises(Unauthenticated, match="2 names of the same kind: a, b"):
            listed(uri, authority.client(x509.DNSName("a"), x509.DNSName("b")))
        with pytest.raises(Unauthenticated, match="no certificate with a subject alternative name"):
            listed(uri, authority.client())


def test_mtls_refuses_clients_without_a_certificate_of_the_named_issuer(authority: Authority, tmp_path: Path) -> None:
    tls = replace(authority.server(), client_ca=authority.certificate)
    stranger = replace(Authority(tmp_path, "other").client(x509.DNSName("etl")), tls_ca=authority.certificate)
    with at_uri(World(), CallAuthentication(CertificateAuthenticator()), tls=tls) as uri:
        assert "this one shows no certificate" in refusal(uri, authority.trusted).message
        assert "shows one that it does not take" in refusal(uri, stranger).message
        assert "does not take" in refusal(uri, authority.client(x509.DNSName("etl"), ends=-DAY)).message


def test_files_of_a_client_that_cannot_be_read_are_named(authority: Authority, tmp_path: Path) -> None:
    key = tmp_path / "k"
    key.write_text("no key")
    for access, problem in (
        (ClientAccess(tls_ca=tmp_path / "nothing"), "of --tls-ca cannot be read"),
        (ClientAccess(tls_ca=key), "is no PEM"),
        (ClientAccess(tls_key=key), "a key without a certificate"),
        (ClientAccess(tls_cert=key), "only one"),
    ):
        with pytest.raises(SetupError, match=problem):
            LakewardClient("127.0.0.1:1", access)
