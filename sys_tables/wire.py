"""Between the messages of sys_catalog.proto and the plain values of this package. No I/O, no decisions."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from functools import cache

from sys_tables.definitions import Procedure, SystemTable
from sys_tables.plan_token import PlanToken
from sys_tables.registry import Registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.scan import Aggregate, AllOf, AnyOf, Condition, Filter, Function, Instant, Not, Operator, Order, ScanRequest, Value
from tiering.errors import InvalidArgument
from tiering.names import SYSTEM_DATABASE

CAPABILITIES = ("conditions", "order", "aggregates")
"""What ReadTable understands beyond its first version (proto `DescribeResponse.capabilities`)."""

_DEEPEST = 50
"""Conditions nested deeper are refused: what a person writes never is, and Python's stack is finite."""


def description(registry: Registry, databases: Sequence[str]) -> pb.DescribeResponse:
    """All there is, with its token."""
    said = pb.DescribeResponse(
        namespaces=[*databases, SYSTEM_DATABASE],
        system_tables=[_system_table(table) for table in registry.tables],
        procedures=[_procedure(procedure) for procedure in registry.procedures],
        capabilities=CAPABILITIES,
    )
    said.token = str(PlanToken.of(said.SerializeToString(deterministic=True), registry.tables))
    return said


def described_system_table(table: SystemTable) -> pb.DescribeTableResponse:
    """A system table as DescribeTable answers it."""
    return pb.DescribeTableResponse(name=table.name, comment=table.comment, schema=table.schema.serialize().to_pybytes())


def scan_request(request: pb.ReadTableRequest, procedures: tuple[Procedure, ...]) -> ScanRequest:
    """Raises InvalidArgument for a filter without an operator, an empty or too deep condition, an unknown aggregate."""
    return ScanRequest(
        columns=tuple(request.columns),
        filters=tuple(_filter(condition) for condition in request.filters),
        limit=request.limit if request.HasField("limit") else None,
        conditions=tuple(_condition(condition, _DEEPEST) for condition in request.conditions),
        order=tuple(Order(key.column, key.descending, key.nulls_first) for key in request.order),
        group_by=tuple(request.group_by),
        aggregates=tuple(_aggregate(aggregate) for aggregate in request.aggregates),
        procedures=procedures,
    )


def arguments(request: pb.CallProcedureRequest) -> list[tuple[str, Value]]:
    """Names and values as they were given; None is NULL."""
    return [(argument.name, _value(argument.value)) for argument in request.arguments]


def page_token(namespace: str, last_name: str) -> str:
    """The token of the page that follows `last_name`."""
    return base64.urlsafe_b64encode(json.dumps([namespace, last_name]).encode()).decode()


def last_name(token: str, namespace: str) -> str:
    """Where the page before ended; empty for the first. Raises InvalidArgument for a token of another listing."""
    if not token:
        return ""
    try:
        decoded = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument("the page token is not one of this service") from error
    match decoded:
        case [str(listed), str(name)] if listed == namespace:
            return name
    raise InvalidArgument("the page token belongs to another listing")


# A plugin asks every second while somebody works; these never change.
@cache
def _system_table(table: SystemTable) -> pb.SystemTable:
    return pb.SystemTable(namespace=SYSTEM_DATABASE, name=table.name, comment=table.comment, schema=table.schema.serialize().to_pybytes())


@cache
def _procedure(procedure: Procedure) -> pb.Procedure:
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


def _filter(condition: pb.Filter) -> Filter:
    name = pb.Filter.Operator.Name(condition.operator) if condition.operator in pb.Filter.Operator.values() else str(condition.operator)
    if name not in Operator.__members__:
        raise InvalidArgument(f"the filter on {condition.column!r} has the unknown operator {name}")
    return Filter(condition.column, Operator[name], tuple(_value(literal) for literal in condition.values))


def _condition(condition: pb.Condition, depth: int) -> Condition:
    if depth == 0:
        raise InvalidArgument(f"conditions are nested deeper than {_DEEPEST} times")
    match condition.WhichOneof("kind"):
        case "filter":
            return _filter(condition.filter)
        case "all":
            return AllOf(tuple(_condition(part, depth - 1) for part in condition.all.conditions))
        case "any":
            return AnyOf(tuple(_condition(part, depth - 1) for part in condition.any.conditions))
        case "negated":
            return Not(_condition(condition.negated, depth - 1))
        case _:
            raise InvalidArgument("a condition says nothing that this service knows")


def _aggregate(aggregate: pb.Aggregate) -> Aggregate:
    functions = pb.Aggregate.Function
    name = functions.Name(aggregate.function) if aggregate.function in functions.values() else str(aggregate.function)
    if name not in Function.__members__:
        raise InvalidArgument(f"the aggregate {name} is unknown")
    return Aggregate(Function[name], aggregate.column if aggregate.HasField("column") else None)


def _value(literal: pb.Literal) -> Value:
    kind = literal.WhichOneof("value")
    if kind is None:
        return None
    if kind == "timestamp_us":
        return Instant(literal.timestamp_us)
    value: Value = getattr(literal, kind)
    return value
