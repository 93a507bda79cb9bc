"""pyiceberg's REST catalog with a time-out on every request. pyiceberg itself sets none.

A request that timed out may have landed, so the sender of a commit reads the lake again (DESIGN 6 step 7).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager, AuthManagerFactory, OAuth2AuthManager, OAuth2TokenProvider

from tiering.lake.catalog_timeouts import REST_CONNECT, REST_SOCKET

TOKEN_SECONDS = (REST_CONNECT.default / 1_000, REST_CONNECT.default / 1_000)
"""Time-outs of a request for a token: to connect, and to answer."""


class BoundedRestCatalog(RestCatalog):
    """A REST catalog with time-outs on all requests, including those for a token."""

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        bound_requests(session, _limits(self.properties))
        return session

    def _create_legacy_oauth2_auth_manager(self, session: requests.Session) -> AuthManager:
        bound_requests(session, _limits(self.properties))  # the manager requests a token at once
        return super()._create_legacy_oauth2_auth_manager(session)


class BoundedTokenProvider(OAuth2TokenProvider):
    """A token provider with a time-out. Its base class waits without a limit."""

    def _refresh_token(self) -> None:
        data = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        headers = {"Authorization": self._client_secret_header}
        response = requests.post(self.token_url, data=data, headers=headers, timeout=TOKEN_SECONDS)
        response.raise_for_status()
        answer = response.json()
        self._token = answer["access_token"]
        expires_in = answer.get("expires_in", self.expires_in)
        if expires_in is None:
            raise ValueError("the token's answer has no `expires_in`; set it in the catalog's `auth` properties")
        self._expires_at = int(time.monotonic()) + expires_in - self.refresh_margin


class BoundedOAuth2AuthManager(OAuth2AuthManager):
    """The auth manager for `auth.type: oauth2`."""

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        token_url: str,
        scope: str | None = None,
        refresh_margin: int = 60,
        expires_in: int | None = None,
    ) -> None:
        self.token_provider = BoundedTokenProvider(client_id, client_secret, token_url, scope, refresh_margin, expires_in)


AuthManagerFactory.register("oauth2", BoundedOAuth2AuthManager)


def bound_requests(session: requests.Session, limits: tuple[float, float]) -> None:
    """Sets `limits` on every request of `session` without a time-out: seconds to connect, and between two pieces of an answer."""
    send = session.send

    def bounded_send(request: requests.PreparedRequest, **options: Any) -> requests.Response:
        if options.get("timeout") is None:
            options["timeout"] = limits
        return send(request, **options)

    session.send = bounded_send  # type: ignore[method-assign]  # not an adapter: the one that signs requests would replace it


def _limits(properties: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the seconds to connect and to answer. Raises ValueError for a property that is not a positive number."""
    return REST_CONNECT.milliseconds(properties) / 1_000, REST_SOCKET.milliseconds(properties) / 1_000
