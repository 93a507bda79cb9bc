"""Limits the time of all requests to a catalog of any kind, because its server may hang or answer very slowly.

A request that exceeded its deadline may have had its effect, or may have it later. So the sender of a commit reads the lake again
(DESIGN 6 step 7), and the creator of a table finds the table there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property, partial
from typing import Any, TypeVar

import requests
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager, AuthManagerFactory, OAuth2AuthManager, OAuth2TokenProvider
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from tiering.lake.catalog_timeouts import CHANGE_DEADLINE, READ_DEADLINE, REST_CONNECT, REST_SOCKET, Timeout
from tiering.library_guards.answer_deadlines import AnswerDeadlines

Answer = TypeVar("Answer")

WHOM = "the lake's catalog"


class BoundedCatalog(Catalog):
    """A base class that comes before pyiceberg's. Each method also raises TimeoutError, and ValueError for a deadline that is no number."""

    @cached_property
    def _deadlines(self) -> AnswerDeadlines:
        return AnswerDeadlines(WHOM)

    def _within(self, deadline: Timeout, key: Hashable, method: Callable[..., Answer], *args: Any, **kwargs: Any) -> Answer:
        """Calls the method. Its name and `key` identify the request: while an earlier one is late, no other one is sent."""
        request = partial(method, *args, **kwargs)
        return self._deadlines.within(deadline.milliseconds(self.properties) / 1_000, (method.__name__, key), request)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Loads a table and its metadata file within the read deadline."""
        return self._within(READ_DEADLINE, identifier, super().load_table, identifier)  # type: ignore[safe-super]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Lists namespaces within the read deadline."""
        return self._within(READ_DEADLINE, namespace, super().list_namespaces, namespace)  # type: ignore[safe-super]

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Loads a namespace's properties within the read deadline."""
        return self._within(READ_DEADLINE, namespace, super().load_namespace_properties, namespace)  # type: ignore[safe-super]

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Creates a namespace within the change deadline."""
        self._within(CHANGE_DEADLINE, namespace, super().create_namespace, namespace, properties)  # type: ignore[safe-super]

    def create_table(self, identifier: str | Identifier, *args: Any, **kwargs: Any) -> Table:
        """Creates a table within the change deadline."""
        return self._within(CHANGE_DEADLINE, identifier, super().create_table, identifier, *args, **kwargs)  # type: ignore[safe-super]

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Registers a metadata file as a table within the change deadline."""
        register = super().register_table  # type: ignore[safe-super]
        return self._within(CHANGE_DEADLINE, identifier, register, identifier, metadata_location, overwrite)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commits to a table within the change deadline."""
        return self._within(CHANGE_DEADLINE, table.name(), super().commit_table, table, requirements, updates)  # type: ignore[safe-super]


TOKEN_SECONDS = (REST_CONNECT.default / 1_000, REST_CONNECT.default / 1_000)
"""Time-outs of a request for a token: to connect, and to answer."""


# pyiceberg itself sets no time-out on requests. A request that timed out may have landed, so the sender of a commit reads the lake again
# (DESIGN 6 step 7).
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
