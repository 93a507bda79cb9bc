"""Converts the messages of sys_catalog.proto from and to this package's values, and limits the size of requests."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from functools import cache

from sys_tables.declare.procedure import Procedure
from sys_tables.declare.scan import Aggregate, Function, Order, ScanRequest
from sys_tables.declare.system_table import SystemTable
from sys_tables.query.data_tables import DataTable
from sys_tables.registry import Registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.server.plan_token import PlanToken
from tiering.coordinator.interface import CatalogNames
from tiering.errors import InvalidArgument
from tiering.model.names import SYSTEM_DATABASE, check_length
from tiering.wire.conditions import ConditionReader

_PAGE_TOKEN_LIMIT = 4_096
"""Characters of a page token: two of the longest names are a fraction of it."""

MAX_NAMED = 1_000
"""Columns, sort keys, groups and aggregates of one read: above any table's number of columns."""


def description_to_pb(registry: Registry, databases: Sequence[str]) -> pb.DescribeResponse:
    """Returns the answer of Describe: all namespaces, system tables and procedures, and the token for statements that are planned with
    it."""
    response = pb.DescribeResponse(
        namespaces=[*databases, SYSTEM_DATABASE],
        system_tables=[_listed_table_to_pb(table) for table in registry.tables],
        procedures=[_procedure_to_pb(procedure) for procedure in registry.procedures],
    )
    response.token = str(PlanToken.of(response.SerializeToString(deterministic=True), registry.tables))
    return response


def system_table_to_pb(table: SystemTable) -> pb.DescribeTableResponse:
    """Returns a system table as DescribeTable answers it."""
    return pb.DescribeTableResponse(name=table.name, comment=table.comment, schema=table.schema.serialize().to_pybytes())


def data_table_to_pb(table: DataTable) -> pb.DescribeTableResponse:
    """Returns a data table as DescribeTable answers it."""
    return pb.DescribeTableResponse(
        name=table.path.table_name,
        comment=table.comment,
        schema=table.schema.serialize().to_pybytes(),
        properties=table.properties,
        lake_path=table.lake_path,
        not_in_lake=table.not_in_lake,
        primary_key=table.primary_key,
        partition_keys=table.partition_keys,
        lake_history=table.lake_history,
        definition=table.definition,
    )


def scan_request_from_pb(request: pb.ReadTableRequest, procedures: tuple[Procedure, ...]) -> ScanRequest:
    """Returns the scan that a ReadTable requests.

    Raises InvalidArgument for a filter without an operator, a condition that is empty or nested too deep, an unknown aggregate, and for
    more parts than a statement can need; InvalidName for a name that is too long.
    """
    named = {"columns": request.columns, "sort keys": request.order, "groups": request.group_by, "aggregates": request.aggregates}
    for clause, items in named.items():
        _check_count(clause, len(items))
    conditions = ConditionReader()
    return ScanRequest(
        columns=tuple(check_length(name, "column") for name in request.columns),
        filters=tuple(conditions.filter(condition) for condition in request.filters),
        limit=request.limit if request.HasField("limit") else None,
        conditions=tuple(conditions.condition(condition) for condition in request.conditions),
        order=_order_from_pb(request),
        group_by=tuple(check_length(name, "column") for name in request.group_by),
        aggregates=tuple(_aggregate_from_pb(aggregate) for aggregate in request.aggregates),
        procedures=procedures,
        names=CatalogNames.from_plain(check_length(request.catalog, "catalog"), check_length(request.lake_catalog, "catalog")),
    )


def page_token(namespace: str, last_name: str) -> str:
    """Returns the token of the page that follows `last_name`."""
    return base64.urlsafe_b64encode(json.dumps([namespace, last_name]).encode()).decode()


def last_name(token: str, namespace: str) -> str:
    """Returns the last name of the page before; empty for the first page. Raises InvalidArgument for a token of another listing."""
    if not token:
        return ""
    if len(token) > _PAGE_TOKEN_LIMIT:
        raise InvalidArgument("the page token is not one of this service")
    try:
        decoded = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise InvalidArgument("the page token is not one of this service") from error
    match decoded:
        case [str(listed), str(name)] if listed == namespace:
            return name
    raise InvalidArgument("the page token belongs to another listing")


# A plugin calls Describe every second while a session is active, and these messages never change.
@cache
def _listed_table_to_pb(table: SystemTable) -> pb.SystemTable:
    return pb.SystemTable(namespace=SYSTEM_DATABASE, name=table.name, comment=table.comment, schema=table.schema.serialize().to_pybytes())


@cache
def _procedure_to_pb(procedure: Procedure) -> pb.Procedure:
    return pb.Procedure(
        namespace=SYSTEM_DATABASE,
        name=procedure.name,
        comment=procedure.comment,
        parameters=[
            pb.Parameter(name=p.name, type=p.type, required=p.required, default_value=p.default, comment=p.comment)
            for p in procedure.parameters
        ],
        output_schema=procedure.output_schema.serialize().to_pybytes(),
    )


def _check_count(items: str, count: int) -> None:
    if count > MAX_NAMED:
        raise InvalidArgument(f"{count} {items} are asked for at once: at most {MAX_NAMED} can be")


def _order_from_pb(request: pb.ReadTableRequest) -> tuple[Order, ...]:
    """The sort keys, each column once: what was sorted by a column already is not reordered by it again."""
    keys: dict[str, Order] = {}
    for key in request.order:
        keys.setdefault(check_length(key.column, "column"), Order(key.column, key.descending, key.nulls_first))
    return tuple(keys.values())


def _aggregate_from_pb(aggregate: pb.Aggregate) -> Aggregate:
    functions = pb.Aggregate.Function
    name = functions.Name(aggregate.function) if aggregate.function in functions.values() else str(aggregate.function)
    if name not in Function.__members__:
        raise InvalidArgument(f"the aggregate {name} is unknown")
    return Aggregate(Function[name], check_length(aggregate.column, "column") if aggregate.HasField("column") else None)
