-- Title: Remove old snapshots now
-- Answers: which snapshots of a lake table can be removed, and what keeps the others?
--   `older_than => TIMESTAMP '...'` and `retain_last => 5` say what stays. The snapshot of a tag or a branch always stays.

CALL fluss.sys.expire_snapshots('demo.flights', retain_last => 1, dry_run => true);

-- Expected:
-- | table | outcome | reason | round_id | deleted_snapshots_count | kept_snapshots_count | kept_because |
-- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | PLANNED | NULL | NULL | * | * | * |
