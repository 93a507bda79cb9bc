-- Title: Why tables were late
-- Answers: which promises were missed by more than a day, and what took most of the time?

SELECT table_name, deadline, missed_by_ms, largest_part, largest_part_ms, explanation
FROM fluss.sys.freshness_misses
WHERE database_name = 'demo' AND missed_by_ms > 86400000 AND reached_at IS NOT NULL
ORDER BY deadline DESC;

-- Expected:
-- | table_name | deadline | missed_by_ms | largest_part | largest_part_ms | explanation |
-- | --- | --- | --- | --- | --- | --- |
