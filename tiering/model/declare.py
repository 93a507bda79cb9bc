"""Declares the fields of a dataclass that SQL sees: `column()` for rows, `parameter()` for the arguments of a CALL.

    @dataclass(frozen=True)
    class KvSnapshotLeaseRow:
        lease_id: str = column("Identifier of the lease, chosen by its owner.")
        buckets: int = column("Number of leased buckets.", arrow_type=INT)
        expires_at: datetime | None = column("When the server drops the lease; NULL = never.")

Python to Spark: str, StrEnum and TablePath STRING, int BIGINT, float DOUBLE, bool BOOLEAN, datetime TIMESTAMP (UTC, microseconds),
`X | None` a nullable column, tuple[X, ...] ARRAY, Mapping[K, V] MAP, another such dataclass STRUCT. A `hidden()` field is not in SQL.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from tiering.model.sql_types import literal, spark_type
from tiering.model.tables import TablePath

INT = pa.int32()
"""For `column(..., arrow_type=INT)`. The column is then an INT in SQL; an int without it is a BIGINT."""

SCALARS: Mapping[object, pa.DataType] = MappingProxyType(
    {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", tz="UTC"),
        TablePath: pa.string(),
    }
)
"""The Arrow type for a field's Python type. A column can name another Arrow type."""

PARAMETER_TYPES = (*SCALARS.values(), pa.int32(), pa.map_(pa.string(), pa.int64()))
"""The types that an argument of a CALL may have."""

COMMENT_KEY = b"comment"
"""Key of a column's comment in the metadata of its Arrow field (proto `SystemTable.schema`)."""

AnyField: TypeAlias = "pa.Field[pa.DataType]"

_DECLARED = "declared"
"""Key in the metadata of a dataclass field."""


@dataclass(frozen=True)
class Declared:
    """The declaration of a dataclass field. `comment` None: SQL does not see the field. `name` None: SQL has the field's own name."""

    comment: str | None = None
    name: str | None = None
    arrow_type: pa.DataType | None = None
    is_free_text: bool = False
    identifies: bool = True
    is_last: bool = False
    is_argument: bool = True


def column(
    comment: str,
    *,
    name: str | None = None,
    default: Any = dataclasses.MISSING,
    arrow_type: pa.DataType | None = None,
    is_last: bool = False,
) -> Any:
    """Returns a dataclass field that is a column. `arrow_type` is needed where the annotation does not determine the type.

    `is_last`: SQL has the column after all columns that are not last.
    """
    return dataclasses.field(default=default, metadata={_DECLARED: Declared(comment, name, arrow_type, is_last=is_last)})


def parameter(
    comment: str,
    *,
    name: str | None = None,
    default: Any = dataclasses.MISSING,
    arrow_type: pa.DataType | None = None,
    is_free_text: bool = False,
    identifies: bool = True,
) -> Any:
    """Returns a dataclass field that is an argument of a CALL; without a default it is required.

    `is_free_text`: a text for people, which is redacted like an error message. `identifies` False: the argument says how the call is made
    and not what it asks for, so that it may differ in a repeat under the same idempotency key.
    """
    declared = Declared(comment, name, arrow_type, is_free_text, identifies)
    return dataclasses.field(default=default, metadata={_DECLARED: declared})


def hidden(*, default: Any = dataclasses.MISSING) -> Any:
    """Returns a dataclass field that SQL does not see. Programs have it."""
    return dataclasses.field(default=default, metadata={_DECLARED: Declared(identifies=False)})


def attached(*, default: Any) -> Any:
    """Returns a field of a request that is not an argument of the call, such as its caller."""
    return dataclasses.field(default=default, metadata={_DECLARED: Declared(identifies=False, is_argument=False)})


def declared(row_class: type, field: dataclasses.Field[Any]) -> Declared:
    """Returns the declaration of a field. Raises TypeError if it has none."""
    declaration: Declared | None = field.metadata.get(_DECLARED)
    if declaration is None:
        raise TypeError(f"{row_class.__name__}.{field.name} has no comment: declare it with column(...) or parameter(...)")
    return declaration


def names_in_sql(row_class: type) -> Mapping[str, str]:
    """Returns the names of the attributes of a dataclass by their names in SQL, in order. Raises TypeError for an undeclared field."""
    return _names_in_sql(row_class)


@cache
def _names_in_sql(row_class: type) -> Mapping[str, str]:
    fields = [(field, declared(row_class, field)) for field in dataclasses.fields(row_class)]
    fields.sort(key=lambda pair: pair[1].is_last)
    return {declaration.name or field.name: field.name for field, declaration in fields if declaration.comment is not None}


