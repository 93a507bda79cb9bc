"""The pages of actions: the list, a form, the check of a change, and its result."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import anyio.to_thread
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sys_tables.console.actions import FIRST_TEXTS, Action, Calls, Outcome, action, actions, new_key, perform
from sys_tables.console.forms import Form
from sys_tables.console.pages import Pages
from sys_tables.console.reader import Reader
from sys_tables.console.signing_in import Session, is_same
from tiering.errors import LakewardError

ARGUMENT = "argument_"
"""Prefix of the fields with arguments."""
CALLS_AT_ONCE = 8
"""Calls that the console waits for at a time. They have threads of their own, so that a page never waits for a call."""


class ActionPages:
    """The endpoints."""

    def __init__(self, pages: Pages, reader: Reader, calls: Calls) -> None:
        self._pages = pages
        self._reader = reader
        self._calls = calls
        self._limiter: anyio.CapacityLimiter | None = None

    async def list(self, request: Request) -> Response:
        """Lists the procedures that the user may run for some table or on the service; with the parameter `all`, also the others."""
        every = await run_in_threadpool(actions, self._reader)
        listed = every if request.query_params.get("all") else [action for action in every if not action.refusal]
        return self._pages.page(request, "actions.html", {"actions": listed, "left_out": len(every) - len(listed)})

    async def form(self, request: Request) -> Response:
        """Shows the form of a procedure. The address may have texts of fields."""
        return self._shown(request, await self._chosen(request, {**FIRST_TEXTS, **request.query_params}))

    async def check(self, request: Request, form: Form) -> Response:
        """Performs a procedure that changes nothing, or the dry run of a change."""
        chosen = await self._chosen(request, _arguments(form))
        return await self._performed(request, chosen, new_key(), None)

    async def perform(self, request: Request, form: Form) -> Response:
        """Performs a change that was checked. A repeated request has no second effect."""
        chosen, key = await self._chosen(request, _arguments(form)), form.get("key", "")
        session: Session = request.state.session
        if not chosen.changes or not is_same(form.get("seal", ""), session.seal(chosen.sealed_text(key))):
            raise HTTPException(409, "This change was not checked with these arguments. Go back, and check it first.")
        return await self._performed(request, chosen, key, key)

    async def _performed(self, request: Request, chosen: Action, key: str, performed_key: str | None) -> Response:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(CALLS_AT_ONCE)
        try:
            outcome = await anyio.to_thread.run_sync(perform, self._calls, chosen, performed_key, limiter=self._limiter)
        except LakewardError as error:
            # A change may have happened although its answer is an error: the form keeps its key, and can be sent again.
            return self._shown(request, chosen, error=error, key=performed_key)
        return self._shown(request, chosen, outcome, key=key if outcome.is_dry_run else None)

    def _shown(
        self, request: Request, chosen: Action, outcome: Outcome | None = None, error: LakewardError | None = None, key: str | None = None
    ) -> Response:
        session: Session = request.state.session
        seal = None if key is None else session.seal(chosen.sealed_text(key))
        content = {"action": chosen, "outcome": outcome, "error": error, "key": key, "seal": seal, "prefix": ARGUMENT}
        return self._pages.page(request, "action.html", content)

    async def _chosen(self, request: Request, texts: Mapping[str, str]) -> Action:
        return await run_in_threadpool(action, self._reader, request.path_params["procedure"], texts)


def _arguments(form: Form) -> dict[str, str]:
    return {name.removeprefix(ARGUMENT): text for name, text in form.items() if name.startswith(ARGUMENT)}
