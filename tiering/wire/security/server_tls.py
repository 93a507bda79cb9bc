"""TLS of the server: its certificate, the accepted issuers of clients' certificates, and new files at run time.

gRPC and the console request the files for each new connection. Open connections keep their files. Files that do not match, or an expired
certificate, change nothing: the previous files stay in force, with warnings, until the files are repaired.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import grpc
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tiering.access.file_watch import FileWatch
from tiering.errors import SetupError

T = TypeVar("T")
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ServerTls:
    """Files, PEM. `client_ca` None = clients show no certificate; else every client must show a certificate of an issuer in it."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files."""
        return (self.certificate, self.key) + (() if self.client_ca is None else (self.client_ca,))


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """Returns the credentials of a secure port. Raises SetupError for files that cannot be used now."""
    reload = _Reload(tls, read_configuration)
    configuration = reload.first()
    changed: Any = reload.changed  # it may return None, which its stubs do not know
    return grpc.dynamic_ssl_server_credentials(configuration, changed, require_client_authentication=tls.client_ca is not None)


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """Returns the context of an HTTPS server. Raises SetupError for files that cannot be used now."""
    reload = _Reload(tls, _read_context)
    present = first = reload.first()

    def use_newest(connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal present
        present = reload.changed() or present
        connection.context = present

    first.sni_callback = use_newest  # OpenSSL calls it for each connection, also for one that names no server
    return first


class _Reload(Generic[T]):
    """`read` makes of the files what a server uses."""

    def __init__(self, tls: ServerTls, read: Callable[[ServerTls], T]) -> None:
        self._tls = tls
        self._read = read
        self._watch = FileWatch(*tls.files)

    def first(self) -> T:
        versions = self._watch.due()
        contents = self._read(self._tls)
        if versions is not None:
            self._watch.accept(versions)
        return contents

    def changed(self) -> T | None:
        """Returns the new files; None = the previous ones. gRPC calls it in a separate thread, and an exception would end connections."""
        versions = self._watch.due()
        if versions is None:
            return None
        try:
            contents = self._read(self._tls)
        except SetupError as error:
            if self._watch.refuse(versions):
                log.error("the new TLS files cannot be used; the previous ones stay in force", reason=error.message)
            return None
        self._watch.accept(versions)
        log.info("new files of TLS are in force", certificate=str(self._tls.certificate))
        return contents


def _read_context(tls: ServerTls) -> ssl.SSLContext:
    read_configuration(tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(tls.client_ca)
    except OSError as error:  # also ssl.SSLError, of files that changed since the check
        raise SetupError(
            f"the console cannot use the files of --server-cert and --server-key: {error}", hint="Have them renewed."
        ) from error
    return context


def read_configuration(tls: ServerTls) -> grpc.ServerCertificateConfiguration:
    """Returns the files' contents, after a check that they match. Raises SetupError."""
    certificate, key = _read(tls.certificate, "--server-cert"), _read(tls.key, "--server-key")
    client_ca = None if tls.client_ca is None else _read(tls.client_ca, "--client-ca")
    chain = _certificates(certificate, tls.certificate, "--server-cert")
    if client_ca is not None and tls.client_ca is not None:
        _certificates(client_ca, tls.client_ca, "--client-ca")
    try:
        public = load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError) as error:
        raise SetupError(f"{tls.key} of --server-key is no private key without a password", hint="It is PEM, PKCS#8 or PKCS#1.") from error
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if public.public_bytes(*form) != chain[0].public_key().public_bytes(*form):
        raise SetupError(
            f"the key {tls.key} is not that of the certificate {tls.certificate}", hint="Name the two files that were made together."
        )
    if chain[0].not_valid_after_utc <= datetime.now(UTC):
        raise SetupError(
            f"the certificate {tls.certificate} expired at {chain[0].not_valid_after_utc:%Y-%m-%d %H:%M} UTC", hint="Have it renewed."
        )
    return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)


def certificate_names(tls: ServerTls) -> list[str]:
    """Returns the hosts and addresses for which the server's certificate is valid. Raises SetupError."""
    certificate = _certificates(_read(tls.certificate, "--server-cert"), tls.certificate, "--server-cert")[0]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*map(str, names.get_values_for_type(x509.IPAddress)), *names.get_values_for_type(x509.DNSName)]


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SetupError(f"the file {path} of {option} cannot be read: {error.strerror}", hint="Check its path and its rights.") from error


def _certificates(content: bytes, path: Path, option: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise SetupError(f"{path} of {option} holds no certificate", hint="It is PEM, and begins with the server's own.") from error
