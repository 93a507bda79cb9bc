"""Identity by a JWT of an identity provider: issuer, audience, expiry and signature are checked against its published keys.

Keys come from a file or a URL (JWKS, RFC 7517) and are kept: a provider that is away refuses nobody whose key is known. An unknown key is
asked for again, at most every few seconds, so that a provider may change its keys while services run.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import structlog

from tiering.access.authentication import Proof, no_token
from tiering.access.file_watch import FileWatch
from tiering.access.identity import Authentication, Identity
from tiering.access.oidc_settings import OidcSettings
from tiering.access.tokens import check_principal
from tiering.errors import InvalidArgument, SetupError, Unauthenticated

LEEWAY_SECONDS = 30
KEEP_SECONDS = 300.0
"""After so long keys are asked for again: a key that the provider took back counts no longer than that, while the provider answers."""
AGAIN_SECONDS = 10.0
"""Between two looks for an unknown key: anybody can send one."""
FETCH_SECONDS = 5.0
_LARGEST_KEYS_BYTES = 1 << 20

log = structlog.get_logger(__name__)


class OidcAuthenticator:
    """Of one provider."""

    def __init__(self, settings: OidcSettings) -> None:
        settings.check()
        self._settings = settings
        self._keys = PublishedKeys(settings.jwks)

    def check(self) -> None:
        """Raises SetupError if there are no keys: nobody should start a service without."""
        self._keys.load()

    async def identify(self, proof: Proof) -> Identity:
        """See `Authenticator`."""
        if proof.bearer is None:
            raise no_token()
        try:
            key_id = jwt.get_unverified_header(proof.bearer).get("kid")
        except jwt.InvalidTokenError as error:
            raise Unauthenticated("the token of this call is no JWT", hint=self._hint) from error
        key = await self._keys.key(key_id)
        if key is None:
            raise Unauthenticated("the token of this call was signed with no key that its provider publishes", hint=self._hint)
        return self._identity(self._claims(proof.bearer, key), proof.peer)

    def _claims(self, token: str, key: jwt.PyJWK) -> Mapping[str, Any]:
        settings = self._settings
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", settings.principal]},
            )
        except jwt.ExpiredSignatureError as error:
            raise Unauthenticated("the token of this call has expired", hint=self._hint) from error
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(f"the token of this call does not hold: {error}", hint=self._hint) from error
        return claims

    def _identity(self, claims: Mapping[str, Any], peer: str) -> Identity:
        groups = claims.get(self._settings.groups, [])
        names = [name for name in groups if isinstance(name, str)] if isinstance(groups, list) else []
        try:
            principal = check_principal(str(claims[self._settings.principal]))
        except InvalidArgument as error:
            raise Unauthenticated(f"the token of this call names nobody: {error.message}", hint=self._hint) from error
        return Identity(principal, Authentication.OIDC, frozenset(names), peer)

    @property
    def _hint(self) -> str:
        return f"Get a new one of {self._settings.issuer} for {self._settings.audience}, and put it into the file that the client names."


class PublishedKeys:
    """The keys of a provider by their ids. Belongs to one event loop but for `load`."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._is_url = urllib.parse.urlsplit(source).scheme in ("http", "https")
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._watch = None if self._is_url else FileWatch(Path(source))
        self._is_news = True
        """That keys could not be read: of a file, once a version of it."""
        self._looked = -KEEP_SECONDS
        self._loading = asyncio.Lock()

    async def key(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of that id, or the only one for a token that names none; None if there is none."""
        if self._is_stale(key_id):
            async with self._loading:
                if self._is_stale(key_id):
                    try:
                        await asyncio.to_thread(self.load)
                    except SetupError as error:
                        if self._is_news:
                            log.error("the keys of the identity provider cannot be had; those before stay in force", reason=error.message)
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _is_stale(self, key_id: str | None) -> bool:
        if self._watch is not None:
            return self._watch.due() is not None
        age = time.monotonic() - self._looked
        return age > KEEP_SECONDS or (key_id not in self._keys and age > AGAIN_SECONDS)

    def load(self) -> None:
        """Raises SetupError; then the keys are as they were."""
        self._looked = time.monotonic()
        if self._watch is None:
            self._keys = self._read()
        elif (versions := self._watch.due()) is not None:
            try:
                self._keys = self._read()
            except SetupError:
                self._is_news = self._watch.refuse(versions)
                raise
            self._watch.accept(versions)

    def _read(self) -> Mapping[str | None, jwt.PyJWK]:
        try:
            entries = json.loads(self._content())["keys"]
            signing = [entry for entry in entries if entry.get("use", "sig") == "sig" and entry.get("kty") != "oct"]
            keys = [jwt.PyJWK.from_dict(entry) for entry in signing]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
            raise SetupError(
                f"the keys of --oidc-jwks {self._source} cannot be read: {error or type(error).__name__}", hint="It is a JSON Web Key Set."
            ) from error
        if not keys:
            raise SetupError(f"--oidc-jwks {self._source} has no key for signatures")
        return {key.key_id: key for key in keys}

    def _content(self) -> bytes:
        if not self._is_url:
            return Path(self._source).read_bytes()
        with urllib.request.build_opener(_NoRedirect).open(self._source, timeout=FETCH_SECONDS) as answer:
            content: bytes = answer.read(_LARGEST_KEYS_BYTES + 1)
        if len(content) > _LARGEST_KEYS_BYTES:
            raise ValueError(f"more than {_LARGEST_KEYS_BYTES} bytes")
        return content


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from where the option says."""

    def redirect_request(self, *_: Any) -> None:
        return None
