"""Sign-in with the identity provider of the service: the authorization code of OpenID Connect, with PKCE (RFC 7636).

The browser goes to the provider, and comes back with a code. The console exchanges the code for tokens and keeps them in memory, as it does
with those of sign-in links. A cookie for ten minutes holds what binds the answer to the browser that asked: state, nonce and verifier.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import requests
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from starlette.concurrency import run_in_threadpool

from sys_tables.console.service.callers import Caller
from sys_tables.console.signing_in import is_same
from tiering.access.oidc import LEEWAY_SECONDS, PublishedKeys
from tiering.access.oidc_settings import OidcSettings, is_encrypted_or_local
from tiering.errors import ServiceUnreachable, Unauthenticated

COOKIE_SECONDS = 600
KEEP_SECONDS = 3_600.0
"""Age after which the provider's addresses are read again."""
REQUEST_SECONDS = 10.0
MAX_TEXT = 300
"""Characters of the provider's error that a page shows."""
_ALGORITHM = "HS256"
_AGAIN = "Sign in again."


@dataclass(frozen=True)
class ProviderClient:
    """The console as a client of the provider. `secret_file` None: a public client. `redirect_address` is registered with the provider."""

    oidc: OidcSettings
    client_id: str
    scope: str
    secret_file: Path | None = None
    redirect_address: str = ""


@dataclass(frozen=True)
class _Addresses:
    authorization: str
    token: str


