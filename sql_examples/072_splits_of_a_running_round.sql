-- Title: How far a running round is with its splits
-- Answers: which splits does the round of a table work on now, who reads them, and which of them is behind?

SELECT split_id, split_type, executor, attempt, state, current_offset, stopping_offset, fraction_completed
FROM fluss.sys.tiering_splits
WHERE database_name = 'demo' AND table_name = 'flights'
ORDER BY fraction_completed, split_id;

-- Expected:
-- | split_id | split_type | executor | attempt | state | current_offset | stopping_offset | fraction_completed |
-- | --- | --- | --- | --- | --- | --- | --- | --- |
