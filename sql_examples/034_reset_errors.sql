-- Title: Reset the count of errors
-- Answers: how do I reset the error_count of a table after its cause was repaired?

CALL fluss.sys.reset_errors('demo.flights');

-- Expected:
-- | table | cleared |
-- | --- | --- |
-- | demo.flights | 0 |
