-- Title: Lake tables in the second catalog
-- Answers: for how long has the second catalog (--publish) lacked a commit of which table, and why?
--   Without a second catalog, all of it is NULL.

SELECT table_name, published_time, publish_lag_ms, publish_error
FROM fluss.sys.lake_table_health
ORDER BY publish_lag_ms DESC, table_name;

-- Expected:
-- | table_name | published_time | publish_lag_ms | publish_error |
-- | --- | --- | --- | --- |
-- | flights | NULL | NULL | NULL |
-- | weather | NULL | NULL | NULL |
