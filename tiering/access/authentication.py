"""How a service authenticates callers: by a token, by the certificate of the connection, or by a JWT of an identity provider.

An authenticator gets what the transport proved (`Proof`), and never a message. The command line of the service selects it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from tiering.access.identity import Authentication, Identity
from tiering.access.tokens import TokenFile, check_principal, id_of
from tiering.errors import InvalidArgument, Unauthenticated

AUTHORIZATION = "authorization"
_SCHEME = "bearer "
TOKEN_LIMIT = 6_000
"""Upper bound of characters in a token, enough for a JWT with many groups. All headers of a call have 8 KiB."""


_CERTIFICATE_NAMES = ("peer_spiffe_id", "peer_uri", "peer_email", "peer_dns")
"""Kinds of names in gRPC's notation. The first kind in the certificate is the principal."""


@dataclass(frozen=True)
class Proof:
    """The proof in a call. `certificate` has the properties of the client's certificate, in gRPC's notation."""

    bearer: str | None = None
    peer: str = ""
    certificate: Mapping[str, Iterable[bytes]] = field(default_factory=dict)


class Authenticator(Protocol):
    """Authenticates callers."""

    async def identify(self, proof: Proof) -> Identity:
        """Returns the caller's identity. Raises Unauthenticated. It may wait only for an identity provider."""


def bearer_token(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """Returns the token in a call's headers; None without one. Raises Unauthenticated for invalid headers."""
    values = [value for name, value in metadata if name == AUTHORIZATION]
    if not values:
        return None
    if len(values) > 1 or not isinstance(values[0], str) or not values[0].lower().startswith(_SCHEME):
        raise Unauthenticated(
            "the call must have one header `authorization`, with a bearer token",
            hint="Use the same version of client and service.",
        )
    token = values[0][len(_SCHEME) :].strip()
    if len(token) > TOKEN_LIMIT:
        raise Unauthenticated(f"a token may have at most {TOKEN_LIMIT} characters; this one has {len(token)}")
    return token


class TokenAuthenticator:
    """Authenticates callers with the tokens of a file."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file

    async def identify(self, proof: Proof) -> Identity:
        """Returns the identity of the call's token. Raises Unauthenticated."""
        if proof.bearer is None:
            raise no_token()
        return self._file.identity(proof.bearer, proof.peer)


class OwnerToken:
    """Accepts the token that the service generated for the user that runs it. Other calls go to the next authenticator."""

    def __init__(self, token: str, owner: Identity, next_authenticator: Authenticator) -> None:
        self._id = id_of(token)
        self._token = token
        self._owner = owner
        self._next_authenticator = next_authenticator

    async def identify(self, proof: Proof) -> Identity:
        """Returns the owner's identity for its token, otherwise that of the next authenticator. Raises Unauthenticated."""
        if proof.bearer is not None and self._id == id_of(proof.bearer) and _equal(self._token, proof.bearer):
            return replace(self._owner, peer=proof.peer)
        return await self._next_authenticator.identify(proof)


def no_token() -> Unauthenticated:
    """Returns the error for a call without a token."""
    return Unauthenticated(
        "the service requires authentication, and the call has no token",
        hint="Put the path of a token file into LAKEWARD_TOKEN_FILE, or into the Spark catalog option token-file. On the service's machine"
        " its owner needs none. `lakeward token create` creates one.",
    )


def _equal(token: str, other: str) -> bool:
    return hmac.compare_digest(token.encode(), other.encode())


class CertificateAuthenticator:
    """Authenticates callers by the certificate of the connection (mTLS): the principal is the name in its subject alternative names.

    TLS has already proved that the client has the certificate's key, and that a trusted authority issued the certificate.
    """

    async def identify(self, proof: Proof) -> Identity:
        """Returns the identity in the connection's certificate. Raises Unauthenticated."""
        return Identity(principal_of(proof.certificate), Authentication.MTLS, peer=proof.peer)


def principal_of(certificate: Mapping[str, Iterable[bytes]]) -> str:
    """Returns the one name of a certificate. Raises Unauthenticated for no name, and for several names of one kind."""
    for kind in _CERTIFICATE_NAMES:
        names = [name.decode("utf-8", "replace") for name in certificate.get(kind, ())]
        if len(names) > 1:
            raise Unauthenticated(
                f"the certificate of this connection has {len(names)} names of the same kind: {', '.join(sorted(names)[:3])}",
                hint="Use a certificate with one subject alternative name, which is the principal.",
            )
        if names:
            try:
                return check_principal(names[0])
            except InvalidArgument as error:
                raise Unauthenticated(f"the certificate of this connection has no valid principal: {error.message}") from error
    raise Unauthenticated(
        "the connection has no certificate with a subject alternative name (URI, e-mail or DNS)",
        hint="Use a certificate with the client's name there: that is the principal.",
    )
