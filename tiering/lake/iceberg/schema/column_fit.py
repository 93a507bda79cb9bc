"""Whether rows of one column fit a lake column, and in words why not, nested fields included. Pure."""

from __future__ import annotations

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType


def misfit(lake: NestedField, source: NestedField) -> str | None:
    """Why rows of the column `source` do not fit the lake column `lake`; None if they do.

    They fit if both are of one type but for field ids, and nothing nullable meets something required. The text begins
    with a verb whose subject is the lake table, and names a nested field by its path: `address.city`.
    """
    return _field_misfit(lake, source, source.name)


def _field_misfit(lake: NestedField, source: NestedField, path: str) -> str | None:
    if lake.required and source.optional:
        return f"requires values in the column {path!r}, which is nullable in the source table"
    return _type_misfit(lake.field_type, source.field_type, path)


def _type_misfit(lake: IcebergType, source: IcebergType, path: str) -> str | None:
    if isinstance(lake, StructType) and isinstance(source, StructType):
        return _struct_misfit(lake, source, path)
    if isinstance(lake, ListType) and isinstance(source, ListType):
        return _field_misfit(lake.element_field, source.element_field, f"{path}.element")
    if isinstance(lake, MapType) and isinstance(source, MapType):
        return _type_misfit(lake.key_type, source.key_type, f"{path}.key") or _field_misfit(
            lake.value_field, source.value_field, f"{path}.value"
        )
    return None if lake == source else f"has the column {path!r} as {lake}; the source table has it as {source}"


def _struct_misfit(lake: StructType, source: StructType, path: str) -> str | None:
    found = {field.name: field for field in lake.fields}
    for field in source.fields:
        inner = f"{path}.{field.name}"
        if field.name not in found:
            return f"lacks the field {inner!r}"
        if (what := _field_misfit(found.pop(field.name), field, inner)) is not None:
            return what
    for name in found:
        return f"has the field {path + '.' + name!r}, which the source table does not have"
    names = [field.name for field in source.fields]
    if [field.name for field in lake.fields] != names:
        return f"has the fields of the column {path!r} in another order; the source table has them as ({', '.join(names)})"
    return None
