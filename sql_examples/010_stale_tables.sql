-- Title: Tables whose promise is broken
-- Answers: whose lake copy is older than its freshness allows?

SELECT database_name, table_name, freshness_ms, promise, paused
FROM fluss.sys.lake_tiering_status
WHERE promise = 'broken'
ORDER BY lag_ms DESC;

-- Expected:
-- | database_name | table_name | freshness_ms | promise | paused |
-- | --- | --- | --- | --- | --- |
-- | demo | weather | 1000 | broken | false |
