"""Which CALLs the service works on now: a row of `sys.open_calls` each, and a line in the log when one ends.

Kept in memory: a CALL does not outlive its connection, and none outlives the service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count

import structlog

from tiering.access.acting_for import current_subject
from tiering.wire.request_bounds import check_id

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OpenCall:
    """One CALL between its first message and its last. `call_id` counts from 1 since the start of the service.

    `caller` is a name to show; `principal` is whose grants count.
    """

    call_id: int
    procedure: str
    caller: str
    idempotency_key: str | None
    started_time: datetime
    principal: str


class OpenCalls:
    """Belongs to one event loop; `list` may be called from any thread."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._numbers = count(1)
        self._open: dict[int, OpenCall] = {}

    @contextmanager
    def during(self, procedure: str, caller: str, idempotency_key: str | None) -> Iterator[None]:
        """Listed inside. Left by a cancellation, its caller gave it up or has gone. Raises InvalidArgument for a key that cannot be."""
        if idempotency_key is not None:
            check_id(idempotency_key, "idempotency_key")
        call = OpenCall(next(self._numbers), procedure, caller, idempotency_key, self._now(), current_subject().principal)
        self._open[call.call_id] = call
        ended = "failed"
        try:
            yield
            ended = "answered"
        except (asyncio.CancelledError, GeneratorExit):
            ended = "given up"
            raise
        finally:
            del self._open[call.call_id]
            _log.info("call ended", call_id=call.call_id, procedure=procedure, caller=caller, how=ended)

    def list(self) -> tuple[OpenCall, ...]:
        """The oldest first."""
        return tuple(sorted(self._open.copy().values(), key=lambda call: call.call_id))
