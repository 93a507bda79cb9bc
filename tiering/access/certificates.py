"""Identity by the certificate of the connection (mTLS): the name in its subject alternative names.

TLS has proved by then that the client has the certificate's key, and that whom the service trusts issued it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiering.access.authentication import Proof
from tiering.access.identity import Authentication, Identity
from tiering.access.tokens import check_principal
from tiering.errors import InvalidArgument, Unauthenticated

_NAMES = ("peer_spiffe_id", "peer_uri", "peer_email", "peer_dns")
"""As gRPC names them; the first kind that the certificate has is the principal."""


class CertificateAuthenticator:
    """Of a service whose clients all show a certificate."""

    async def identify(self, proof: Proof) -> Identity:
        """See `Authenticator`."""
        return Identity(principal_of(proof.certificate), Authentication.MTLS, peer=proof.peer)


def principal_of(certificate: Mapping[str, Iterable[bytes]]) -> str:
    """The one name of a certificate. Raises Unauthenticated for none, and for several: either could be meant."""
    for kind in _NAMES:
        names = [name.decode("utf-8", "replace") for name in certificate.get(kind, ())]
        if len(names) > 1:
            raise Unauthenticated(
                f"the certificate of this connection has {len(names)} names of the same kind: {', '.join(sorted(names)[:3])}",
                hint="Use a certificate with one subject alternative name: it is the principal.",
            )
        if names:
            try:
                return check_principal(names[0])
            except InvalidArgument as error:
                raise Unauthenticated(f"the certificate of this connection names nobody: {error.message}") from error
    raise Unauthenticated(
        "the connection has no certificate with a subject alternative name (URI, e-mail or DNS)",
        hint="Have one issued that names the client there: that is the principal.",
    )
