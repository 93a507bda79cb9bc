"""sys.options: the options in force, without values that may be secrets."""

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

    scope: str = column("coordinator; tierer for settings that the coordinator sends to tierers; table for the defaults of table options.")
    name: str = column("Name of the option.")
    value: str | None = column("Its redacted value; NULL if only a running coordinator knows it, or if it depends on the lake format.")
    default: str | None = column("The default; NULL if there is none.")
    source: str | None = column("default or set; NULL if unknown.")
    description: str = column("What it means.")


@system_table("options", OptionRow, requires=EVERY_CALLER, comment="The options in force, by scope and name.")
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[OptionRow]:
    for option in view.options():
        yield OptionRow(**vars(option))
