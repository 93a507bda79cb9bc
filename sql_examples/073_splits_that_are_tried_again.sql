-- Title: Splits that failed or are retried
-- Answers: which splits of all running rounds failed on an executor, are retried, or ended early?

SELECT round_id, split_id, executor, attempt, state
FROM fluss.sys.tiering_splits
WHERE attempt > 0 OR state IN ('FAILED', 'STOPPED')
ORDER BY round_id, split_id;

-- Expected:
-- | round_id | split_id | executor | attempt | state |
-- | --- | --- | --- | --- | --- |
