-- Title: Pause a table
-- Answers: how do I stop the tiering of a table, for example during a repair?
--   `until => TIMESTAMP '...'` ends the pause by itself, `CALL sys.resume_tiering` at once. With `dry_run` nothing is changed.

CALL fluss.sys.pause_tiering('demo.flights', reason => 'moving the warehouse', dry_run => true);

-- Expected:
-- | table | previous_paused | paused | status |
-- | --- | --- | --- | --- |
-- | demo.flights | false | true | * |
