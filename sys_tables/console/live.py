"""Live pages: a stream that says when a page should be read again. The stream has no values, so it cannot tell more than a page."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sys_tables.console.query import Query
from sys_tables.console.reader import Reader, Row
from sys_tables.console.signing_in import Session, Sessions
from tiering.errors import LakewardError, Unauthenticated

POLL_SECONDS = 0.5
"""Time between two looks for a new event. Each of them reads one row."""
REFRESH_POLLS = 20
"""After so many looks without a new event the page is read all the same, because lags and rounds go on without events."""
OFTEN_POLLS = 4
"""REFRESH_POLLS of a page whose values change without events, such as the progress of a running round."""
MAX_STREAMS = 48
MAX_SESSION_STREAMS = 24
"""Live pages of all sessions and of one session at a time. Each reads one row every half second."""
NEWEST_EVENT = Query("tiering_events", ("occurred_at", "event_type", "database_name", "table_name", "round_id", "message"), limit=1)
"""The table returns its newest row first. `event_id` would be NULL for callers without OPERATE on the service."""
CHANGED, LOST, ENDED = "changed", "lost", "ended"
Pause = Callable[[float], Awaitable[object]]


class LiveStreams:
    """The endpoint of the stream."""

    def __init__(self, reader: Reader, sessions: Sessions) -> None:
        self._reader = reader
        self._sessions = sessions
        self._open: Counter[str] = Counter()
        """Streams by the id of their session."""

    async def stream(self, request: Request) -> Response:
        """Streams until the browser leaves, the session ends, or the console stops."""
        if not self._has_place(request.state.session, new_streams=1):
            raise HTTPException(503, "Too many pages are open. Close some of them, or reload this page by hand.")
        polls = OFTEN_POLLS if request.query_params.get("often") == "yes" else REFRESH_POLLS
        return EventSourceResponse(self._counted(request.state.session, polls))

    def _has_place(self, session: Session, new_streams: int = 0) -> bool:
        total, own = self._open.total() + new_streams, self._open[session.session_id] + new_streams
        return total <= MAX_STREAMS and own <= MAX_SESSION_STREAMS

    async def _counted(self, session: Session, refresh_polls: int = REFRESH_POLLS) -> AsyncIterator[ServerSentEvent]:
        self._open[session.session_id] += 1
        has_place = self._has_place(session)  # requests that came at once were not counted when `stream` looked
        is_open, ends = lambda: has_place and self._sessions.is_open(session), session.caller.token is not None
        try:
            async for name in changes(self._reader, is_open, refresh_polls=refresh_polls, ends_with_token=ends):
                yield ServerSentEvent(event=name, data="")
            yield ServerSentEvent(event=ENDED, data="")
        finally:
            self._open[session.session_id] -= 1
            self._open += Counter()  # drops sessions without a stream


async def changes(
    reader: Reader,
    is_open: Callable[[], bool],
    pause: Pause = asyncio.sleep,
    refresh_polls: int = REFRESH_POLLS,
    ends_with_token: bool = False,
) -> AsyncIterator[str]:
    """Yields CHANGED after each new event and after `refresh_polls` without one, and LOST once when the service stops answering, while
    `is_open`.
    """
    newest, polls, is_lost = await _newest(reader), 0, False
    while is_open():
        await pause(POLL_SECONDS)
        event = await _newest(reader)
        if ends_with_token and isinstance(event, Unauthenticated):
            return
        if isinstance(event, LakewardError):
            if not is_lost:
                yield LOST
            is_lost = True
            continue
        polls += 1
        if is_lost or event != newest or polls >= refresh_polls:
            newest, polls, is_lost = event, 0, False
            yield CHANGED


async def _newest(reader: Reader) -> Row | LakewardError | None:
    try:
        rows = await run_in_threadpool(reader.rows, NEWEST_EVENT)
    except LakewardError as error:
        return error
    return rows[0] if rows else None
