"""The interceptor that checks calls against the grants. It runs behind the server's guard, which has read the request, and before the
servicer.

It checks the requirement of an RPC (`access.requirements`) for the object in the request. It looks up a table first, with the caller's
rights: a table that the caller may not know of does not exist for the caller, and UnknownTable has precedence over any other refusal. An
RPC without a requirement is refused. Procedures and system tables have their own requirements, which are checked where their objects are
known.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Protocol

import grpc
import grpc.aio

from tiering.access.acting_for import named_user, task_acts_for
from tiering.access.audit import ANSWERED, FAILED, GIVEN_UP, REFUSED, AuditedCall, AuditTrail, rpc_name, task_belongs_to
from tiering.access.grants import Access, Grants, task_may
from tiering.access.identity import current_identity
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.access.requirements import RPCS, PrivilegeTarget, Requirement
from tiering.errors import AccessDenied, AlreadyExists, LakewardError, Unauthenticated, UnknownDatabase, UnknownTable
from tiering.model.names import check_database, parse_table_path, table_path
from tiering.model.refused_records import RECORD_ID
from tiering.model.tables import TableInfo, TablePath

_Context = grpc.aio.ServicerContext[Any, Any]
_Behaviour = Callable[[Any, _Context], Any]


_SHOWN_CHARACTERS = 2_000
"""Most characters of a request's text for the audit, which shortens the text further after redaction."""

_SHOWN_ARGUMENTS = 20
"""Most arguments of a CALL that the audit shows: no procedure has more."""


class TablesOfCaller(Protocol):
    """The tables that a caller may know of. Its methods block, and raise UnknownTable for any other table."""

    def by_path(self, path: TablePath, access: Access) -> TableInfo: ...

    def by_id(self, table_id: int, access: Access) -> TableInfo: ...


_UNKNOWN = (UnknownTable, UnknownDatabase)


