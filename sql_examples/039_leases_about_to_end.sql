-- Title: Leases on KV snapshots
-- Answers: which leases keep old KV snapshots alive, and which of them are about to end?

SELECT lease_id, owner, tables, buckets, state, remaining_ms
FROM fluss.sys.kv_snapshot_leases
ORDER BY expires_at;

-- Expected:
-- | lease_id | owner | tables | buckets | state | remaining_ms |
-- | --- | --- | --- | --- | --- | --- |
