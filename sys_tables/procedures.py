"""The procedures of `sys`, all made from the declarations in `tiering/procedures` by one adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from sys_tables.declare.procedure import Call, Procedure
from sys_tables.query.lookup import near_hint, resolve_database, resolve_table
from tiering.coordinator.interface import NamesView
from tiering.errors import UnknownDatabase, UnknownProcedure, UnknownTable
from tiering.model.declare import row_in_sql
from tiering.model.names import NAME_LIMIT
from tiering.model.tables import TablePath
from tiering.procedures.base import CallRequest, Mutation, Progress
from tiering.procedures.help import Help, HelpRow
from tiering.procedures.registry import declarations


def declared_procedures() -> Iterator[Procedure]:
    """Yields each declared procedure that SQL can call."""
    for declaration in declarations().values():
        if declaration.in_sql:
            yield Procedure(declaration, explain_procedures if declaration is Help else perform)


async def perform(call: Call, request: CallRequest[Any]) -> AsyncGenerator[object, None]:
    """Has the coordinator perform the request. Yields its progress, then its rows by their names in SQL."""
    request = await _with_existing_names(call, request)
    async with aclosing(call.handle.control.perform_with_progress(request)) as steps:
        async for step in steps:
            if isinstance(step, Progress):
                yield step
                continue
            for row in request.rows(step):
                yield row if isinstance(row, str) else SimpleNamespace(**row_in_sql(row, request.row_class))


async def explain_procedures(call: Call, request: Help) -> AsyncGenerator[object, None]:
    """Yields a row for each procedure, each followed by a row for each of its parameters. Raises UnknownProcedure."""
    name = request.explained
    explained = [procedure for procedure in call.procedures if name is None or procedure.name == name.lower()]
    if not explained and name is not None:
        raise UnknownProcedure(f"there is no procedure {name[:NAME_LIMIT]!r}", hint=_hint(name, call.procedures))
    for procedure in explained:
        yield HelpRow(procedure.name, None, None, None, None, procedure.comment)
        for parameter in procedure.parameters:
            yield HelpRow(procedure.name, parameter.name, parameter.type, parameter.required, parameter.default, parameter.comment)


def _hint(text: str, procedures: Sequence[Procedure]) -> str:
    """Returns a hint with the procedures whose names begin with the text, or else with the nearest names."""
    names = [procedure.name for procedure in procedures]
    if matching := [name for name in names if text.strip() and name.startswith(text.strip().lower())]:
        return f"Did you mean {' or '.join(matching)}?"
    return near_hint(text, names, "procedures")


async def _with_existing_names(call: Call, request: CallRequest[Any]) -> CallRequest[Any]:
    """Returns the request with its table or database as it was created, whatever the case of letters in the CALL.

    A repeat of an earlier call gets its answer even if the table was dropped since, so its names stay as they are. A dry run repeats
    nothing. Raises UnknownDatabase, UnknownTable.
    """
    try:
        return await asyncio.to_thread(_resolved, call.handle.view(), request)
    except (UnknownDatabase, UnknownTable):
        key = request.idempotency_key if isinstance(request, Mutation) and not request.dry_run else None
        if key is None or not await call.handle.control.knows(key, request.caller):
            raise
        return request


def _resolved(view: NamesView, request: Any) -> CallRequest[Any]:
    path: TablePath | None = getattr(request, "path", None)
    if path is not None:
        return replace(request, path=resolve_table(view, path).path)
    database_name: str | None = getattr(request, "database_name", None)
    return request if database_name is None else replace(request, database_name=resolve_database(view, database_name))
