"""sys.options: the options in force, without values that may be secrets."""

from __future__ import annotations

from collections.abc import Sequence

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import EVERY_CALLER
from tiering.coordinator.interface import CoordinatorView
from tiering.model.option import EffectiveOption


@system_table("options", EffectiveOption, requires=EVERY_CALLER, comment="The options in force, by scope and name.")
def rows(view: CoordinatorView, scan: ScanRequest) -> Sequence[EffectiveOption]:
    return view.options()
