-- Title: Rows of the lake, bucket by bucket
-- Answers: how are the rows of this table spread over its buckets, and has each of them every offset once?

SELECT t.table_name, f.__bucket, count(*) AS found, max(f.__offset) - min(f.__offset) + 1 = count(DISTINCT f.__offset) AS each_once
FROM fluss.demo.`flights$lake` AS f
JOIN fluss.sys.tables AS t ON t.database_name = 'demo' AND t.table_name = 'flights' AND f.__bucket < t.bucket_count
GROUP BY t.table_name, f.__bucket
ORDER BY f.__bucket;

-- Expected:
-- | table_name | __bucket | found | each_once |
-- | --- | --- | --- | --- |
-- | flights | 0 | 250 | true |
-- | flights | 1 | 250 | true |
-- | flights | 2 | 250 | true |
-- | flights | 3 | 250 | true |
