-- Title: Lake tables that are slow to read, and what helps
-- Answers: which lake tables are unhealthy, why, what does their upkeep wait for, and what should I run?

SELECT table_name, score, reason, last_upkeep_outcome, upkeep_waits_for, next_action
FROM fluss.sys.lake_table_health
WHERE score < 90
ORDER BY score, table_name;

-- Expected:
-- | table_name | score | reason | last_upkeep_outcome | upkeep_waits_for | next_action |
-- | --- | --- | --- | --- | --- | --- |
