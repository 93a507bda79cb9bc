-- Title: Ask for tiering without waiting
-- Answers: how do I start tiering without waiting for its end?
--   Names are not case-sensitive, and may be quoted.

CALL fluss.sys.tier_table('`demo`.`FLIGHTS`', wait => false);

-- Expected:
-- | table | round_id | state | tiering_epoch | lake_snapshot_id | splits | records | files | bytes | lag_ms_before | lag_ms_after | duration_ms |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | * | * | * | * | * | * | * | * | * | * | * |
