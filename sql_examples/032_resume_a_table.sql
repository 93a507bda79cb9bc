-- Title: Resume a table
-- Answers: how is a paused table tiered again?
--   A table that is not paused is left as it is.

CALL fluss.sys.resume_tiering('demo.flights', reason => 'the warehouse was moved');

-- Expected:
-- | table | previous_paused | paused | status |
-- | --- | --- | --- | --- |
-- | demo.flights | false | false | * |
