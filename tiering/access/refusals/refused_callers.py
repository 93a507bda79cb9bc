"""Audit lines for calls without a valid authentication.

Any program that reaches the port can cause them, so they are limited: further calls are counted, and one line has their number.
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
"""Upper bound of lines per minute and host."""
LINES = 100
"""Upper bound of lines per minute for all hosts. At this rate, one day fills one file of refused calls."""

_log = structlog.get_logger(__name__)


def rpc_name(method: str) -> str:
    """Returns the name of an RPC in the audit, such as `TieringStatus.ListTieringStatuses`."""
    service, _, name = method.rpartition("/")
    return f"{service.rpartition('.')[2]}.{name}"


class RefusedCallers:
    """The refused calls of one service. It belongs to the service's event loop."""

    def __init__(
        self, trail: AuditTrail, clock: Callable[[], float] = time.monotonic, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._trail = trail
        self._limit = LineLimit(LINES_OF_A_HOST, LINES, clock)
        self._now = now

    def add(self, method: str, peer: str, token: str | None, error: LakewardError) -> None:
        """Adds a line for a call that was refused with `error`. If the file cannot be written, that is only logged."""
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
