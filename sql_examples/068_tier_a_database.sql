-- Title: Tier the tables of a database
-- Answers: how do I bring many lake copies up to date with one CALL, here those whose names begin with fl?
--   Without only_stale => false it leaves out tables whose lake copy lacks no row.

CALL fluss.sys.tier_database('demo', include => 'fl%', only_stale => false);

-- Expected:
-- | table | round_id | state | tiering_epoch | lake_snapshot_id | splits | records | files | bytes | lag_ms_before | lag_ms_after | duration_ms | error |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | * | EMPTY | * | * | * | * | * | * | * | * | * | NULL |
