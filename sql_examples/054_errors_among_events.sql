-- Title: Errors among the events
-- Answers: which tables failed, how often, and when did they fail last?

SELECT table_name, count(*) > 0 AS failed, max(occurred_at) AS last_time
FROM fluss.sys.tiering_events
WHERE level = 'ERROR'
GROUP BY table_name
ORDER BY table_name;

-- Expected:
-- | table_name | failed | last_time |
-- | --- | --- | --- |
-- | weather | true | * |
