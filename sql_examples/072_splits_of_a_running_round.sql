-- Title: Progress of the splits of a running round
-- Answers: which splits does the running round of a table read, on which executors, and which of them are behind?

SELECT split_id, split_type, executor, attempt, state, current_offset, stopping_offset, fraction_completed
FROM fluss.sys.tiering_splits
WHERE database_name = 'demo' AND table_name = 'flights'
ORDER BY fraction_completed, split_id;

-- Expected:
-- | split_id | split_type | executor | attempt | state | current_offset | stopping_offset | fraction_completed |
-- | --- | --- | --- | --- | --- | --- | --- | --- |