class CallGrants(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs alone
    """The checks of one server. Handlers are wrapped once."""

    def __init__(self, grants: Grants, tables: TablesOfCaller, trail: AuditTrail | None = None) -> None:
        self._grants = grants
        self._tables = tables
        self._trail = trail

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Returns the method's handler with the check before it; None for an unknown method. The guard keeps the result."""
        handler = await continuation(details)
        if handler is None:
            return None
        method, requirement = details.method, RPCS.get(details.method)
        if requirement is not None and not requirement.identified:
            return handler
        if handler.request_streaming:
            wrap, behaviour = grpc.stream_stream_rpc_method_handler, self._conversing(method, requirement, handler.stream_stream)
        elif handler.response_streaming:
            wrap, behaviour = grpc.unary_stream_rpc_method_handler, self._streaming(method, requirement, handler.unary_stream)
        else:
            wrap, behaviour = grpc.unary_unary_rpc_method_handler, self._answering(method, requirement, handler.unary_unary)
        return wrap(behaviour, handler.request_deserializer, handler.response_serializer)

    def _answering(self, method: str, requirement: Requirement | None, behaviour: _Behaviour) -> _Behaviour:
        async def answer(request: Any, context: _Context) -> Any:
            call, access = self._start_call(method, request, context)
            try:
                await self._check(method, requirement, access, request, call)
                response = await behaviour(request, context)
            except BaseException as error:
                _ended(call, access, error)
                if (shown := _as_readable(method, requirement, access, request, error)) is not error:
                    raise shown from error
                raise
            _answered(call)
            return response

        return answer

    def _streaming(self, method: str, requirement: Requirement | None, behaviour: _Behaviour) -> _Behaviour:
        async def stream(request: Any, context: _Context) -> AsyncGenerator[Any, None]:
            call, access = self._start_call(method, request, context)
            try:
                await self._check(method, requirement, access, request, call)
                async with aclosing(behaviour(request, context)) as items:
                    async for item in items:
                        yield item
            except BaseException as error:
                _ended(call, access, error)
                if (shown := _as_readable(method, requirement, access, request, error)) is not error:
                    raise shown from error
                raise
            _answered(call)

        return stream

    def _conversing(self, method: str, requirement: Requirement | None, behaviour: _Behaviour) -> _Behaviour:
        async def converse(requests: Any, context: _Context) -> AsyncGenerator[Any, None]:
            call, access = self._start_call(method, None, context)
            await self._check(method, requirement, access, None, call)
            async with aclosing(behaviour(requests, context)) as items:
                async for item in items:
                    yield item

        return converse

    def _start_call(self, method: str, request: Any, context: _Context) -> tuple[AuditedCall, Access]:
        identity = current_identity()
        subject = task_acts_for(named_user(context.invocation_metadata() or ()) if self._grants.has_policy else "")
        call = AuditedCall(self._trail, identity, _action(method, request))
        call.object, call.idempotency_key = _shown_object(request), _key(request)
        call.on_behalf_of = subject.principal if subject is not identity else None
        access = self._grants.access_of(subject)
        task_belongs_to(call)
        task_may(access)
        return call, access

    async def _check(self, method: str, requirement: Requirement | None, access: Access, request: Any, call: AuditedCall) -> None:
        """Raises the error for a caller who may not make the call."""
        if requirement is None:
            raise AccessDenied(f"{method} has no line in the table of privileges", hint="That is an error of this version: report it.")
        if self._grants.has_policy and not access.identity.is_checked:
            raise Unauthenticated("the service has a policy file, and the call does not say who makes it")
        if not access.is_unrestricted and not (requirement.tierer and access.may(Privilege.TIERER, SERVICE)):
            await self._check_object(requirement, access, request)
        if requirement.audited and requirement.on is not PrivilegeTarget.PROCEDURE:
            call.start()

    async def _check_object(self, requirement: Requirement, access: Access, request: Any) -> None:
        privilege = requirement.privilege
        if privilege is None or requirement.on is PrivilegeTarget.EVERY_TABLE:
            return
        if requirement.on is PrivilegeTarget.SERVICE:
            access.require(privilege, SERVICE)
        elif requirement.on is PrivilegeTarget.DATABASE:
            # Checked before policies are asked: they match a name against every pattern, however long it is.
            access.require(privilege, Resource(check_database(request.database_name)))
        elif requirement.on is PrivilegeTarget.NEW_TABLE:
            access.require_new(privilege, _path(request))
        elif "table_path" in request.DESCRIPTOR.fields_by_name:
            info = await asyncio.to_thread(self._tables.by_path, _path(request), access)
            access.require(privilege, Resource.of_table(info.path))
        else:
            info = await asyncio.to_thread(self._tables.by_id, request.table_id, access)
            access.require(privilege, Resource.of_table(info.path))


def _path(request: Any) -> TablePath:
    """Returns the table in the request. Raises InvalidName."""
    return table_path(request.table_path.database_name, request.table_path.table_name)


def _ended(call: AuditedCall, access: Access, error: BaseException) -> None:
    """Writes the audit line: of a refusal, or of the end of a call that had begun."""
    refused = isinstance(error, AccessDenied) or (isinstance(error, _UNKNOWN) and not access.is_unrestricted and not call.is_started)
    if not refused and not call.is_started:
        return
    message = error.message if isinstance(error, LakewardError) else None
    error_class = error.error_class if isinstance(error, LakewardError) else type(error).__name__
    is_given_up = isinstance(error, asyncio.CancelledError | GeneratorExit)
    call.end(REFUSED if refused else GIVEN_UP if is_given_up else FAILED, None if is_given_up else error_class, message)


def _as_readable(method: str, requirement: Requirement | None, access: Access, request: Any, error: BaseException) -> BaseException:
    """Returns the error as the caller may read it."""
    if isinstance(error, AlreadyExists) and requirement is not None and not access.is_unrestricted:
        return _without_twin(requirement, access, request, error)
    return _without_names(method, access, error)


def _without_twin(requirement: Requirement, access: Access, request: Any, error: AlreadyExists) -> BaseException:
    """Returns AccessDenied instead of AlreadyExists for a new name that differs only in case from the name of a hidden table."""
    table, database = error.ids.get("table_path"), error.ids.get("database_name")
    if requirement.privilege is None:
        return error
    if requirement.on is PrivilegeTarget.NEW_TABLE and table is not None and not access.sees(parse_table_path(table)):
        return access.denial(requirement.privilege, Resource.of_table(_path(request)))
    is_twin = requirement.on is PrivilegeTarget.DATABASE and database not in (None, request.database_name)
    if is_twin and not access.may(Privilege.DESCRIBE, Resource(database)):
        return access.denial(requirement.privilege, Resource(request.database_name))
    return error


def _without_names(method: str, access: Access, error: BaseException) -> BaseException:
    """Returns the error as the caller may read it: a cluster lists all of its databases in the hint. The system catalog's list is filtered.

    Values of a row are for tierers, which report the error; `sys.tiering_buckets` shows them to callers with SELECT.
    """
    if (
        isinstance(error, LakewardError)
        and RECORD_ID in error.ids
        and not (access.is_unrestricted or access.may(Privilege.TIERER, SERVICE))
    ):
        del error.ids[RECORD_ID]
    if access.is_unrestricted or not isinstance(error, UnknownDatabase) or method.startswith("/sys_tables."):
        return error
    return UnknownDatabase(error.message)


def _answered(call: AuditedCall) -> None:
    if call.is_started:
        call.end(ANSWERED)


def _action(method: str, request: Any) -> str:
    """Returns the procedure or system table, else the RPC."""
    name = method.rpartition("/")[2]
    if name == "CallProcedure":
        return f"sys.{request.name}"
    return f"SELECT sys.{request.name}" if name == "ReadTable" else rpc_name(method)


def _shown_object(request: Any) -> str | None:
    """Returns the object that the request names."""
    names = {} if request is None else request.DESCRIPTOR.fields_by_name
    if "table_path" in names:
        return f"{request.table_path.database_name}.{request.table_path.table_name}"
    for name in ("database_name", "lease_id"):
        if name in names:
            return str(getattr(request, name))[:_SHOWN_CHARACTERS]
    if "arguments" in names:
        return " ".join(_shown_argument(argument) for argument in request.arguments[:_SHOWN_ARGUMENTS])
    if "table_id" in names:
        return f"table id {request.table_id}"
    return None


def _shown_argument(argument: Any) -> str:
    is_long = argument.ByteSize() > _SHOWN_CHARACTERS
    return f"name: {argument.name[:_SHOWN_CHARACTERS]!r} ..." if is_long else " ".join(str(argument).split())


def _key(request: Any) -> str | None:
    names = {} if request is None else request.DESCRIPTOR.fields_by_name
    return str(request.idempotency_key) if "idempotency_key" in names and request.HasField("idempotency_key") else None
