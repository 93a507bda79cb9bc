"""The caller of a page: the user of the present request's session, whose token each read and each CALL of the request shows the service.

The console of a service has many users. `RequireSession` sets the caller of a request, and `CallerCatalog` is the only way of such a
console to the service. So a page cannot read with another user's token: outside of a request with a session, every call is refused.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from sys_tables.catalog_client import SystemCatalog
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.access.client_access import ClientAccess
from tiering.access.file_watch import FileWatch
from tiering.errors import InsecureConnection, Unauthenticated


@dataclass(frozen=True)
class Caller:
    """The user of a session. `token` is None for a service that does not authenticate callers; such a service believes `name`."""

    name: str = ""
    token: str | None = field(default=None, repr=False)


THIS_USER = Caller()
"""The caller of a console that has one user, and shows the token of that user's process."""

_present: ContextVar[Caller] = ContextVar("console_caller")


def task_calls_as(caller: Caller) -> None:
    """Makes the rest of this asyncio task, and the threads that it waits for, call as `caller`."""
    _present.set(caller)


def present_caller() -> Caller:
    """Returns the caller of the present request. Raises Unauthenticated outside of a request with a session."""
    caller = _present.get(None)
    if caller is None:
        raise Unauthenticated("no user is signed in", hint="Sign in to the console again.")
    return caller


class CallerCatalog(SystemCatalog):
    """Reads and calls over one connection, with the token of the present caller. `access` has the files of TLS.

    It reads these files again when the service has renewed its certificate, which `access` may name as the one to trust.
    """

    def __init__(self, uri: str, access: ClientAccess) -> None:
        self._access = replace(access, token_file=None)
        self._files = FileWatch(*(file for file in (access.tls_ca, access.tls_cert, access.tls_key) if file is not None))
        self._note_files()
        super().__init__(uri, access=self._access, token=_present_token)

    def stream(self, request: pb.ReadTableRequest) -> bytes:
        """Returns the rows of any read. Each page begins with a read, so a CALL finds the new connection."""
        connection = self._connection
        try:
            return super().stream(request)
        except InsecureConnection:
            if connection is self._connection and not self._note_files():
                raise
            if connection is self._connection:
                self._connect(self._access, _present_token)
            return super().stream(request)

    def _note_files(self) -> bool:
        """Returns whether the files have changed since the last time."""
        versions = self._files.due()
        if versions is not None:
            self._files.accept(versions)
        return versions is not None

    def _caller(self) -> str:
        return present_caller().name


def _present_token() -> str | None:
    return present_caller().token
