"""The one table of what `make test` runs: unit tests that take seconds, and one journey each through the real thing.

`make test-all` runs every other test that CI runs. A test of this table needs nothing that `./setup.sh` does not fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from support.dealt_out import is_integration

MARK = "make_test"
JOURNEYS: Mapping[str, tuple[str, ...]] = {
    "rounds on Spark executors": ("tests/integration/spark/test_spark_rounds.py",),
    "SQL through the plugin, CALL, the command line": ("tests/integration/test_sql_end_to_end.py",),
    "JDBC": ("tests/integration/clients/test_sql_clients.py::test_a_jdbc_connection_over_the_thrift_server",),
    "a real Fluss": ("tests/integration/fluss/test_fluss_rounds.py::test_a_log_table_is_tiered_exactly_and_the_cluster_knows_how_far",),
    "Paimon": ("tests/integration/test_paimon_end_to_end.py",),
    "kill -9": ("tests/faults/test_crashes.py::test_a_tierer_killed_anywhere_in_its_round_leaves_every_offset_once",),
    "validate": ("tests/validate/test_validate_command.py",),
}
"""Files and tests by what they show. Each starts processes, as a user does."""
UNIT = (
    "tests/access",
    "tests/client",
    "tests/cluster",
    "tests/coordinator",
    "tests/files",
    "tests/ingest",
    "tests/lake",
    "tests/library_guards",
    "tests/model",
    "tests/procedures",
    "tests/planning",
    "tests/round",
    "tests/sys_tables",
    "tests/table_writes",
    "tests/telemetry",
    "tests/union_read",
    "tests/wire",
    "tests/test_bench_figures.py",
    "tests/test_bench_lag.py",
    "tests/test_docs.py",
    "tests/test_durations.py",
    "tests/test_language.py",
    "tests/test_name_matching.py",
    "tests/test_round_history.py",
    "tests/test_round_timeline.py",
    "tests/test_throttle.py",
    "tests/test_stages.py",
)
"""Folders and files of unit tests, but for LEFT_TO_TEST_ALL."""
LEFT_TO_TEST_ALL = (
    "tests/access/hidden/test_times_of_hidden_names.py",
    "tests/access/test_every_call_as_each_role.py",
    "tests/access/test_random_policies.py",
    "tests/access/test_rights_taken_away.py",
    "tests/client/test_imports.py",
    "tests/client/test_pictures.py",
    "tests/cluster/embedded/kv/test_kv_values.py::test_a_map_with_a_key_twice_is_refused_and_the_table_goes_on",
    "tests/cluster/embedded/kv/test_kv_values.py::test_any_value_is_held_as_it_is_or_refused_before_it_is_logged",
    "tests/cluster/embedded/kv/test_primary_key_stories.py",
    "tests/cluster/embedded/kv/test_primary_key_tables.py",
    "tests/cluster/embedded/metadata/test_listing.py",
    "tests/cluster/embedded/metadata/test_tables.py::test_hundreds_of_wide_tables_are_listed_in_pages",
    "tests/cluster/embedded/test_folder.py::test_a_kill_in_the_middle_of_appends_loses_and_doubles_nothing",
    "tests/cluster/embedded/test_folder.py::test_what_is_not_of_the_cluster_stops_no_start_and_stays",
    "tests/cluster/fluss/kv/test_client_values.py",
    "tests/cluster/fluss/kv/test_snapshot_files.py",
    "tests/cluster/fluss/log/test_batches.py",
    "tests/cluster/fluss/log/test_client_batches.py",
    "tests/cluster/fluss/log/test_packed_rows.py",
    "tests/cluster/fluss/wire/test_living_cluster.py",
    "tests/coordinator/lake_repair",
    "tests/coordinator/calls/test_hanging_lake.py",
    "tests/coordinator/calls/test_next_actions.py",
    "tests/coordinator/calls/test_reconcile_lake.py",
    "tests/coordinator/calls/test_reconcile_partitions.py",
    "tests/coordinator/calls/test_replay_dead_letters.py",
    "tests/coordinator/calls/test_skip_record.py",
    "tests/coordinator/calls/test_sweep_lake.py",
    "tests/coordinator/decisions/test_due_times.py",
    "tests/coordinator/decisions/test_state_machine.py",
    "tests/coordinator/memory/test_deadlines.py",
    "tests/coordinator/memory/test_running_splits.py",
    "tests/coordinator/observing/test_discovery.py::test_of_dropped_tables_no_record_is_left_after_an_hour",
    "tests/coordinator/status/test_values_of_records.py",
    "tests/ingest/test_exact_values.py",
    "tests/ingest/test_load.py::test_an_interrupted_ingest_goes_on_under_its_writer_id",
    "tests/lake/fluss",
    "tests/lake/iceberg/catalogs",
    "tests/lake/iceberg/commit/test_committer.py",
    "tests/lake/iceberg/primary_key/test_damaged_files.py",
    "tests/lake/iceberg/primary_key/test_key_types.py",
    "tests/lake/iceberg/primary_key/test_kinds.py",
    "tests/lake/iceberg/primary_key/test_shared_partitions.py",
    "tests/lake/iceberg/primary_key/test_shared_stories.py",
    "tests/lake/iceberg/primary_key/test_stories.py",
    "tests/lake/iceberg/schema",
    "tests/lake/iceberg/test_base_on_iceberg.py",
    "tests/lake/iceberg/test_damaged_metadata.py",
    "tests/lake/iceberg/test_fuzzed_rounds.py",
    "tests/lake/iceberg/test_hostile_lake.py",
    "tests/lake/iceberg/test_hostile_lake_fuzz.py",
    "tests/lake/iceberg/test_table.py::test_processes_that_create_at_once_get_one_table",
    "tests/lake/iceberg/writing/test_nan.py",
    "tests/lake/paimon/test_nan.py",
    "tests/lake/paimon/test_rounds.py",
    "tests/lake/proof/test_row_checksum.py",
    "tests/lake/rules/test_hints.py",
    "tests/lake/test_catalog_properties.py::test_the_current_folders_configuration_is_not_read",
    "tests/lake/test_catalog_properties.py::test_the_users_own_configuration_is_read_and_may_name_no_code",
    "tests/lake/test_marker.py::test_a_flipped_byte_in_a_long_marker_is_noticed",
    "tests/lake/test_marker.py::test_a_marker_beyond_the_summary_limit_goes_into_a_file",
    "tests/planning/test_recreated_partitions.py",
    "tests/round/dead_letters/test_changes_of_keys.py",
    "tests/round/dead_letters/test_drawn_interruptions.py",
    "tests/round/dead_letters/test_interrupted_rounds.py",
    "tests/round/dead_letters/test_limit_of_an_hour.py",
    "tests/round/dead_letters/test_undecodable_records.py",
    "tests/round/tasks/test_records_left_out.py",
    "tests/round/test_lease_keeper.py",
    "tests/sys_tables/offline",
    "tests/sys_tables/procedures/test_changes_once.py",
    "tests/sys_tables/procedures/test_fuzzed_calls.py",
    "tests/sys_tables/query/test_scan.py",
    "tests/sys_tables/tables/test_open_calls.py",
    "tests/telemetry/test_coordinator_metrics.py",
    "tests/telemetry/test_dashboard_and_alerts.py",
    "tests/telemetry/test_http_server.py",
    "tests/telemetry/test_traces.py",
    "tests/wire/test_delays_of_others.py",
)
"""Folders, files and tests of UNIT that take seconds each (cells of a matrix, drawn values, whole stories), or a server of their own."""
NEEDS_OF_TEST_ALL = ("postgresql",)
"""Words in the fixtures or parameters of tests that need what only `./setup.sh all-tests` installs."""


def journeys() -> list[str]:
    """All files and tests of JOURNEYS."""
    return [name for names in JOURNEYS.values() for name in names]


def is_in_make_test(item: pytest.Item) -> bool:
    """Whether `make test` runs a test. `make test-all` runs the others."""
    if is_below(item.nodeid, journeys()):
        return True
    needs = (item.nodeid, *getattr(item, "fixturenames", ()))
    return (
        is_below(item.nodeid, UNIT)
        and not is_below(item.nodeid, LEFT_TO_TEST_ALL)
        and not is_integration(item)
        and not any(word in need for word in NEEDS_OF_TEST_ALL for need in needs)
    )


def is_below(nodeid: str, places: Iterable[str]) -> bool:
    """Whether a test is one of `places`, or is in a folder or file of these, or is a case of a test of these."""
    return any(nodeid.startswith(place) and nodeid[len(place) :][:1] in ("", "/", ":", "[") for place in places)
