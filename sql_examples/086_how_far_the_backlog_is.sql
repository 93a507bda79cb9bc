-- Title: How far the backlog is
-- Answers: which tables work through a backlog, and how many records are left of it?

SELECT
  database_name,
  table_name,
  count(*) AS buckets,
  sum(backlog_offset - greatest(log_start_offset, coalesce(lake_offset, 0))) AS records_left,
  max(lag_ms) AS lag_ms
FROM fluss.sys.tiering_buckets
WHERE is_backlog
GROUP BY database_name, table_name
ORDER BY records_left DESC;

-- Expected:
-- | database_name | table_name | buckets | records_left | lag_ms |
-- | --- | --- | --- | --- | --- |
-- | ... |
