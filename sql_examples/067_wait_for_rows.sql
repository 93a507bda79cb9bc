-- Title: Wait until the lake has certain rows
-- Answers: how does a downstream job wait for rows, here for the first ten of bucket 0, without starting a round?
--   With a timestamp it waits for what was written until then; with neither for what the log has now.

CALL fluss.sys.wait_for_tiering('demo.flights', offsets => map('0', 10), timeout_ms => 60000);

-- Expected:
-- | table | reached | lake_snapshot_id | waited_ms |
-- | --- | --- | --- | --- |
-- | demo.flights | true | * | * |
