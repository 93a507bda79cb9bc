-- Title: Where the records of a table are
-- Answers: which tables have records in the log alone (hot), in log and lake (warm), and in the lake alone (cold)?

SELECT table_name, sum(log_only_records) > 0 AS hot, sum(both_records) > 0 AS warm, sum(lake_only_records) > 0 AS cold
FROM fluss.sys.tiering_buckets
GROUP BY table_name
ORDER BY table_name;

-- Expected:
-- | table_name | hot | warm | cold |
-- | --- | --- | --- | --- |
-- | flights | false | true | false |
-- | weather | true | false | false |
