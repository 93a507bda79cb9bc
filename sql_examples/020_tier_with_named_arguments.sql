-- Title: Tier a table with a time-out of my own
-- Answers: how are arguments named, and how do I wait no longer than a minute?
--   The round goes on when the time is over; the row then shows the table's state.

CALL fluss.sys.tier_table(table => 'fluss.demo.flights', timeout_ms => 60000);

-- Expected:
-- | table | round_id | state | tiering_epoch | lake_snapshot_id | splits | records | files | bytes | lag_ms_before | lag_ms_after | duration_ms |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | * | EMPTY | * | * | * | * | * | * | * | * | * |
