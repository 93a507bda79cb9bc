-- Title: What is left of each backlog
-- Answers: which tables are in backlog, and how many records are left?
--   Where the next round has yet to say where a backlog ends, all that waits counts.

SELECT
  b.database_name,
  b.table_name,
  count(*) AS buckets,
  sum(CASE WHEN b.is_backlog THEN b.backlog_offset - greatest(b.log_start_offset, coalesce(b.lake_offset, 0)) ELSE b.lag_records END) AS records_left,
  max(b.lag_ms) AS lag_ms
FROM fluss.sys.tiering_buckets b
JOIN fluss.sys.lake_tiering_status t ON t.database_name = b.database_name AND t.table_name = b.table_name
WHERE t.is_backlog AND coalesce(b.is_backlog, true)
GROUP BY b.database_name, b.table_name
ORDER BY records_left DESC;

-- Expected:
-- | database_name | table_name | buckets | records_left | lag_ms |
-- | --- | --- | --- | --- | --- |
-- | ... |
