-- Title: What the upkeep of lake tables waits for
-- Answers: when did the latest upkeep of a table end, when does the next one begin, and what does it wait for?

SELECT table_name, rewrite_bytes, last_upkeep_time, last_upkeep_outcome, next_upkeep_time, upkeep_waits_for, upkeep_paused_by
FROM fluss.sys.lake_table_health
WHERE table_name = 'flights';

-- Expected:
-- | table_name | rewrite_bytes | last_upkeep_time | last_upkeep_outcome | next_upkeep_time | upkeep_waits_for | upkeep_paused_by |
-- | --- | --- | --- | --- | --- | --- | --- |
-- | flights | * | * | * | * | * | NULL |
