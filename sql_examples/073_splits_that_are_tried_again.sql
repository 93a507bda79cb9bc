-- Title: Splits that are tried again
-- Answers: which splits failed on an executor, are read once more, or ended early, over all running rounds?

SELECT round_id, split_id, executor, attempt, state
FROM fluss.sys.tiering_splits
WHERE attempt > 0 OR state IN ('FAILED', 'STOPPED')
ORDER BY round_id, split_id;

-- Expected:
-- | round_id | split_id | executor | attempt | state |
-- | --- | --- | --- | --- | --- |
