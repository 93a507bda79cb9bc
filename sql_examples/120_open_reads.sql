-- Title: Open reads
-- Answers: who reads a table now, and which old lake snapshots and log records are kept for that?

SELECT table_name, engine, lake_snapshot_id, log_records, state
FROM fluss.sys.open_reads
ORDER BY opened_at;

-- Expected:
-- | table_name | engine | lake_snapshot_id | log_records | state |
-- | --- | --- | --- | --- | --- |
