"""Lines of the audit for calls that do not prove who makes them. Whoever reaches the port can make those, so that they are bounded: what
has no line of its own is counted, and the number has a line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

import structlog

from tiering.access.audit import REFUSED, AuditEntry, AuditTrail
from tiering.access.identity import UNCHECKED, address_of
from tiering.access.refusals.line_limit import LineLimit
from tiering.access.tokens import public_id
from tiering.errors import LakewardError, StoreError, Unauthenticated
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text

LINES_OF_A_HOST = 10
"""In a minute."""
LINES = 100
"""In a minute, of all hosts: a day of nothing else fills a file of the refused calls once."""

_log = structlog.get_logger(__name__)


def rpc_name(method: str) -> str:
    """The RPC as the audit names it: `TieringStatus.ListTieringStatuses`."""
    service, _, name = method.rpartition("/")
    return f"{service.rpartition('.')[2]}.{name}"


class RefusedCallers:
    """Of one service. Belongs to its event loop."""

    def __init__(
        self, trail: AuditTrail, clock: Callable[[], float] = time.monotonic, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._trail = trail
        self._limit = LineLimit(LINES_OF_A_HOST, LINES, clock)
        self._now = now

    def add(self, method: str, peer: str, token: str | None, error: LakewardError) -> None:
        """The call was refused for `error`. A file that cannot be written is logged alone: the call is refused all the same."""
        if (summary := self._limit.summary()) is not None:
            self._write("*", "", Unauthenticated.__name__, summary)
        if not self._limit.admits(address_of(peer)):
            return
        token_id = None if token is None else public_id(token)
        shown = error.message if token_id is None or token_id in error.message else f"{error.message} (token {token_id})"
        self._write(rpc_name(method), peer, error.error_class, shown)

    def _write(self, action: str, peer: str, error_class: str, message: str) -> None:
        try:
            self._trail.add(
                AuditEntry(
                    call_id=uuid4().hex,
                    occurred_at=self._now().isoformat(),
                    principal=UNCHECKED.principal,
                    authentication=UNCHECKED.authentication.value,
                    on_behalf_of=None,
                    peer=outside_text(peer, NAME_TEXT_LIMIT),
                    action=action,
                    object=None,
                    allowed=False,
                    outcome=REFUSED,
                    error_class=error_class,
                    message=outside_text(message),
                    idempotency_key=None,
                )
            )
        except StoreError as error:
            _log.error("a refused call could not be audited", action=action, error=error.message)
