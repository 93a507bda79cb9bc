"""Authentication by the certificate of the connection (mTLS): the principal is the name in its subject alternative names.

TLS has already proved that the client has the certificate's key, and that a trusted authority issued the certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiering.access.authentication import Proof
from tiering.access.identity import Authentication, Identity
from tiering.access.tokens import check_principal
from tiering.errors import InvalidArgument, Unauthenticated

_NAMES = ("peer_spiffe_id", "peer_uri", "peer_email", "peer_dns")
"""Kinds of names in gRPC's notation. The first kind in the certificate is the principal."""


class CertificateAuthenticator:
    """Authenticates the callers of a service whose clients all have a certificate."""

    async def identify(self, proof: Proof) -> Identity:
        """Returns the identity in the connection's certificate. Raises Unauthenticated."""
        return Identity(principal_of(proof.certificate), Authentication.MTLS, peer=proof.peer)


def principal_of(certificate: Mapping[str, Iterable[bytes]]) -> str:
    """Returns the one name of a certificate. Raises Unauthenticated for no name, and for several names of one kind."""
    for kind in _NAMES:
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