def row_in_sql(row: object, row_class: type | None = None) -> dict[str, Any]:
    """Returns the values of a row by the names of its columns. A table's path and an enum become texts."""
    names = names_in_sql(row_class or type(row))
    values = {name: getattr(row, attribute) for name, attribute in names.items()}
    return {name: str(value) if isinstance(value, TablePath | StrEnum) else value for name, value in values.items()}


@cache
def schema_of(row_class: type) -> pa.Schema:
    """Returns the Arrow schema of a row dataclass. Raises TypeError for an undeclared field and for an unknown type."""
    return pa.schema(_fields_of(row_class))


def comment_of(field: AnyField) -> str:
    """Returns the comment of a column; empty if it has none."""
    return (field.metadata or {}).get(COMMENT_KEY, b"").decode()


@dataclass(frozen=True)
class Parameter:
    """A parameter as SQL sees it. `default` is a Spark SQL literal; None for a required parameter.

    `attribute` is the name of its dataclass field. A `table_path` is a STRING in SQL and a checked TablePath in the dataclass.
    """

    name: str
    arrow_type: pa.DataType
    required: bool
    default: str | None
    comment: str
    attribute: str
    table_path: bool = False

    @property
    def type(self) -> str:
        """Spark SQL type of the values."""
        return spark_type(self.arrow_type)


def parameters_of(input_class: type, with_hidden: bool = False) -> tuple[Parameter, ...]:
    """Returns the parameters of a dataclass: its own in order, then those of its base classes. Raises TypeError for an impossible field.

    `with_hidden`: also those that only programs have.
    """
    return _parameters_of(input_class, with_hidden)


@cache
def _parameters_of(input_class: type, with_hidden: bool) -> tuple[Parameter, ...]:
    hints = typing.get_type_hints(input_class)
    inherited = {field.name for base in input_class.__bases__ if dataclasses.is_dataclass(base) for field in dataclasses.fields(base)}
    fields = sorted(dataclasses.fields(input_class), key=lambda field: field.name in inherited)
    declarations = [(field, declared(input_class, field)) for field in fields]
    return tuple(
        _parameter_of(input_class, field, declaration, hints[field.name])
        for field, declaration in declarations
        if declaration.comment is not None or (with_hidden and declaration.is_argument)
    )


def arrow_type_of(annotation: object, override: pa.DataType | None = None) -> tuple[pa.DataType, bool]:
    """Returns the Arrow type of an annotation, and whether it may be NULL. Raises TypeError for an annotation that no column can have."""
    annotation, nullable = _without_none(annotation)
    return (override if override is not None else _arrow_type(annotation)), nullable


def _parameter_of(input_class: type, field: dataclasses.Field[Any], declaration: Declared, annotation: object) -> Parameter:
    arrow_type, _ = arrow_type_of(annotation, declaration.arrow_type)
    if arrow_type not in PARAMETER_TYPES:
        raise TypeError(f"{input_class.__name__}.{field.name}: a parameter cannot be {spark_type(arrow_type)}")
    default = None if field.default is dataclasses.MISSING else literal(field.default)
    is_path = TablePath in (annotation, *typing.get_args(annotation))
    return Parameter(declaration.name or field.name, arrow_type, default is None, default, declaration.comment or "", field.name, is_path)


def _fields_of(row_class: type) -> list[AnyField]:
    if not dataclasses.is_dataclass(row_class):
        raise TypeError(f"{row_class.__name__} is not a dataclass")
    hints, fields = typing.get_type_hints(row_class), {field.name: field for field in dataclasses.fields(row_class)}
    return [_field_of(row_class, name, fields[attribute], hints[attribute]) for name, attribute in names_in_sql(row_class).items()]


def _field_of(row_class: type, name: str, field: dataclasses.Field[Any], annotation: object) -> AnyField:
    declaration = declared(row_class, field)
    arrow_type, nullable = arrow_type_of(annotation, declaration.arrow_type)
    return pa.field(name, arrow_type, nullable=nullable, metadata={COMMENT_KEY: (declaration.comment or "").encode()})


def _without_none(annotation: object) -> tuple[object, bool]:
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    kinds = [kind for kind in typing.get_args(annotation) if kind is not types.NoneType]
    if len(kinds) != 1:
        raise TypeError(f"{annotation} is not one type: a column has one")
    return kinds[0], True


def _arrow_type(annotation: object) -> pa.DataType:
    if annotation in SCALARS:
        return SCALARS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return pa.string()
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return pa.struct(_fields_of(annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        element, nullable = arrow_type_of(arguments[0])
        return pa.list_(pa.field("element", element, nullable=nullable))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = (_arrow_type(argument) for argument in arguments)
        return pa.map_(key, value)
    raise TypeError(f"no column type for {annotation}")
