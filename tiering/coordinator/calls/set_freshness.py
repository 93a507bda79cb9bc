"""`CALL sys.set_freshness`: changes the freshness of a table, with effect at once.

It sets the table option `table.datalake.freshness`, like `set_table_option`.
"""

from __future__ import annotations

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.calls.set_table_option import set_option
from tiering.durations import check_freshness, format_duration, freshness_warning, parse_duration_ms
from tiering.lake.table_options import FRESHNESS
from tiering.model.tables import TableInfo
from tiering.procedures.set_freshness import SetFreshness, SetFreshnessResult


def set_freshness(parts: CallParts, request: SetFreshness) -> SetFreshnessResult:
    """Sets the freshness. Raises UnknownTable, UnknownDatabase, LakeDisabled, InvalidArgument, ClusterUnavailable."""
    milliseconds = parse_duration_ms(request.freshness, "freshness")
    check_freshness(milliseconds)

    def answer(before: TableInfo, after: TableInfo) -> SetFreshnessResult:
        if not before.lake_enabled:
            raise errors.LakeDisabled(f"{request.path} has its lake disabled", table_id=before.table_id)
        return SetFreshnessResult(request.path, before.freshness_ms, after.freshness_ms, freshness_warning(after.freshness_ms))

    return set_option(parts, request, request.path, FRESHNESS.name, format_duration(milliseconds), answer)
