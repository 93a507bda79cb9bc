-- Title: Promises broken since yesterday
-- Answers: which tables were late in the last 24 hours, how often, by how much at worst, and why then?

SELECT
  database_name,
  table_name,
  count(*) AS misses,
  max(missed_by_ms) AS worst_ms,
  max_by(largest_part, missed_by_ms) AS largest_part,
  max_by(explanation, missed_by_ms) AS reason
FROM fluss.sys.freshness_misses
WHERE reached_at IS NULL OR reached_at > current_timestamp() - INTERVAL 24 HOURS
GROUP BY database_name, table_name
ORDER BY worst_ms DESC;

-- Expected:
-- | database_name | table_name | misses | worst_ms | largest_part | reason |
-- | --- | --- | --- | --- | --- | --- |
-- | ... |
