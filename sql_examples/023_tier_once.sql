-- Title: A call that is safe to repeat
-- Answers: how do I make sure that a script that is run twice asks only once?
--   A repeat with the same key and arguments gets the first call's result, for 7 days.

CALL fluss.sys.tier_table(table => 'demo.flights', idempotency_key => 'nightly-2026-03-01');

-- Expected:
-- | table | round_id | state | tiering_epoch | lake_snapshot_id | splits | records | files | bytes | lag_ms_before | lag_ms_after | duration_ms |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | * | EMPTY | * | * | * | * | * | * | * | * | * |
