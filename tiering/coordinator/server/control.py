"""Performs requests: authorizes the caller by the requirement of the procedure, finds the effect and runs it in the threads of its pool.

Implements `interface.CoordinatorControl`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from importlib import import_module
from typing import Any

from tiering.access.audit import current_audited_call
from tiering.access.grants import Access
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.coordinator import calls
from tiering.coordinator.call_support.parts import CallParts
from tiering.errors import LakewardError, UnknownDatabase
from tiering.model.names import check_length
from tiering.model.tables import TablePath
from tiering.procedures.base import CallRequest, Pool, Progress, ResultT
from tiering.procedures.cancel_tiering import CancelOutcome, CancelTiering, CancelTieringResult
from tiering.procedures.registry import declarations


def _effects() -> Mapping[str, Callable[[CallParts, Any], Any]]:
    """Returns the effects by the name of their procedure. `help` has none."""
    names = [name for name in declarations() if name != "help"]
    return {name: getattr(import_module(f"{calls.__name__}.{name}"), name) for name in names}


class Control:
    """Performs requests. Calls wait on the event loop and not in a thread, so that waiting calls never delay a read."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._effects = _effects()

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Performs the request, once per idempotency key."""
        steps = self.perform_with_progress(request)
        async with aclosing(steps):
            results = [step async for step in steps if not isinstance(step, Progress)]
        return results[-1]

    def perform_with_progress(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        """Performs the request, and yields progress lines, then exactly one result."""
        return self._authorized(request)

    async def knows(self, idempotency_key: str, caller: str) -> bool:
        """Returns whether the key already names an operation of the caller."""
        operations = self._parts.operations
        return await self._parts.threads.run(Pool.STORE, lambda: operations.by_key(idempotency_key, caller) is not None)

    def end_waits(self) -> None:
        """Makes each waiting call answer with the present state of its table."""
        self._parts.stopping.set()
        self._parts.table_records.wake_ups.notify()

    def close(self) -> None:
        """Accepts no more calls."""
        self._parts.threads.close()
        self._parts.probes.close()

    async def _authorized(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        """Performs the request if its caller is authorized. Raises UnknownTable, UnknownDatabase, AccessDenied."""
        if not await self._parts.threads.run(Pool.STORE, partial(authorize, self._parts, request)):
            assert isinstance(request, CancelTiering), "no other request is about a round"
            yield CancelTieringResult(request.round_id, None, CancelOutcome.UNKNOWN)  # type: ignore[misc]  # it is this request's result
            return
        effect = self._effects[request.procedure]
        if request.pool is not None:
            yield await self._parts.threads.run(request.pool, partial(effect, self._parts, request))
            return
        async with aclosing(effect(self._parts, request)) as steps:
            try:
                async for step in steps:
                    check_still_allowed(self._parts, request)
                    yield step
            except LakewardError:
                check_still_allowed(self._parts, request)  # an error reveals facts about the table, too
                raise


def authorize(parts: CallParts, request: CallRequest[Any]) -> bool:
    """Authorizes the request and writes a line to the audit. Returns False if it is about a round that the caller cannot know of.

    That is a round that does not exist, or one of a table that the caller may not see: both get the same answer.
    It blocks. Raises UnknownTable, UnknownDatabase, AccessDenied, StoreError.
    """
    requirement = request.requirement
    call = current_audited_call()
    if call is not None:
        call.object = _object(request)
        call.idempotency_key = getattr(request, "idempotency_key", None)
    access = parts.grants.current()  # by the identity, never by the caller's name, which is a redacted text
    has_object = access.is_unrestricted or _check(parts, request, requirement, access)
    if call is not None and requirement.audited:
        call.start()
    return has_object


def check_still_allowed(parts: CallParts, request: CallRequest[Any]) -> None:
    """Raises UnknownTable or AccessDenied if the caller of a waiting call has lost the privilege since. It checks only names.

    A call about a database omits the tables that its caller may no longer see.
    """
    requirement, access = request.requirement, parts.grants.current()
    path = getattr(request, "path", None)
    if requirement.privilege is None or requirement.on is PrivilegeTarget.EVERY_TABLE:
        return
    access.require(requirement.privilege, SERVICE if path is None else Resource.of_table(path))


def _check(parts: CallParts, request: Any, requirement: Requirement, access: Access) -> bool:
    privilege = requirement.privilege
    if privilege is None:
        return True
    path = getattr(request, "path", None)
    if path is not None and not _is_repeat(parts, request):
        parts.visible_tables.by_path(path, access)
    if requirement.on is PrivilegeTarget.EVERY_TABLE:
        _check_database(parts, request.database_name, access)
    elif requirement.on is PrivilegeTarget.ROUND:
        table = _table_of_round(parts, request.round_id, access)
        if table is None:
            return False
        access.require(privilege, Resource.of_table(table))
    elif requirement.on is PrivilegeTarget.SERVICE or path is None:
        access.require(privilege, SERVICE)
    else:
        access.require(privilege, Resource.of_table(path))
    return True


def _is_repeat(parts: CallParts, request: Any) -> bool:
    """Returns whether the request may have been performed before. Then it gets its answer even if the table was dropped since."""
    key = getattr(request, "idempotency_key", None)
    return key is not None and not request.dry_run and parts.operations.by_key(key, request.caller) is not None


def _check_database(parts: CallParts, name: str, access: Access) -> None:
    """Raises UnknownDatabase if the caller may not see the database, and InvalidName for a name that is too long.

    Which of its tables may be tiered is checked where they are chosen.
    """
    check_length(name, "database")
    visible_databases = {info.path.database_name for info in parts.cluster.tables() if access.sees(info.path)}
    if name not in visible_databases and not access.may(Privilege.DESCRIBE, Resource(name)):
        raise UnknownDatabase(f"there is no database {name!r}")


def _table_of_round(parts: CallParts, round_id: str, access: Access) -> TablePath | None:
    """Returns the table of a round; None if the round is unknown, or its table hidden from the caller.

    Both cases read the live and the stored rounds.
    """
    records = parts.table_records
    live = (record.round for record in records.live() if record.round is not None and record.round.round_id == round_id)
    visible = (row for row in live if access.sees_name(row.database_name, row.table_name))
    row = next(visible, None) or records.store.round(round_id)
    if row is None or not access.sees_name(row.database_name, row.table_name):
        return None
    return TablePath(row.database_name, row.table_name)


def _object(request: CallRequest[Any]) -> str | None:
    for name in ("path", "round_id", "database_name", "lease_id", "tierer_id"):
        if (value := getattr(request, name, None)) is not None:
            return str(value)
    return None
