-- Title: Resume a table
-- Answers: how does the tiering of a paused table continue?
--   A table that is not paused is left as it is.

CALL fluss.sys.resume_tiering('demo.flights', reason => 'the warehouse was moved');

-- Expected:
-- | table | previous_paused | paused | status |
-- | --- | --- | --- | --- |
-- | demo.flights | false | false | * |
