-- Title: Resume the upkeep of a table
-- Answers: how does the upkeep of a table continue after a pause?

CALL fluss.sys.resume_upkeep('demo.flights', dry_run => true);

-- Expected:
-- | table | previous_paused | paused | status |
-- | --- | --- | --- | --- |
-- | demo.flights | false | false | * |
