-- Title: The changelog of a table
-- Answers: what was written into the table, in which order, and when?
--   A log table has only +A. A primary-key table has +I, -U, +U and -D.

SELECT _change_type, _log_offset, _commit_timestamp, id, text
FROM fluss.demo.`flights$changelog`
WHERE id < 2
ORDER BY id;

-- Expected:
-- | _change_type | _log_offset | _commit_timestamp | id | text |
-- | --- | --- | --- | --- | --- |
-- | +A | 0 | * | 0 | row 0 |
-- | +A | 1 | * | 1 | row 1 |
