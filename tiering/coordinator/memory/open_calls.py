"""The CALLs that the service works on now: one row of `sys.open_calls` each, and one log line when a CALL ends.

They are kept in memory: a CALL ends with its connection or with the service.
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
from tiering.access.request_bounds import check_id

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OpenCall:
    """One CALL between its first message and its last. `call_id` counts from 1 since the start of the service.

    `caller` is the displayed name. `principal` is the one whose grants count.
    """

    call_id: int
    procedure: str
    caller: str
    idempotency_key: str | None
    started_time: datetime
    principal: str


class OpenCalls:
    """The open CALLs. They belong to one event loop; `list` may be called from any thread."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._numbers = count(1)
        self._open: dict[int, OpenCall] = {}

    @contextmanager
    def during(self, procedure: str, caller: str, idempotency_key: str | None) -> Iterator[None]:
        """Lists the CALL inside of the block. A cancellation means that its caller gave up. Raises InvalidArgument for an invalid key."""
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
        """Returns the open CALLs, the oldest first."""
        return tuple(sorted(self._open.copy().values(), key=lambda call: call.call_id))