class IdentityProvider:
    """Sends browsers to the provider, and takes its answers."""

    def __init__(self, client: ProviderClient) -> None:
        self._client = client
        self._key = secrets.token_bytes(32)
        self._keys = PublishedKeys(client.oidc.jwks)
        self._addresses: tuple[_Addresses, float] | None = None

    @property
    def host(self) -> str:
        """The host of the issuer, for the sign-in page."""
        return urlsplit(self._client.oidc.issuer).hostname or self._client.oidc.issuer

    async def begin(self) -> tuple[str, str]:
        """Returns the address to which a browser goes, and the value of its cookie. Raises ServiceUnreachable."""
        addresses = await run_in_threadpool(self._read_addresses)
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        with self._session() as session:
            address, state = session.create_authorization_url(addresses.authorization, code_verifier=verifier, nonce=nonce)
        claims = {"state": state, "nonce": nonce, "verifier": verifier, "exp": time.time() + COOKIE_SECONDS}
        return address, jwt.encode(claims, self._key, _ALGORITHM)

    async def finish(self, cookie: str | None, answer: Mapping[str, str]) -> Caller:
        """Returns the user to whom the provider's answer belongs. Raises Unauthenticated, ServiceUnreachable."""
        pending = self._pending(cookie)
        if not is_same(answer.get("state", ""), pending["state"]):
            raise Unauthenticated("the identity provider answered another sign-in than this browser's latest one", hint=_AGAIN)
        if "code" not in answer:
            text = answer.get("error_description") or answer.get("error") or "no code came"
            raise Unauthenticated(f"the identity provider refused the sign-in: {text[:MAX_TEXT]}", hint=_AGAIN)
        tokens = await run_in_threadpool(self._exchanged, answer["code"], pending["verifier"])
        claims = await self._claims_of(tokens.get("id_token"))
        if not is_same(str(claims.get("nonce", "")), pending["nonce"]):
            raise Unauthenticated("the identity provider answered another sign-in than this browser's latest one", hint=_AGAIN)
        name = claims.get(self._client.oidc.principal) or claims["sub"]
        return Caller(str(name), self._for_the_service(tokens))

    def _pending(self, cookie: str | None) -> Mapping[str, str]:
        try:
            claims: Mapping[str, str] = jwt.decode(cookie or "", self._key, [_ALGORITHM], options={"require": ["exp", "state"]})
        except jwt.InvalidTokenError as error:
            raise Unauthenticated("this sign-in did not begin in this browser, or began more than ten minutes ago", hint=_AGAIN) from error
        return claims

    def _session(self) -> OAuth2Session:
        secret = None if self._client.secret_file is None else self._client.secret_file.read_text().strip()
        return OAuth2Session(
            self._client.client_id,
            secret,
            token_endpoint_auth_method="none" if secret is None else "client_secret_basic",
            scope=self._client.scope,
            redirect_uri=self._client.redirect_address,
            code_challenge_method="S256",
            default_timeout=REQUEST_SECONDS,
        )

    def _exchanged(self, code: str, verifier: str) -> Mapping[str, Any]:
        addresses = self._read_addresses()
        try:
            with self._session() as session:
                tokens: Mapping[str, Any] = session.fetch_token(addresses.token, code=code, code_verifier=verifier)
        except AuthlibBaseError as error:
            text = str(error.description or error.error or "")[:MAX_TEXT]
            raise Unauthenticated(f"the identity provider refused the code: {text}", hint=_AGAIN) from error
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error
        return tokens

    async def _claims_of(self, id_token: object) -> Mapping[str, Any]:
        """Returns the claims of the ID token, which is for this client. Raises Unauthenticated."""
        oidc, text = self._client.oidc, str(id_token or "")
        try:
            key = await self._keys.key(jwt.get_unverified_header(text).get("kid"))
            if key is None:
                raise jwt.InvalidTokenError("its key is not published")
            claims: Mapping[str, Any] = jwt.decode(
                text,
                key,
                algorithms=list(oidc.algorithms),
                audience=self._client.client_id,
                issuer=oidc.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(f"the ID token of the identity provider is invalid: {error}", hint=_AGAIN) from error
        return claims

    def _for_the_service(self, tokens: Mapping[str, Any]) -> str:
        """Returns the token whose audience is the service: the access token or, for a client of that name, the ID token.

        The service itself checks it with each call.
        """
        audience = self._client.oidc.audience
        for token in (tokens.get("access_token"), tokens.get("id_token")):
            if audience in _audiences(token):
                return str(token)
        raise Unauthenticated(
            f"the identity provider gave no token for the audience {audience} of this service",
            hint=f"Let the provider add {audience} to the audience of the access tokens of the client {self._client.client_id}.",
        )

    def _read_addresses(self) -> _Addresses:
        if self._addresses is not None and time.monotonic() - self._addresses[1] < KEEP_SECONDS:
            return self._addresses[0]
        issuer = self._client.oidc.issuer
        try:
            answer = requests.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=REQUEST_SECONDS, allow_redirects=False)
            answer.raise_for_status()
            document = answer.json()
            addresses = _Addresses(str(document["authorization_endpoint"]), str(document["token_endpoint"]))
            if document["issuer"] != issuer:
                raise ValueError(f"it names the issuer {str(document['issuer'])[:MAX_TEXT]}")
            if not all(map(_is_safe, (addresses.authorization, addresses.token))):
                raise ValueError("its addresses must be https")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._unreachable(error) from error
        self._addresses = addresses, time.monotonic()
        return addresses

    def _unreachable(self, error: Exception) -> ServiceUnreachable:
        return ServiceUnreachable(
            f"the identity provider {self.host} cannot be asked: {error or type(error).__name__}",
            hint="Sign in later, or with a link of the command.",
        )


def _is_safe(address: str) -> bool:
    """Returns whether a browser and tokens may be sent to an address."""
    return urlsplit(address).scheme in ("http", "https") and is_encrypted_or_local(address)


def _audiences(token: object) -> list[str]:
    """Returns the audiences of a token, whose signature was not checked; none of a token that is no JWT."""
    try:
        named = jwt.decode(str(token or ""), options={"verify_signature": False}).get("aud", [])
    except jwt.InvalidTokenError:
        return []
    return [named] if isinstance(named, str) else [str(name) for name in named]
