-- Title: Pause a table
-- Answers: how is a table kept from being tiered while something is mended?
--   `until => TIMESTAMP '...'` ends the pause by itself, `CALL sys.resume_tiering` at once. With `dry_run` nothing is changed.

CALL fluss.sys.pause_tiering('demo.flights', reason => 'moving the warehouse', dry_run => true);

-- Expected:
-- | table | previous_paused | paused | status |
-- | --- | --- | --- | --- |
-- | demo.flights | false | true | * |
