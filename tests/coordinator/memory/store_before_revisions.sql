BEGIN TRANSACTION;
CREATE TABLE lakeward_commits (
	round_id VARCHAR(64) NOT NULL, 
	table_id BIGINT NOT NULL, 
	tiering_epoch BIGINT NOT NULL, 
	made_us BIGINT NOT NULL, 
	closed BOOLEAN NOT NULL, 
	body JSON NOT NULL, 
	database_name VARCHAR(200), 
	table_name VARCHAR(200), 
	state VARCHAR(16), 
	PRIMARY KEY (round_id)
);
INSERT INTO "lakeward_commits" VALUES('round-2',1,2,1767225602000000,1,'{"round_id": "round-2", "table_id": 1, "database_name": "sales", "table_name": "orders", "tiering_epoch": 2, "state": "ACKED", "prepared_at": "2026-01-01T00:00:02Z", "base_round_id": null, "base_tag": 4611686018427387904, "offsets": {"0": 10}, "records": 0, "files": 0, "lake_snapshot_id": null, "lake_committed_at": null, "acked_at": null, "reconciled_by": null, "lake_table_uuid": null, "reconcile_action": null, "records_left_out": null}','sales','orders','ACKED');
CREATE TABLE lakeward_errors (
	error_key VARCHAR(400) NOT NULL, 
	database_name VARCHAR(200), 
	table_name VARCHAR(200), 
	round_id VARCHAR(64) NOT NULL, 
	seen_us BIGINT NOT NULL, 
	closed BOOLEAN NOT NULL, 
	body JSON NOT NULL, 
	PRIMARY KEY (error_key)
);
CREATE TABLE lakeward_events (
	event_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	body JSON NOT NULL, 
	database_name VARCHAR(200), 
	table_name VARCHAR(200), 
	occurred_us BIGINT, 
	round_id VARCHAR(64), 
	level VARCHAR(16), 
	event_type VARCHAR(64), 
	principal TEXT
);
INSERT INTO "lakeward_events" VALUES(1,'{"occurred_at": "2026-01-01T00:00:00Z", "level": "INFO", "event_type": "TABLE_NEW", "message": "one", "principal": null, "database_name": null, "table_name": null, "round_id": null, "details": {"table_id": 1}, "event_id": null}',NULL,NULL,1767225600000000,NULL,'INFO','TABLE_NEW',NULL);
INSERT INTO "lakeward_events" VALUES(2,'{"occurred_at": "2026-01-01T00:00:00Z", "level": "INFO", "event_type": "TABLE_NEW", "message": "two", "principal": null, "database_name": null, "table_name": null, "round_id": null, "details": {"table_id": 1}, "event_id": null}',NULL,NULL,1767225600000000,NULL,'INFO','TABLE_NEW',NULL);
CREATE TABLE lakeward_operations (
	idempotency_key VARCHAR(256) NOT NULL, 
	started_us BIGINT NOT NULL, 
	body JSON NOT NULL, 
	PRIMARY KEY (idempotency_key)
);
INSERT INTO "lakeward_operations" VALUES('k',1767225600000000,'{"idempotency_key": "k", "caller": "alice", "procedure": "tier_table", "arguments": {"table": "sales.orders"}, "table_id": 1, "started_time": "2026-01-01T00:00:00Z", "targets": {"0": 10}, "log_starts": {"0": 0}, "round_id": null, "lag_ms_before": null, "outcome": null, "error": null}');
CREATE TABLE lakeward_owner (
	id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	writes BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "lakeward_owner" VALUES(1,1,3,1);
CREATE TABLE lakeward_rounds (
	round_id VARCHAR(64) NOT NULL, 
	table_id BIGINT NOT NULL, 
	tiering_epoch BIGINT NOT NULL, 
	made_us BIGINT NOT NULL, 
	closed BOOLEAN NOT NULL, 
	body JSON NOT NULL, 
	database_name VARCHAR(200), 
	table_name VARCHAR(200), 
	state VARCHAR(16), 
	PRIMARY KEY (round_id)
);
INSERT INTO "lakeward_rounds" VALUES('round-2',1,2,1767225602000000,1,'{"round_id": "round-2", "table_id": 1, "database_name": "sales", "table_name": "orders", "tiering_epoch": 2, "coordinator_epoch": 1, "trigger": "call", "state": "SUCCEEDED", "pending_time": "2026-01-01T00:00:02Z", "attempt": 1, "triggered_by": null, "idempotency_key": null, "tierer_id": null, "incarnation": null, "started_time": null, "finished_time": null, "planned_stops": {"17/3": 5}, "splits_total": null, "splits_done": null, "records_done": null, "records_total": null, "stats": {"splits": 2, "records_read": 0, "bytes_read": 0, "records_written": 10, "bytes_written": 0, "files_written": 0, "deletes_written": 0, "times": {"plan_ms": null, "lease_ms": null, "read_ms": null, "write_ms": null, "commit_ms": null, "ack_ms": null}}, "acked": false, "lake_snapshot_id": null, "cancelled_by": null, "cancel_message": null, "error": {"error_class": "OSError", "message": "no disk left", "phase": "WRITE", "hint": "buy one", "retryable": true, "time": "2026-01-01T00:00:00Z", "ids": {"path": "x"}, "way_out": null}, "deadline": null, "missed_by_ms": null, "completion_target": null, "mode": null, "queued_late_ms": null, "waited_for_slot_ms": null, "earlier_rounds_ms": null, "backoff_ms": null, "paused_ms": null, "no_tierer_ms": null, "unpromised_ms": 0, "definition": null}','sales','orders','SUCCEEDED');
CREATE TABLE lakeward_tables (
	table_id BIGINT NOT NULL, 
	path VARCHAR(401) NOT NULL, 
	state VARCHAR(16), 
	body JSON NOT NULL, 
	PRIMARY KEY (table_id)
);
INSERT INTO "lakeward_tables" VALUES(1,'sales.orders','Tiering','{"table_id": 1, "database_name": "sales", "table_name": "orders", "table_type": "LOG", "lake_format": "iceberg", "freshness_ms": 180000, "definition": "abc", "state": "Tiering", "status_time": "2026-01-01T00:00:00Z", "tiering_epoch": 7, "due_deadline": "2026-01-01T00:00:00.000001Z", "pending_since": "2026-01-01T00:00:00Z", "checked_since": "2026-01-01T00:00:00Z", "checked_wall": "2026-01-01T00:00:00Z", "heartbeat_time": "2026-01-01T00:00:00Z", "heartbeat_deadline": "2026-01-01T00:00:00Z", "last_tiered_time": "2026-01-01T00:00:00Z", "last_checked_time": "2026-01-01T00:00:00Z", "last_round_duration_ms": 5, "round": {"round_id": "round-1", "table_id": 1, "database_name": "sales", "table_name": "orders", "tiering_epoch": 1, "coordinator_epoch": 1, "trigger": "call", "state": "RUNNING", "pending_time": "2026-01-01T00:00:01Z", "attempt": 1, "triggered_by": null, "idempotency_key": null, "tierer_id": null, "incarnation": null, "started_time": null, "finished_time": null, "planned_stops": {"17/3": 5}, "splits_total": null, "splits_done": null, "records_done": null, "records_total": null, "stats": {"splits": 2, "records_read": 0, "bytes_read": 0, "records_written": 10, "bytes_written": 0, "files_written": 0, "deletes_written": 0, "times": {"plan_ms": null, "lease_ms": null, "read_ms": null, "write_ms": null, "commit_ms": null, "ack_ms": null}}, "acked": false, "lake_snapshot_id": null, "cancelled_by": null, "cancel_message": null, "error": {"error_class": "OSError", "message": "no disk left", "phase": "WRITE", "hint": "buy one", "retryable": true, "time": "2026-01-01T00:00:00Z", "ids": {"path": "x"}, "way_out": null}, "deadline": null, "missed_by_ms": null, "completion_target": null, "mode": null, "queued_late_ms": null, "waited_for_slot_ms": null, "earlier_rounds_ms": null, "backoff_ms": null, "paused_ms": null, "no_tierer_ms": null, "unpromised_ms": 0, "definition": null}, "commit": {"round_id": "round-1", "table_id": 1, "database_name": "sales", "table_name": "orders", "tiering_epoch": 1, "state": "ACKED", "prepared_at": "2026-01-01T00:00:01Z", "base_round_id": null, "base_tag": 4611686018427387904, "offsets": {"0": 10}, "records": 0, "files": 0, "lake_snapshot_id": null, "lake_committed_at": null, "acked_at": null, "reconciled_by": null, "lake_table_uuid": null, "reconcile_action": null, "records_left_out": null}, "error": {"error_class": "OSError", "message": "gr\u00f6\u00dfer", "phase": null, "hint": "", "retryable": false, "time": "2026-01-01T00:00:00Z", "ids": {}, "way_out": null}, "error_count": 3, "consecutive_failures": 2, "retry_deadline": "2026-01-01T00:00:00Z", "pause": {"by": "alice", "reason": null, "time": "2026-01-01T00:00:00Z", "until_deadline": "2026-01-01T00:00:00Z", "until": null}, "call": {"round_id": "round-9", "caller": "bob", "queued_time": "2026-01-01T00:00:00Z", "idempotency_key": "k"}, "lake": {"table_uuid": "uuid", "passed_head": 4611686018427387904, "snapshot_id": 5, "offsets": {"0": 10}, "marker_round_id": "round-0", "records": 1, "size_bytes": 2, "files": 3, "location": null, "backlog": null, "marker_tells": true, "moved_back": {}, "starts": null, "backlog_start": null, "backlog_starts": 0, "backlog_start_time": null, "unresolved_epoch": null}, "forget_deadline": null, "errors": [], "backoff_ms": 0, "paused_ms": 0, "waited_for_slot_ms": 0, "no_tierer_ms": 0, "queued_late_ms": 0, "due_time": null, "assignment": null, "elsewhere": null, "round_bytes": null, "recent_rounds_ms": [], "recent_waits_ms": []}');
CREATE TABLE lakeward_validations (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	body JSON NOT NULL
);
CREATE INDEX ix_lakeward_tables_path ON lakeward_tables (path);
CREATE INDEX lakeward_rounds_by_path ON lakeward_rounds (database_name, table_name, made_us);
CREATE INDEX ix_lakeward_rounds_table_id ON lakeward_rounds (table_id);
CREATE INDEX lakeward_rounds_by_state ON lakeward_rounds (state, made_us);
CREATE INDEX ix_lakeward_rounds_made_us ON lakeward_rounds (made_us);
CREATE INDEX lakeward_rounds_by_table_name ON lakeward_rounds (table_name, made_us);
CREATE INDEX lakeward_commits_by_state ON lakeward_commits (state, made_us);
CREATE INDEX ix_lakeward_commits_table_id ON lakeward_commits (table_id);
CREATE INDEX lakeward_commits_by_path ON lakeward_commits (database_name, table_name, made_us);
CREATE INDEX ix_lakeward_commits_made_us ON lakeward_commits (made_us);
CREATE INDEX lakeward_commits_by_table_name ON lakeward_commits (table_name, made_us);
CREATE INDEX lakeward_errors_by_table_name ON lakeward_errors (table_name, seen_us);
CREATE INDEX lakeward_errors_by_path ON lakeward_errors (database_name, table_name, seen_us);
CREATE INDEX ix_lakeward_errors_seen_us ON lakeward_errors (seen_us);
CREATE INDEX lakeward_events_by_principal ON lakeward_events (principal, occurred_us);
CREATE INDEX lakeward_events_by_table_name ON lakeward_events (table_name, occurred_us);
CREATE INDEX ix_lakeward_events_round_id ON lakeward_events (round_id);
CREATE INDEX ix_lakeward_events_occurred_us ON lakeward_events (occurred_us);
CREATE INDEX lakeward_events_by_level ON lakeward_events (level, occurred_us);
CREATE INDEX lakeward_events_by_event_type ON lakeward_events (event_type, occurred_us);
CREATE INDEX lakeward_events_by_path ON lakeward_events (database_name, table_name, occurred_us);
CREATE INDEX ix_lakeward_operations_started_us ON lakeward_operations (started_us);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('lakeward_events',2);
COMMIT;
