"""Faults of whole processes and services. A test injects each of them by hand in every run, so there are no counts of them."""

from __future__ import annotations

from dataclasses import replace

from support.worlds.faults import Fault

PROCESSES = "tests/faults/processes"
FLUSS = "tests/integration/fluss"
KV = "tests/cluster/embedded/kv"
STANDBY = f"{FLUSS}/test_standby.py"
S3 = "tests/faults/object_store"
TLS = "tests/wire/test_tls.py"
TOKENS = "tests/access/test_tokens.py"
OIDC = "tests/access/test_oidc.py"
STATE = "tests/cli/commands/test_state.py"


def _row(name: str, description: str, handled_by: str, held_by: str, *also_held_by: str, variant_of: str | None = None) -> Fault:
    """Returns a fault; `_of` adds the part of the product."""
    return Fault(name, description, "", handled_by, held_by, also_held_by=also_held_by, variant_of=variant_of)


def _of(part: str, *rows: Fault) -> tuple[Fault, ...]:
    """Returns the rows with the part of the product. `variant_of` names a fault of the simulator, of the stories or of this list."""
    return tuple(replace(row, where=part) for row in rows)


KILLS = _of(
    "processes",
    _row(
        "tierer-dies-in-round",
        "A tierer dies anywhere in its round.",
        "the lake's marker: the next round finds in it what landed",
        "tests/faults/test_crashes.py::test_a_tierer_killed_anywhere_in_its_round_leaves_every_offset_once",
        "tests/faults/test_killed_rounds.py::test_wherever_a_process_dies_in_its_round_the_next_one_goes_on",
        f"{FLUSS}/test_fluss_crashes.py::test_a_tierer_killed_at_every_point_of_its_rounds_leaves_every_row_once",
        variant_of="tierer-killed",
    ),
    _row(
        "tierer-dies-in-upkeep",
        "A tierer dies in an upkeep round, or in a round that merges files, expires snapshots or deletes former metadata.",
        "rewritten files are visible only with the commit; the sweep deletes the files of the dead round",
        "tests/faults/processes/test_killed_upkeep.py::test_wherever_a_process_dies_in_upkeep_the_next_round_goes_on",
        "tests/faults/processes/test_killed_upkeep.py::test_wherever_a_process_dies_in_an_upkeep_round_the_next_round_goes_on",
        variant_of="tierer-killed",
    ),
    _row(
        "tierer-dies-behind-dead-letters",
        "A tierer dies after it put records aside in the dead-letter table, before it commits the other rows.",
        "a dead letter counts only if the marker names it, and the next round finds it in the dead-letter table",
        f"{PROCESSES}/test_killed_dead_letters.py::test_wherever_a_process_dies_while_it_puts_records_aside_each_is_put_aside_once",
        variant_of="tierer-killed",
    ),
    _row(
        "coordinator-dies-at-store-commit",
        "The coordinator dies before or after a commit of its store.",
        "SqlStore.apply: a change is stored completely before it is visible",
        "tests/faults/test_coordinator_crashes.py::test_a_coordinator_killed_around_any_commit_of_its_store_loses_and_doubles_nothing",
        variant_of="coordinator-killed",
    ),
    _row(
        "coordinator-dies-around-ack",
        "The coordinator dies after it stored an ack, before it told the cluster all of it.",
        "Commits._record: the repeated ack is passed on to the cluster",
        f"{FLUSS}/test_killed_coordinators.py::test_a_coordinator_killed_around_an_ack_tells_the_cluster_later",
        variant_of="coordinator-killed",
    ),
    _row(
        "coordinator-dies-in-take-over",
        "A coordinator dies anywhere on its way to take over.",
        "its lock ends with it, and the next one takes a higher epoch",
        f"{PROCESSES}/test_killed_take_overs.py::test_a_coordinator_that_dies_in_a_take_over_leaves_it_to_the_next",
        variant_of="coordinator-killed",
    ),
    _row(
        "coordinator-dies-in-sweep",
        "The coordinator dies in the middle of a sweep.",
        "the same call deletes the remaining files",
        f"{PROCESSES}/test_killed_repairs.py::test_a_coordinator_killed_in_a_sweep_deletes_the_rest_when_it_is_called_again",
        variant_of="coordinator-killed",
    ),
    _row(
        "coordinator-dies-in-reconciliation",
        "The coordinator dies in the middle of reconcile_lake.",
        "the same call first looks for the marker of the reconciliation",
        f"{PROCESSES}/test_killed_repairs.py::test_a_coordinator_killed_in_a_reconciliation_goes_on_with_the_same_call",
        f"{FLUSS}/test_killed_coordinators.py::test_a_coordinator_killed_in_a_reconciliation_goes_on_with_the_same_call",
        variant_of="coordinator-killed",
    ),
    _row(
        "coordinator-dies-in-kv-write",
        "The embedded cluster dies in a write to a primary-key table, or in a KV snapshot.",
        "the log is the truth: a KV state stores the offset that it has applied, and replays the rest",
        f"{KV}/test_kv_crashes.py::test_a_process_that_dies_in_a_write_or_a_snapshot_leaves_state_and_log_that_agree",
        variant_of="coordinator-killed",
    ),
    _row(
        "coordinator-dies-in-skip",
        "The embedded cluster dies while it skips a record.",
        "one transaction of the log has the skip and the changes that follow from it",
        f"{KV}/test_refused_records.py::test_a_process_that_dies_while_it_skips_has_skipped_or_not",
        variant_of="coordinator-killed",
    ),
)
"""Real processes that are killed at the points of `tiering/crash_points.py`, by the part of the product that these are in."""

