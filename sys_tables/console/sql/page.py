"""The SQL page: an editor for statements on `sys`, whose text is part of the address, and the answer as a table or a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sys_tables.console.pages import Pages
from sys_tables.console.signing_in import Session
from sys_tables.console.sql.examples import examples
from sys_tables.console.sql.line_chart import line_chart
from sys_tables.console.sql.runner import MAX_ROWS, SqlAnswer, StatementRunner
from sys_tables.console.sql.statements import MAX_CHARACTERS
from tiering.errors import LakewardError, ServiceUnreachable, Unauthenticated

STATEMENTS_AT_ONCE = 2
"""Statements that run at a time. They have threads of their own, so that another page never waits for a statement."""
MAX_WAITING = 8
MAX_BARS = 50
TABLE, CHART = "table", "chart"


@dataclass(frozen=True)
class Bar:
    """One bar of a chart. `share` is a percentage of the longest bar."""

    label: str
    value: float
    share: float


class SqlPage:
    """The endpoint."""

    def __init__(self, pages: Pages, runner: StatementRunner) -> None:
        self._pages = pages
        self._runner = runner
        self._running: set[str] = set()
        self._limiter = anyio.CapacityLimiter(STATEMENTS_AT_ONCE)

    async def show(self, request: Request) -> Response:
        """Shows the editor, and the answer of the statement in the address."""
        statement = request.query_params.get("statement", "").strip()
        shown_as = CHART if request.query_params.get("as") == CHART else TABLE
        content: dict[str, Any] = {"statement": statement, "shown_as": shown_as, "examples": await run_in_threadpool(examples)}
        content |= {"max_characters": MAX_CHARACTERS, "max_rows": MAX_ROWS}
        status_code = 200
        if statement:
            try:
                answer = await self._answer(request.state.session, statement)
                chart = line_chart(answer) if shown_as == CHART else None
                content |= {"answer": answer, "line_chart": chart, "bars": bars(answer) if shown_as == CHART and chart is None else ()}
            except (ServiceUnreachable, Unauthenticated):
                raise
            except LakewardError as error:
                content["error"], status_code = error, 400
        # The answer may be long, and other pages wait while the event loop renders it.
        return await run_in_threadpool(self._pages.page, request, "sql.html", content, status_code)

    async def _answer(self, session: Session, statement: str) -> SqlAnswer:
        """Runs a statement. A session runs one at a time, so that one user does not take the place of all others."""
        if session.session_id in self._running:
            raise HTTPException(429, "Your last statement still runs. Try again when it has ended.")
        if self._limiter.statistics().tasks_waiting >= MAX_WAITING:
            raise HTTPException(503, "Too many statements run at the same time. Try again later.")
        self._running.add(session.session_id)
        try:
            return await anyio.to_thread.run_sync(self._runner.run, statement, limiter=self._limiter)
        finally:
            self._running.discard(session.session_id)


def bars(answer: SqlAnswer) -> Sequence[Bar]:
    """Returns a bar for each row: its first column that is a number, labelled with all columns that are not. Empty without a number."""
    numeric = [place for place in range(len(answer.columns)) if all(_is_number(row[place]) or row[place] is None for row in answer.rows)]
    value_at = next((place for place in numeric if any(row[place] is not None for row in answer.rows)), None)
    if value_at is None:
        return ()
    labels = [place for place in range(len(answer.columns)) if place not in numeric]
    rows = [(", ".join(str(row[place]) for place in labels), row[value_at]) for row in answer.rows[:MAX_BARS] if row[value_at] is not None]
    longest = max((abs(value) for _, value in rows), default=0) or 1
    return [Bar(label, value, round(100 * max(value, 0) / longest, 2)) for label, value in rows]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
