"""Whether somebody may have a request performed: what `access.requirements` says of its procedure, on what the request is about."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from tiering.access.audit import current_audited_call
from tiering.access.grants import Access
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.access.requirements import PROCEDURES, On, Requirement
from tiering.coordinator.calls.effects import CallParts
from tiering.coordinator.requests import CallRequest
from tiering.errors import AccessDenied, UnknownDatabase
from tiering.model.names import check_length
from tiering.model.tables import TablePath


class Answer(Enum):
    """What becomes of a request that is not refused."""

    PERFORM = auto()
    UNKNOWN_ROUND = auto()
    """Of a round that is not there, or is of a table that the caller may not know of: both get the same answer."""


def authorize(parts: CallParts, request: CallRequest[Any]) -> Answer:
    """Leaves a line in the audit. Blocks. Raises UnknownTable, UnknownDatabase, AccessDenied, StoreError."""
    requirement = PROCEDURES.get(request.procedure)
    if requirement is None:
        raise AccessDenied(f"sys.{request.procedure} has no line in the table of privileges", hint="That is an error of this version.")
    call = current_audited_call()
    if call is not None:
        call.object = _object(request)
        call.idempotency_key = getattr(request, "idempotency_key", None)
    access = parts.grants.current()  # of the identity, and never of the caller's name: that is a text, which is redacted
    answer = Answer.PERFORM if access.is_unrestricted else _check(parts, request, requirement, access)
    if call is not None and requirement.audited:
        call.start()
    return answer


def check_still_allowed(parts: CallParts, request: CallRequest[Any]) -> None:
    """Before a call that waits tells more: raises UnknownTable or AccessDenied if its caller has lost the privilege since. By names alone.

    Of a database, the call leaves the tables out that its caller may no longer know of.
    """
    requirement, access = PROCEDURES[request.procedure], parts.grants.current()
    path = getattr(request, "path", None)
    if requirement.privilege is None or requirement.on is On.EVERY_TABLE:
        return
    access.require(requirement.privilege, SERVICE if path is None else Resource.of_table(path))


def _check(parts: CallParts, request: Any, requirement: Requirement, access: Access) -> Answer:
    privilege = requirement.privilege
    if privilege is None:
        return Answer.PERFORM
    path = getattr(request, "path", None)
    if path is not None and not _is_repeat(parts, request):
        parts.known_tables.by_path(path, access)
    if requirement.on is On.EVERY_TABLE:
        _check_database(parts, request.database_name, access)
    elif requirement.on is On.ROUND:
        table = _table_of_round(parts, request.round_id, access)
        if table is None:
            return Answer.UNKNOWN_ROUND
        access.require(privilege, Resource.of_table(table))
    elif requirement.on is On.SERVICE or path is None:
        access.require(privilege, SERVICE)
    else:
        access.require(privilege, Resource.of_table(path))
    return Answer.PERFORM


def _is_repeat(parts: CallParts, request: Any) -> bool:
    """Whether it may have been done before: then it gets its answer also when the table is gone by now."""
    key = getattr(request, "idempotency_key", None)
    return key is not None and not request.dry_run and parts.operations.by_key(key, request.caller) is not None


def _check_database(parts: CallParts, name: str, access: Access) -> None:
    """Which of its tables may be tiered is checked where they are chosen. Raises UnknownDatabase, and InvalidName for a too long name."""
    check_length(name, "database")
    known = {info.path.database_name for info in parts.cluster.tables() if access.sees(info.path)}
    if name not in known and not access.may(Privilege.DESCRIBE, Resource(name)):
        raise UnknownDatabase(f"there is no database {name!r}")


def _table_of_round(parts: CallParts, round_id: str, access: Access) -> TablePath | None:
    """None for a round of a table that the caller may not know of, too, after the same look at what is live and what is stored."""
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