FAULTS = (
    *KILLS,
    *_of(
        "processes",
        _row(
            "two-coordinators-one-folder",
            "A second coordinator starts on a data folder, and the first one is killed.",
            "FolderLock: the second waits until the lock is free",
            f"{PROCESSES}/test_two_coordinators.py::test_the_second_coordinator_waits_and_takes_over_when_the_first_is_killed",
        ),
        _row(
            "coordinator-sleeps-through-take-over",
            "A coordinator is suspended, loses the folder's locks to another one, and wakes up.",
            "the coordinator epoch in each write of the store",
            f"{PROCESSES}/test_two_coordinators.py::test_a_coordinator_that_slept_while_another_took_over_ends_at_its_first_write",
            variant_of="coordinator-doubled",
        ),
        _row(
            "coordinator-clock-jumps",
            "The wall clock of the coordinator jumps by hours or years, ahead and back.",
            "deadlines use the monotonic clock; stored deadlines are corrected at the start",
            f"{PROCESSES}/test_moved_clocks.py::test_a_coordinator_whose_clock_jumps_goes_on",
            variant_of="clock-ahead",
        ),
        _row(
            "tierer-clock-jumps",
            "The wall clock of a tierer jumps.",
            "tierers use the wall clock for no decision",
            f"{PROCESSES}/test_moved_clocks.py::test_a_tierer_whose_clock_jumps_goes_on",
        ),
        _row(
            "executor-killed",
            "An executor of Spark is killed in a task.",
            "Spark runs the task again; its files have their own nonce, and one result per split is committed",
            "tests/faults/test_executor_crash.py::test_tasks_of_a_killed_executor_run_again_elsewhere_and_stay_exact",
        ),
        _row(
            "spark-worker-killed",
            "An executor and a worker of a standalone cluster are killed during a round.",
            "Spark runs the task again, on another executor",
            "tests/integration/spark_cluster/test_rounds_on_a_cluster.py::test_an_executor_and_a_worker_die_under_a_round_and_everything_is_there_once",
            variant_of="executor-killed",
        ),
    ),
    *_of(
        "networks and disks",
        _row(
            "network-drops-or-hangs",
            "The network between a tierer and the coordinator drops or swallows all data, and then works again.",
            "the table is assigned again after the service timeout; the fence stops the former round",
            f"{PROCESSES}/test_faulty_networks.py::test_a_network_that_goes_away_and_comes_back_loses_and_doubles_nothing",
            variant_of="request-lost",
        ),
        _row(
            "answer-cut",
            "A connection ends in the middle of an answer.",
            "a heartbeat that is repeated has one effect",
            f"{PROCESSES}/test_faulty_networks.py::test_connections_that_end_in_the_middle_of_any_answer_lose_and_double_nothing",
            variant_of="answer-lost",
        ),
        _row(
            "answer-lost-after-effect",
            "The coordinator carries out a request, and its answer is lost.",
            "assignments are handed over again under the same epoch; the outcome of a grant is read from the lake",
            f"{PROCESSES}/test_faulty_networks.py::test_answers_that_are_lost_after_their_effect_lose_and_double_nothing",
            variant_of="answer-lost",
        ),
        _row(
            "coordinator-sync-fails",
            "The disk of the coordinator refuses to sync.",
            "a write that is not on the disk is an error, and is not visible",
            f"{PROCESSES}/test_failing_syncs.py::test_a_coordinator_whose_disk_does_not_sync_refuses_writes_and_goes_on_later",
            variant_of="store-answer-lost",
        ),
        _row(
            "tierer-sync-fails",
            "The disk that a tierer writes lake files to refuses to sync.",
            "the round fails before its commit",
            f"{PROCESSES}/test_failing_syncs.py::test_a_tierer_whose_disk_does_not_sync_fails_its_rounds_and_goes_on_later",
            variant_of="lake-fsync-fails",
        ),
        _row(
            "disks-full",
            "The disk of the source, of the store or of the lake is full.",
            "the error names the disk; every acknowledged write is complete",
            "tests/faults/test_full_disk.py::test_a_full_disk_is_named_and_nothing_is_lost_when_there_is_room_again",
            variant_of="lake-disk-full",
        ),
    ),
    *_of(
        "state store",
        _row(
            "store-lost",
            "The state store is deleted, or replaced by an old backup.",
            "epochs start above those in the markers; events STATE_LOST",
            f"{PROCESSES}/test_lost_state.py::test_a_lost_store_loses_history_alone",
            variant_of="store-restored",
        ),
        _row(
            "restore-dies",
            "A restore of the state store dies between any two renames.",
            "check_restore_ended: a start refuses until the restore is repeated",
            f"{STATE}::test_a_restore_that_dies_leaves_the_former_store_or_is_asked_for_again",
        ),
        _row(
            "store-of-another-cluster",
            "A coordinator gets the state store of another cluster.",
            "check_cluster, at a restore and at the start",
            f"{STATE}::test_a_backup_of_another_cluster_is_refused_and_so_is_a_start_on_it",
        ),
        _row(
            "upgrade-dies",
            "An upgrade of the store's tables dies half way.",
            "Alembic's revisions, each in a transaction",
            "tests/coordinator/memory/test_upgrades.py::test_an_upgrade_that_died_half_way_is_done_again",
        ),
        _row(
            "leader-killed",
            "The coordinator that leads on PostgreSQL is killed.",
            "LeaderLock: its session ends with it, and the standby leads",
            f"{STANDBY}::test_a_standby_passes_calls_on_and_takes_over_when_the_leader_is_killed",
            variant_of="coordinator-killed",
        ),
        _row(
            "leader-sleeps",
            "The coordinator that leads on PostgreSQL is suspended, and wakes up after the standby took over.",
            "LeaderLock.evict ends its session; the coordinator epoch refuses its writes",
            f"{STANDBY}::test_a_leader_that_was_asleep_is_fenced_at_its_first_write",
            variant_of="coordinator-doubled",
        ),
        _row(
            "postgresql-away",
            "PostgreSQL stops under a coordinator, and starts again.",
            "calls fail with StoreError, tierers retry, and the coordinator takes the lock again",
            f"{STANDBY}::test_a_database_that_is_away_stops_nothing_for_good",
        ),
    ),
    *_of(
        "catalog and S3",
        _row(
            "tierer-dies-on-s3",
            "A tierer is killed anywhere in a round whose lake is on S3 behind a REST catalog.",
            "the lake's marker: the next round finds in it what landed",
            f"{S3}/test_crashes_on_s3.py::test_a_tierer_killed_anywhere_in_its_round_leaves_everything_once",
            variant_of="tierer-killed",
        ),
        _row(
            "sweep-dies-on-s3",
            "A coordinator is killed in a sweep of a lake on S3.",
            "the same call deletes the remaining files",
            f"{S3}/test_crashes_on_s3.py::test_a_coordinator_killed_in_a_sweep_deletes_the_rest_when_it_is_called_again",
            variant_of="coordinator-killed",
        ),
        _row(
            "catalog-answer-lost-or-wrong",
            "The catalog's answer to a commit is lost, or is an error before or after the effect.",
            "after any error of a commit the outcome is unknown: the lake is read again before another request",
            f"{S3}/test_unknown_outcomes_on_s3.py::test_every_outcome_of_a_commit_is_found_in_the_lake",
            variant_of="commit-answer-lost",
        ),
        _row(
            "s3-unavailable",
            "S3 answers everything with 503.",
            "LakeUnavailable: the round fails and is retried",
            f"{S3}/test_unknown_outcomes_on_s3.py::test_s3_that_answers_503_stops_rounds_and_nothing_else",
            variant_of="lake-unreachable",
        ),
        _row(
            "s3-takes-no-data-files",
            "S3 refuses only data files.",
            "no commit is sent before every file of the round exists",
            f"{S3}/test_unknown_outcomes_on_s3.py::test_s3_that_takes_no_data_files_stops_rounds_before_their_commit",
            variant_of="lake-write-fails",
        ),
        _row(
            "catalog-forgets-table",
            "The catalog answers for a while that there is no such table.",
            "the base check: recorded offsets without a lake table stop the table",
            f"{S3}/test_unknown_outcomes_on_s3.py::test_a_catalog_that_forgets_a_table_for_a_while_loses_nothing",
        ),
        _row(
            "catalog-loses-table",
            "The catalog has lost a lake table for good.",
            "the statement in next_action creates it again",
            f"{S3}/test_crashes_on_s3.py::test_a_lake_table_that_the_catalog_lost_is_made_anew_by_the_named_call",
            variant_of="lake-table-dropped",
        ),
    ),
    *_of(
        "certificates",
        _row(
            "certificate-expires",
            "The service's certificate expires while it runs.",
            "InsecureConnection names it",
            f"{TLS}::test_a_certificate_that_expired_while_the_service_runs_is_named",
        ),
        _row(
            "certificate-of-another",
            "A certificate names another host.",
            "InsecureConnection names both",
            f"{TLS}::test_a_certificate_of_another_name_is_named",
        ),
        _row(
            "certificate-files-damaged",
            "Certificate and key are replaced by useless files while the service runs.",
            "the former files stay in force",
            f"{TLS}::test_new_files_are_taken_while_the_server_runs_and_useless_ones_are_not",
        ),
        _row(
            "plain-text-to-tls",
            "A client speaks plain text to a port with TLS.",
            "InsecureConnection names the option that is missing",
            f"{TLS}::test_plain_text_to_a_port_with_tls_is_named",
        ),
        _row(
            "client-certificate-missing",
            "With mTLS a client has no certificate, or one of another issuer.",
            "the handshake is refused",
            f"{TLS}::test_mtls_refuses_clients_without_a_certificate_of_the_named_issuer",
        ),
    ),
    *_of(
        "identity and policies",
        _row(
            "token-file-damaged",
            "The file of tokens is damaged while the service runs.",
            "the former tokens stay in force; no service starts with the damaged file",
            f"{TOKENS}::test_a_damaged_file_leaves_those_before_in_force_and_lets_no_service_start",
        ),
        _row(
            "token-file-removed",
            "The file of tokens is removed under the service.",
            "revoked tokens stay revoked",
            f"{TOKENS}::test_a_revoked_token_stays_so_when_the_file_is_removed_under_the_service",
        ),
        _row(
            "tokens-changed-at-once",
            "Several processes change the file of tokens at once.",
            "a lock; the file is replaced as a whole",
            f"{TOKENS}::test_tokens_made_at_once_are_all_kept",
        ),
        _row(
            "token-revoked-under-session",
            "The token of a Spark session is revoked.",
            "the next statement is refused; a new token in its file needs no new session",
            "tests/integration/secured/test_spark_session.py::"
            "test_no_token_and_revoked_ones_are_refused_in_words_and_a_new_one_needs_no_new_session",
        ),
        _row(
            "oidc-provider-away",
            "The provider of OpenID keys does not answer.",
            "known keys stay in force",
            f"{OIDC}::test_a_provider_that_is_away_refuses_no_caller_with_a_known_key",
        ),
        _row(
            "oidc-keys-damaged",
            "The file of OpenID keys is damaged while the service runs.",
            "the former keys stay in force",
            f"{OIDC}::test_new_keys_of_a_file_count_at_once_and_a_damaged_file_changes_nothing",
        ),
        _row(
            "policy-file-damaged",
            "The file of policies becomes invalid while the service runs.",
            "the former policies stay in force; sys.grants shows the error",
            "tests/access/test_grants.py::test_a_change_of_the_file_counts_and_an_error_leaves_the_policies_before_it",
        ),
        _row(
            "forged-ack",
            "A caller acknowledges a commit that is not in the lake.",
            "the coordinator reads the marker itself",
            "tests/faults/test_forged_acks.py::test_no_row_leaves_the_log_by_a_made_up_ack",
            variant_of="message-forged",
        ),
    ),
)
