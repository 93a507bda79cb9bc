-- Title: The system tables
-- Answers: which system tables can be asked?

SHOW TABLES IN fluss.sys;

-- Expected:
-- | namespace | tableName | isTemporary |
-- | --- | --- | --- |
-- | sys | audit | false |
-- | sys | dead_letters | false |
-- | sys | effective_privileges | false |
-- | sys | freshness_misses | false |
-- | sys | grants | false |
-- | sys | history_bounds | false |
-- | sys | kv_snapshot_lease_buckets | false |
-- | sys | kv_snapshot_leases | false |
-- | ... |
