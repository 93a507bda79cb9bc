-- Title: The system tables
-- Answers: which system tables can be asked?

SHOW TABLES IN fluss.sys;

-- Expected:
-- | namespace | tableName | isTemporary |
-- | --- | --- | --- |
-- | sys | freshness_misses | false |
-- | sys | kv_snapshot_lease_buckets | false |
-- | sys | kv_snapshot_leases | false |
-- | sys | lake_commits | false |
-- | sys | lake_tiering_status | false |
-- | ... |
