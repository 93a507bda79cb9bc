-- Title: Tables whose promise is broken
-- Answers: whose lake copy is older than its freshness allows?

SELECT database_name, table_name, freshness_ms, lag_ms > freshness_ms AS stale, paused
FROM fluss.sys.lake_tiering_status
WHERE lag_ms > freshness_ms
ORDER BY lag_ms DESC;

-- Expected:
-- | database_name | table_name | freshness_ms | stale | paused |
-- | --- | --- | --- | --- | --- |
-- | demo | weather | 1000 | true | false |
