-- Title: Leased KV snapshots, bucket by bucket
-- Answers: which snapshot of which bucket does a lease hold, and are its files there?

SELECT database_name, table_name, bucket_id, snapshot_id, log_offset, available
FROM fluss.sys.kv_snapshot_lease_buckets
WHERE lease_id = 'my-lease'
ORDER BY database_name, table_name, bucket_id;

-- Expected:
-- | database_name | table_name | bucket_id | snapshot_id | log_offset | available |
-- | --- | --- | --- | --- | --- | --- |
