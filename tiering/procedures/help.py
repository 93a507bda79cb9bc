"""`CALL sys.help`: explains the procedures and their parameters. It has no effect, so `sys_tables` answers it from the declarations."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.access.requirements import EVERY_CALLER
from tiering.model.declare import column, parameter
from tiering.procedures.base import CallRequest


@dataclass(frozen=True)
class HelpRow:
    """A procedure with its description, or one of its parameters."""

    procedure: str = column("Name of the procedure.")
    parameter: str | None = column("Name of the parameter; NULL in the row of the procedure itself.")
    type: str | None = column("Spark SQL type of the parameter.")
    required: bool | None = column("Whether a call must pass the parameter.")
    default: str | None = column("Default value, as a literal.")
    comment: str = column("Meaning of the parameter, or the action of the procedure.")


@dataclass(frozen=True)
class Help(CallRequest[HelpRow]):
    """The procedure to explain; None = all procedures."""

    procedure = "help"
    comment = "Explains the procedures and their parameters."
    requirement = EVERY_CALLER
    explained: str | None = parameter("The procedure to explain; NULL = all of them.", name="procedure", default=None)
