"""Certificates for tests, made when they run."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tiering.access.client_access import ClientAccess
from tiering.wire.security.server_tls import ServerTls

DAY = timedelta(days=1)
LOCAL: tuple[x509.GeneralName, ...] = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))


class Authority:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(self._signed(self._name, self._key, (), DAY, is_authority=True))

    def issue(self, name: str, *names: x509.GeneralName, ends: timedelta = DAY, files: str | None = None) -> tuple[Path, Path]:
        """A certificate and its key; `names` are its subject alternative names, `files` the name of both files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate_file, key_file = (self._folder / f"{files or name}.{kind}" for kind in ("pem", "key"))
        certificate_file.write_bytes(self._signed(subject, key, names, ends))
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate_file, key_file

    def server(self, *names: x509.GeneralName, ends: timedelta = DAY) -> ServerTls:
        """Returns the files of a server on this machine, unless it has other names."""
        return ServerTls(*self.issue("server", *(names or LOCAL), ends=ends))

    def client(self, *names: x509.GeneralName, ends: timedelta = DAY) -> ClientAccess:
        """Returns the files of a client that trusts this authority."""
        certificate, key = self.issue("client", *names, ends=ends)
        return ClientAccess(tls_ca=self.certificate, tls_cert=certificate, tls_key=key)

    @property
    def trusted(self) -> ClientAccess:
        """Files of a client without a certificate."""
        return ClientAccess(tls_ca=self.certificate)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        names: tuple[x509.GeneralName, ...],
        ends: timedelta,
        is_authority: bool = False,
    ) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + ends)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
