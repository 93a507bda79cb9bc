"""The options of a source table that its lake table takes over when it is created."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.errors import InvalidArgument
from tiering.lake.iceberg_options import lake_table_properties
from tiering.model.tables import TableInfo


def check_lake_table(parts: CallParts, before: TableInfo, after: TableInfo) -> None:
    """Raises InvalidArgument for an option that only applies when a lake table is created, if the lake table exists."""
    is_other_format = before.lake_format != after.lake_format
    if not is_other_format and lake_table_properties(before.properties) == lake_table_properties(after.properties):
        return
    if parts.lakes.of(before.lake_format).view(before.path) is None:
        return
    changed = sorted(name for name in {*before.properties, *after.properties} if before.properties.get(name) != after.properties.get(name))
    own_way = f"ALTER TABLE lake.{before.path} SET TBLPROPERTIES changes the lake table itself."
    raise InvalidArgument(
        f"the option {', '.join(changed)} of {before.path} cannot change any more: its lake table exists, and got the option when it was "
        "created",
        hint="Create a new table with that format, and load it." if is_other_format else own_way,
        table_path=before.path,
    )
