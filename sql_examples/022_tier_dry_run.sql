-- Title: What a CALL would do
-- Answers: what would a call do, without doing it?

CALL fluss.sys.tier_table(table => 'demo.flights', dry_run => true);

-- Expected:
-- | table | round_id | state | tiering_epoch | lake_snapshot_id | splits | records | files | bytes | lag_ms_before | lag_ms_after | duration_ms |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | * | * | * | * | * | * | * | * | * | * | * |
