-- Title: Count errors anew
-- Answers: how is a table's error_count set back after its cause was mended?

CALL fluss.sys.reset_errors('demo.flights');

-- Expected:
-- | table | cleared |
-- | --- | --- |
-- | demo.flights | 0 |
