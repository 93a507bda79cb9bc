"""Alert rules for Prometheus, made from the declared metrics. `lakeward alerts` prints them.

The annotation `query` of each rule is the SQL statement that shows more. It runs unchanged in Spark and in `lakeward sql`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tiering.lake.health.score import ILL_SCORE, METADATA_BYTES_BOUND
from tiering.telemetry import metrics as m

_ONE_TABLE = "WHERE database_name = '{{ $labels.database }}' AND table_name = '{{ $labels.table }}'"


@dataclass(frozen=True)
class Alert:
    """A rule. `lasting`: how long the expression must hold before the alert fires, in Prometheus' notation."""

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    query: str


JOB = "lakeward"
"""Name of the scrape job in docs/metrics.md."""

ALERTS = (
    Alert(
        "LakewardDown",
        f'up{{job="{JOB}"}} == 0',
        "1m",
        "critical",
        "{{ $labels.instance }} does not answer a scrape: the coordinator or tierer there is down or hangs.",
        "SELECT tierer_id, host, state, heartbeat_time FROM fluss.sys.tierers",
    ),
    Alert(
        "LakewardTableBehindPromise",
        f"{m.BEHIND.name} > 0 unless on (database, table) {m.PAUSED.name} == 1",
        "2m",
        "warning",
        "{{ $labels.database }}.{{ $labels.table }} is {{ $value | humanizeDuration }} behind its freshness.",
        "SELECT status, status_reason, promise, lag_ms, freshness_ms, pending_records, is_backlog, last_error, error_hint, next_action "
        f"FROM fluss.sys.lake_tiering_status {_ONE_TABLE}",
    ),
    Alert(
        "LakewardTablesBehindPromise",
        f"{m.LEFT_OUT_BEHIND.name} > 0",
        "2m",
        "warning",
        "{{ $value }} tables without series of their own are behind their freshness.",
        "SELECT database_name, table_name, status, status_reason, lag_ms FROM fluss.sys.lake_tiering_status "
        "WHERE promise = 'broken' AND NOT paused ORDER BY lag_ms DESC LIMIT 100",
    ),
    Alert(
        "LakewardTableFailing",
        f"{m.FAILURES_IN_A_ROW.name} > 0",
        "15m",
        "warning",
        "Rounds of {{ $labels.database }}.{{ $labels.table }} have failed for a quarter of an hour, {{ $value }} in a row.",
        "SELECT phase, error_class, message, hint, next_action, count, last_seen "
        f"FROM fluss.sys.tiering_errors {_ONE_TABLE} AND resolved_at IS NULL",
    ),
    Alert(
        "LakewardDeadLetters",
        f"{m.DEAD_LETTERS.name} > 0",
        "1m",
        "warning",
        "{{ $value }} records of {{ $labels.database }}.{{ $labels.table }} are not in its lake table, because it cannot hold them.",
        f"SELECT partition_name, bucket_id, offset, column_name, reason, set_aside_time FROM fluss.sys.dead_letters {_ONE_TABLE}",
    ),
    Alert(
        "LakewardTablesNeedSomebody",
        f'{m.TABLES_FAILING.name}{{retries="no"}} > 0',
        "1m",
        "critical",
        "{{ $value }} tables failed in a way that no retry helps.",
        "SELECT database_name, table_name, last_error, error_hint, next_action FROM fluss.sys.lake_tiering_status "
        "WHERE error_retryable = false",
    ),
    Alert(
        "LakewardTableUnhealthy",
        f"{m.HEALTH_SCORE.name} < {ILL_SCORE}",
        "6h",
        "warning",
        "The lake table {{ $labels.database }}.{{ $labels.table }} has been unhealthy for six hours: its health is {{ $value }} of 100.",
        f"SELECT score, reason, last_upkeep_outcome, upkeep_waits_for, upkeep_paused_by, next_action FROM fluss.sys.lake_table_health "
        f"{_ONE_TABLE}",
    ),
    Alert(
        "LakewardMetadataGrows",
        f"{m.METADATA_BYTES.name} > {10 * METADATA_BYTES_BOUND}",
        "6h",
        "warning",
        "The metadata of the lake table {{ $labels.database }}.{{ $labels.table }} has {{ $value | humanize }}B: commits get slower.",
        f"SELECT snapshots, oldest_snapshot_time, manifests, metadata_files, metadata_bytes, next_action FROM fluss.sys.lake_table_health "
        f"{_ONE_TABLE}",
    ),
    Alert(
        "LakewardUpkeepFailing",
        f"{m.TABLES_UPKEEP_FAILING.name} > 0",
        "6h",
        "warning",
        "The upkeep of {{ $value }} lake tables has failed for six hours.",
        "SELECT database_name, table_name, actions, error_class, error_message, finished_time FROM fluss.sys.lake_upkeep "
        "WHERE outcome = 'FAILED' ORDER BY pending_time DESC LIMIT 100",
    ),
    Alert(
        "LakewardUpkeepPaused",
        f"{m.TABLES_UPKEEP_PAUSED.name} > 0",
        "1d",
        "warning",
        "The upkeep of {{ $value }} lake tables has been paused for a day.",
        "SELECT database_name, table_name, upkeep_paused_by, score, reason, next_action FROM fluss.sys.lake_table_health "
        "WHERE upkeep_paused_by IS NOT NULL",
    ),
    Alert(
        "LakewardNotPublished",
        f"{m.TABLES_NOT_PUBLISHED.name} > 0",
        "15m",
        "warning",
        "{{ $value }} lake tables could not be published in the second catalog for a quarter of an hour.",
        "SELECT database_name, table_name, publish_lag_ms, publish_error FROM fluss.sys.lake_table_health WHERE publish_error IS NOT NULL",
    ),
    Alert(
        "LakewardNoTierer",
        f'{m.TIERERS.name}{{state="ACTIVE"}} == 0',
        "2m",
        "critical",
        "No tierer is connected: nothing is tiered.",
        "SELECT tierer_id, host, state, heartbeat_time FROM fluss.sys.tierers",
    ),
    Alert(
        "LakewardLeaseNearExpiry",
        f'{m.LEASE_STATES.name}{{state="EXPIRING"}} > 0',
        "10s",
        "warning",
        "{{ $value }} leases on KV snapshots have less than a tenth of their time left: their readers can lose the snapshots.",
        "SELECT lease_id, owner, state, remaining_ms, tables, buckets FROM fluss.sys.kv_snapshot_leases WHERE state <> 'ACTIVE'",
    ),
)


def rules() -> str:
    """Returns the rules as a rule file of Prometheus (YAML)."""
    lines = ["groups:", "  - name: lakeward", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.lasting}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          query: {json.dumps(alert.query)}",
        ]
    return "\n".join(lines) + "\n"
