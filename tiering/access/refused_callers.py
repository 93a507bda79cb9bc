"""Lines of the audit for calls that do not prove who makes them. Whoever reaches the port can make those, so that they are bounded: what
has no line of its own is counted, and the number has a line.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

import structlog

from tiering.access.audit import REFUSED, AuditEntry, AuditTrail
from tiering.access.identity import UNCHECKED
from tiering.access.tokens import public_id
from tiering.errors import LakewardError, StoreError, Unauthenticated
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text

WINDOW_SECONDS = 60.0
LINES_OF_A_HOST = 10
"""In a window."""
LINES = 100
"""In a window, of all hosts: a day of nothing else fills a file of the audit's ten once."""

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
        self._clock = clock
        self._now = now
        self._window_began = clock()
        self._lines: Counter[str] = Counter()
        self._left_out = 0

    def add(self, method: str, peer: str, token: str | None, error: LakewardError) -> None:
        """The call was refused for `error`. A file that cannot be written is logged alone: the call is refused all the same."""
        if self._clock() - self._window_began >= WINDOW_SECONDS:
            self._begin_window()
        host = peer.rpartition(":")[0]
        if self._lines[host] >= LINES_OF_A_HOST or self._lines.total() >= LINES:
            self._left_out += 1
            return
        self._lines[host] += 1
        token_id = None if token is None else public_id(token)
        shown = error.message if token_id is None or token_id in error.message else f"{error.message} (token {token_id})"
        self._write(rpc_name(method), peer, error.error_class, shown)

    def _begin_window(self) -> None:
        left_out, since = self._left_out, self._clock() - self._window_began
        self._window_began, self._left_out = self._clock(), 0
        self._lines.clear()
        if left_out:
            message = f"{left_out} more calls of the {since:.0f} s before were refused, and have no line of their own"
            self._write("*", "", Unauthenticated.__name__, message)

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
