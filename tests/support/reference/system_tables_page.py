"""The page `docs/reference.md`: the system tables and procedures, from the definitions that the service serves."""

from __future__ import annotations

import pyarrow as pa

from support.reference.markdown import markdown_table
from sys_tables.declare.procedure import Procedure
from sys_tables.declare.system_table import SystemTable
from sys_tables.registry import Registry
from tiering.model.declare import comment_of
from tiering.model.names import SYSTEM_DATABASE
from tiering.model.sql_types import spark_type


def render(registry: Registry) -> str:
    """Returns all tables, then all procedures, by name. The same registry gives the same text."""
    parts = [
        "# Reference: system tables and procedures",
        "Times are TIMESTAMP (UTC instants), sizes bytes, durations milliseconds. Unknown is NULL.",
        "## Tables",
        *(_table_section(table) for table in registry.tables),
        "## Procedures",
        "Positional arguments come first, then named ones (`name => value`). NULL counts as not given.",
        "Each procedure names the privilege that its caller needs, or NONE. A service with a policy file refuses a CALL without it "
        "([grants](grants.md)). Without a policy file, a caller whom the service knows may call everything.",
        *(_procedure_section(procedure) for procedure in registry.procedures),
    ]
    return "\n\n".join(parts) + "\n"


def _table_section(table: SystemTable) -> str:
    return "\n\n".join([f"### `{SYSTEM_DATABASE}.{table.name}`", table.comment, _columns(table.schema)])


def _procedure_section(procedure: Procedure) -> str:
    parameters = [[f"`{p.name}`", p.type, "required" if p.default is None else f"`{p.default}`", p.comment] for p in procedure.parameters]
    return "\n\n".join(
        [
            f"### `CALL {SYSTEM_DATABASE}.{procedure.name}`",
            f"{procedure.comment} Privilege: {procedure.privilege}.",
            markdown_table(("parameter", "type", "default", "meaning"), parameters) if parameters else "It takes no arguments.",
            "Output:",
            _columns(procedure.output_schema),
        ]
    )


def _columns(schema: pa.Schema) -> str:
    rows = ([f"`{field.name}`", spark_type(field.type), "yes" if field.nullable else "no", comment_of(field)] for field in schema)
    return markdown_table(("column", "type", "NULL", "meaning"), rows)
