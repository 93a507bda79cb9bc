"""Turns content into pages, by the templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.templating import Jinja2Templates

from sys_tables.console import cells
from sys_tables.console.actions import prefilled
from sys_tables.console.charts.activity import CELLS, HOURS
from sys_tables.console.overview import BY_PROMISE, BY_STATE, PERSONS, PROMISES, SORTS, UNKNOWN_PROMISE, URGENT
from sys_tables.console.signing_in import Session
from sys_tables.console.views.declared import VIEWS
from sys_tables.registry import Registry
from tiering.access.requirements import PrivilegeTarget
from tiering.model.states import LASTING
from tiering.round_history import PART_NAMES

NAVIGATION = (
    ("overview", "Overview", "o"),
    *((view.name, view.title, view.key) for view in VIEWS),
    *(("sql", "SQL", "q"), ("actions", "Actions", "c"), ("system", "System tables", "s"), ("help", "Help", "h")),
)
"""Routes in the header of each page, with their names and the keys that follow `g`."""


class Pages:
    """The templates, with the functions that they use."""

    def __init__(self, registry: Registry) -> None:
        self._requirements = {procedure.name: procedure.request_class.requirement for procedure in registry.procedures}
        self._templates = Jinja2Templates(Path(__file__).parent / "templates")
        self._parameters = {procedure.name: [parameter.name for parameter in procedure.parameters] for procedure in registry.procedures}
        self._templates.env.globals |= {
            "navigation": NAVIGATION,
            "states": LASTING,
            "promises": PROMISES,
            "unknown_promise": UNKNOWN_PROMISE,
            "by_state": BY_STATE,
            "by_promise": BY_PROMISE,
            "persons": PERSONS,
            "urgent": URGENT,
            "sorts": list(SORTS),
            "hours": HOURS,
            "cells": CELLS,
            "part_names": PART_NAMES,
            "form_of": self._form_of,
            "link_of": cells.link_of,
            "table_actions": self._table_actions,
        }
        self._templates.env.filters |= {"shown": cells.shown, "label": cells.label, "parameters": _parameters}
        self._templates.env.tests |= {"time": cells.is_time, "numeric": cells.is_number}

    def page(self, request: Request, template: str, content: Mapping[str, Any], status_code: int = 200) -> Response:
        """Returns a page as an answer."""
        session: Session | None = getattr(request.state, "session", None)
        return self._templates.TemplateResponse(request, template, {"session": session, **content}, status_code)

    def _form_of(self, request: Request, statement: str | None) -> str | None:
        """Returns the address of the form that a `next_action` fills; None for a statement that is no CALL of `sys`."""
        call = prefilled(statement, self._parameters)
        return None if call is None else f"{request.url_for('action', procedure=call[0])}?{_parameters(call[1])}"

    def _table_actions(self, privileges: Sequence[str] | None) -> list[str]:
        """Returns the procedures for a table, without those for which the user lacks a privilege on it. `privileges` None: unknown."""
        return [
            name
            for name, requirement in self._requirements.items()
            if "table" in self._parameters[name]
            if privileges is None or requirement.on is not PrivilegeTarget.TABLE or requirement.privilege in privileges
        ]


def _parameters(texts: Mapping[str, str]) -> str:
    """Returns the parameters of an address."""
    return urlencode(texts, quote_via=quote)
