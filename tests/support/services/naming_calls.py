"""Every call that names a table or its database, and what it is answered for a hidden table and for one that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf import message_factory

from support.services.guarded_service import GuardedService
from support.services.method_names import FILES
from support.services.procedure_arguments import ARGUMENTS, CALL, call_fields
from tiering.access.requirements import RPCS, PrivilegeTarget
from tiering.errors import LakewardError
from tiering.model.tables import TablePath
from tiering.procedures.registry import requirements
from tiering.rpc.v1.common_pb2 import PbTablePath
from tiering.wire.error_status import error_from_rpc

POLICIES = """
permit (principal == User::"ana", action, resource in Database::"sales");
permit (principal == User::"ana", action == Action::"OPERATE", resource == Service::"lakeward");
forbid (principal == User::"ana", action, resource == Table::"sales.hidden1");
"""
Named = tuple[TablePath, int]
"""A table's path, and its id."""

KNOWN_DATABASE, HIDDEN_DATABASE = "known database", "hidden database"
PAIRS = {
    KNOWN_DATABASE: (TablePath("sales", "hidden1"), TablePath("sales", "nothing")),
    HIDDEN_DATABASE: (TablePath("hr", "hidden1"), TablePath("nr", "nothing")),
}
"""A hidden and an unknown table. Names are as long in both."""

NO_TABLE_ID = 987_654


OF_A_DATABASE = ("SysCatalog/ListTables", "EmbeddedCluster/ListTables", "CALL tier_database")
NAMING_FIELDS = {"table_path", "table_id", "database_name", "namespace"}
NOT_OF_A_TABLE = ("/CallProcedure", "/ReadTable", "/CreateDatabase")
"""Procedures are called one by one; ReadTable reads system tables; a database is made by its name alone."""

Call = Callable[[Named], str]
"""Makes a call about a table, and returns what it is refused with."""


def naming_calls(service: GuardedService, channel: grpc.Channel, where: str) -> Iterator[tuple[str, Call]]:
    """Every RPC and procedure that names a table; where the database is hidden, those that name one alone, too."""
    for name, call in _all_calls(service, channel):
        if where == HIDDEN_DATABASE or not name.startswith(OF_A_DATABASE):
            yield name, call


def _all_calls(service: GuardedService, channel: grpc.Channel) -> Iterator[tuple[str, Call]]:
    for method, line in RPCS.items():
        if (
            line.on not in (PrivilegeTarget.SERVICE, PrivilegeTarget.NEW_TABLE)
            and not method.endswith(NOT_OF_A_TABLE)
            and _fields(method) & NAMING_FIELDS
        ):
            yield method.rpartition(".")[2], _rpc(service, channel, method)
    for name, requirement in requirements().items():
        if requirement.on in (PrivilegeTarget.TABLE, PrivilegeTarget.EVERY_TABLE) or name == "release_kv_snapshot_lease":
            yield f"CALL {name}", _procedure(service, channel, name, whole_result=True)
            yield f"CALL {name} (SQL)", _procedure(service, channel, name, whole_result=False)


def _descriptor(method: str) -> Any:
    _, service_name, name = method.split("/")
    services = (s for file in FILES for s in file.DESCRIPTOR.services_by_name.values())
    return next((s.methods_by_name[name] for s in services if s.full_name == service_name), None)


def _fields(method: str) -> set[str]:
    descriptor = _descriptor(method)
    return set() if descriptor is None else set(descriptor.input_type.fields_by_name)


def _rpc(service: GuardedService, channel: grpc.Channel, method: str) -> Call:
    known = _fields(method)

    def call(named: Named) -> str:
        path, table_id = named
        fields: dict[str, Any] = {
            "table_path": PbTablePath(database_name=path.database_name, table_name=path.table_name),
            "database_name": path.database_name,
            "table_id": table_id,
            "namespace": path.database_name,
            "name": path.table_name,
        }
        return _answer(service, channel, method, {name: value for name, value in fields.items() if name in known})

    return call


def _procedure(service: GuardedService, channel: grpc.Channel, name: str, *, whole_result: bool) -> Call:
    def call(named: Named) -> str:
        path, _ = named
        about = {"database": path.database_name} if name == "tier_database" else {"table": str(path)}
        arguments = {**about, **ARGUMENTS.get(name, {})}
        return _answer(service, channel, CALL, call_fields(name, whole_result=whole_result, **arguments))

    return call


def _answer(service: GuardedService, channel: grpc.Channel, method: str, fields: dict[str, Any]) -> str:
    descriptor = _descriptor(method)
    request = message_factory.GetMessageClass(descriptor.input_type)(**fields)
    take = message_factory.GetMessageClass(descriptor.output_type).FromString
    metadata = (("authorization", f"Bearer {service.tokens['ana']}"),)
    try:
        return str(list(channel.unary_stream(method, type(request).SerializeToString, take)(request, metadata=metadata, timeout=20)))
    except grpc.RpcError as error:
        refusal: LakewardError = error_from_rpc(error, service.running.uri)
        return f"{refusal.error_class}: {refusal.message} {refusal.hint}"


def without_names(text: str, named: Named) -> str:
    """The answer without the words of the question."""
    path, table_id = named
    database = path.database_name
    words = {path.table_name: "TABLE", f"id {table_id}": "id ID", f"'{database}'": "'DATABASE'"}
    words |= {f"database {database} ": "database DATABASE ", f'"{database}"': '"DATABASE"'}
    for word, placeholder in words.items():
        text = text.replace(word, placeholder)
    return text.replace(f"{path.database_name}.TABLE", "DATABASE.TABLE")
