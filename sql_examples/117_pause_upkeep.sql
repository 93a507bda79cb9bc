-- Title: Pause the upkeep of a table
-- Answers: how is a table's upkeep stopped while another tool compacts it, without stopping its tiering?
--   `CALL sys.resume_upkeep` ends the pause.

CALL fluss.sys.pause_upkeep('demo.flights', reason => 'another tool compacts it', dry_run => true);

-- Expected:
-- | table | previous_paused | paused | status |
-- | --- | --- | --- | --- |
-- | demo.flights | false | true | * |
