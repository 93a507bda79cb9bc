"""Arguments with which every procedure can be called, without the table or database that it is about, and the fields of a call."""

from __future__ import annotations

from typing import Any

from tiering.rpc.v1.control_pb2 import Argument
from tiering.wire.procedure_calls import literal_to_pb

CALL = "/tiering.rpc.v1.TieringControl/CallProcedure"

ARGUMENTS: dict[str, dict[str, Any]] = {
    "acquire_kv_snapshot_lease": {"lease_id": "l1"},
    "renew_kv_snapshot_lease": {"lease_id": "l1"},
    "drop_kv_snapshot_lease": {"lease_id": "l1"},
    "release_kv_snapshot_lease": {"lease_id": "l1"},
    "fence_tierer": {"tierer_id": "nobody"},
    "set_freshness": {"freshness": "60 s"},
    "set_table_option": {"name": "table.datalake.freshness", "value": "60 s"},
    "adopt_table": {"lake_table": "sales.orders", "offsets": {"0": 0}},
    "reconcile_lake": {"action": "adopt"},
    "backfill_table": {"source_table": "sales.archive"},
    "discard_dead_letters": {"reason": "why"},
    "skip_record": {"bucket_id": 0, "offset": 0},
    "expire_snapshots": {"wait": False},
    "rewrite_data_files": {"wait": False},
    "rewrite_manifests": {"wait": False},
    "tier_table": {"wait": False},
    "tier_database": {"wait": False, "only_stale": False},
    "wait_for_tiering": {"timeout_ms": 1},
    "validate_table": {"level": "offsets"},
}


def call_fields(procedure: str, /, *, whole_result: bool = True, **arguments: Any) -> dict[str, Any]:
    """Returns the fields by their names; None as an argument is NULL."""
    literals = [Argument(name=name, value=literal_to_pb(value)) for name, value in arguments.items()]
    return {"name": procedure, "arguments": literals, "whole_result": whole_result}
