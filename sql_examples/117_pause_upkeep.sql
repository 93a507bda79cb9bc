-- Title: Pause the upkeep of a table
-- Answers: how do I stop the upkeep of a table while another tool compacts it, without stopping its tiering?
--   `CALL sys.resume_upkeep` ends the pause.

CALL fluss.sys.pause_upkeep('demo.flights', reason => 'another tool compacts it', dry_run => true);

-- Expected:
-- | table | previous_paused | paused | status |
-- | --- | --- | --- | --- |
-- | demo.flights | false | true | * |
