"""Runs tests deeper than CI does: more drawn examples, and every kind of lake where CI takes one in turn.

`PYTHONPATH=.:tests python -m faults.reliability.deep_tests --of "lake tables" --examples 150`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from support.depth import EXAMPLES
from support.repository import ROOT

LAKE_TABLES = (
    "tests/behaviours/test_log_tables.py",
    "tests/behaviours/test_other_tools.py",
    "tests/behaviours/test_primary_key_tables.py",
    "tests/behaviours/test_union_reads.py",
    "tests/cluster/embedded/kv/test_primary_key_stories.py",
    "tests/faults/columns",
    "tests/lake/iceberg/test_fuzzed_rounds.py",
    "tests/lake/iceberg/primary_key/test_stories.py",
    "tests/lake/iceberg/primary_key/test_shared_stories.py",
)
"""Tests of rounds over real tables with drawn schemas, rows and steps."""
VALUES = (
    "tests/access",
    "tests/test_durations.py",
    "tests/test_name_matching.py",
    "tests/test_round_history.py",
    "tests/test_round_timeline.py",
    "tests/test_throttle.py",
    "tests/cli/sql/test_statements.py",
    "tests/cluster/embedded/kv/test_kv_values.py",
    "tests/cluster/embedded/log/test_bucketing.py",
    "tests/cluster/embedded/log/test_scans.py",
    "tests/cluster/embedded/test_changing_columns.py",
    "tests/cluster/fluss/kv/test_client_values.py",
    "tests/cluster/fluss/log/test_batches.py",
    "tests/cluster/fluss/log/test_client_batches.py",
    "tests/cluster/fluss/log/test_far_times.py",
    "tests/cluster/fluss/log/test_packed_rows.py",
    "tests/coordinator/upkeep/test_forgotten_rounds.py",
    "tests/coordinator/decisions",
    "tests/coordinator/memory/test_deadlines.py",
    "tests/coordinator/memory/test_waiting_queue.py",
    "tests/coordinator/readers/test_tickets.py",
    "tests/coordinator/status/test_promises.py",
    "tests/files/test_crc32.py",
    "tests/ingest/test_csv_files.py",
    "tests/ingest/test_csv_quotes.py",
    "tests/ingest/test_exact_values.py",
    "tests/ingest/test_printed_texts.py",
    "tests/integration/slt",
    "tests/integration/test_printed_properties.py",
    "tests/lake/health/test_score.py",
    "tests/lake/iceberg/test_hostile_lake_fuzz.py",
    "tests/lake/paimon/schema/test_changed_columns.py",
    "tests/lake/paimon/upkeep/test_consecutive_expiry.py",
    "tests/lake/proof/test_row_checksum.py",
    "tests/lake/rules",
    "tests/lake/schema/test_column_ids.py",
    "tests/lake/schema/test_file_order.py",
    "tests/lake/test_column_names.py",
    "tests/lake/test_marker.py",
    "tests/lake/writing/test_key_sets.py",
    "tests/lake/writing/test_serializers.py",
    "tests/lake/writing/test_required_values.py",
    "tests/model/test_bucket_keys.py",
    "tests/model/schema/test_schema_changes.py",
    "tests/planning",
    "tests/redaction/test_any_text.py",
    "tests/round/dead_letters/test_drawn_interruptions.py",
    "tests/round/tasks/test_partition_names.py",
    "tests/round/tasks/test_spark_tasks.py",
    "tests/sys_tables/test_agreeing_promises.py",
    "tests/sys_tables/procedures/test_fuzzed_calls.py",
    "tests/sys_tables/query/test_scan.py",
    "tests/table_writes/test_batches.py",
    "tests/telemetry/test_traces.py",
    "tests/union_read",
    "tests/wire/test_delays_of_others.py",
)
"""Tests of properties of drawn values, messages and texts."""
DEEP = {"lake tables": LAKE_TABLES, "values": VALUES, "marked": ("-m", "soak or in_turn", "tests")}
"""Arguments of pytest by the value of `--of`. "marked": tests that CI leaves out or takes in turn (support/depth.py)."""
PROCESSES = 2


def main() -> int:
    """Returns the exit status of pytest."""
    parser = argparse.ArgumentParser(prog="python -m faults.reliability.deep_tests")
    parser.add_argument("--of", choices=DEEP, default="lake tables")
    parser.add_argument("--examples", type=int, default=150)
    options = parser.parse_args()
    no_limits = ("--timeout", "0", "-p", "no:cacheprovider", "-W", "ignore")
    command = [sys.executable, "-m", "pytest", "-n", str(PROCESSES), "-v", *no_limits, *DEEP[options.of]]
    environment = os.environ | {EXAMPLES: str(options.examples)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
