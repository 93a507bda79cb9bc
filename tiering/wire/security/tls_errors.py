"""Explains why a connection with, or without, TLS failed, in the words of the user who has to repair it.

gRPC has the reason in the text of a failed call. If the text says only that the connection was closed, a separate handshake finds the
reason.
"""

from __future__ import annotations

import socket
import ssl

from tiering.access.client_access import ClientAccess
from tiering.errors import InsecureConnection

PROBE_SECONDS = 1.0
"""Time limit of a handshake that only explains an error."""

_CLOSED = ("Socket closed", "Connection reset", "Broken pipe", "GOAWAY")
_VERIFIED = (
    (
        "certificate has expired",
        "its certificate has expired",
        "Renew the service's certificate. It reads new files without a restart.",
    ),
    ("certificate is not yet valid", "its certificate is not valid yet", "Compare the clocks of both machines."),
    (
        "Hostname Verification Check failed",
        "its certificate has another name",
        "Use a name of the certificate in the uri, or have one made that names this host or address.",
    ),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS", "Start the service with --server-cert and --server-key, or leave out --tls-ca."),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "this client does not trust the issuer of its certificate",
        "Name the issuer's certificate with --tls-ca, or in LAKEWARD_TLS_CA.",
    ),
)


def insecure_connection(details: str, uri: str, target: str, access: ClientAccess) -> InsecureConnection | None:
    """Returns the error for a call that failed with this text; None if TLS was not the reason."""
    for sign, problem, hint in _VERIFIED:
        if sign in details:
            return InsecureConnection(f"no safe connection to {uri}: {problem}", hint=hint)
    if not any(sign in details for sign in _CLOSED):
        return None
    return _of_client_certificate(uri, target, access) if access.is_encrypted else _of_plain_text(uri, target)


def _of_plain_text(uri: str, target: str) -> InsecureConnection | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent: it only asks whether TLS is spoken
    try:
        with _connected(target, context):
            pass
    except (OSError, ValueError):
        return None
    return InsecureConnection(
        f"the service at {uri} speaks TLS, and this client does not",
        hint="Name the issuer of the service's certificate with --tls-ca, or in LAKEWARD_TLS_CA.",
    )


def _of_client_certificate(uri: str, target: str, access: ClientAccess) -> InsecureConnection | None:
    try:
        context = ssl.create_default_context(cafile=None if access.tls_ca is None else str(access.tls_ca))
        context.check_hostname = False  # the name was right: else gRPC would have said so
        if access.tls_cert is not None and access.tls_key is not None:
            context.load_cert_chain(access.tls_cert, access.tls_key)
        with _connected(target, context) as connection:
            if _is_greeted(connection):
                return None
    except (OSError, ValueError):
        return None
    own = "shows no certificate" if access.tls_cert is None else "shows one that it does not take"
    return InsecureConnection(
        f"the service at {uri} asks its clients for a certificate, and this one {own}",
        hint="Name a certificate and its key with --tls-cert and --tls-key, issued by whom the service's --client-ca names.",
    )


def _is_greeted(connection: ssl.SSLSocket) -> bool:
    """Whether the server goes on behind the handshake. With TLS 1.3 it looks at the client's certificate only then, and closes."""
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def _connected(target: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    host, _, port = target.rpartition(":")
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS)
    try:
        return context.wrap_socket(plain, server_hostname=host.strip("[]"))
    except BaseException:
        plain.close()
        raise
