"""sys.options: the options that are in force. Values that may be secrets are not among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import EVERY_CALLER
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import column


@dataclass(frozen=True)
class OptionRow:
    """One option."""

    scope: str = column("coordinator; tierer for what the coordinator tells tierers; table for what holds where a table has no option.")
    name: str = column("Name of the option.")
    value: str | None = column("Its value, redacted; NULL if only a running coordinator knows it, or the lake's format decides.")
    default: str | None = column("What it is if nobody sets it; NULL if there is no default.")
    source: str | None = column("default or set; NULL if nobody knows.")
    description: str = column("What it means.")


@system_table("options", OptionRow, requires=EVERY_CALLER, comment="The options that are in force, by scope and name.")
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[OptionRow]:
    for option in view.options():
        yield OptionRow(**vars(option))
