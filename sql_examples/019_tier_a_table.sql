-- Title: Tier a table now
-- Answers: how do I bring the lake copy of a table up to date, and wait for it?
--   Here the lake has everything already: the state is EMPTY. After a round that moved rows it is SUCCEEDED.

CALL fluss.sys.tier_table('demo.flights');

-- Expected:
-- | table | round_id | state | tiering_epoch | lake_snapshot_id | splits | records | files | bytes | lag_ms_before | lag_ms_after | duration_ms |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | * | EMPTY | * | * | * | * | * | * | * | * | * |
