-- Title: Tables that were never validated, or have a difference
-- Answers: which lake tables were never compared with the log, and which comparisons found a difference?

SELECT s.table_name, count(v.check) AS checks, count(CASE WHEN NOT v.ok THEN 1 END) AS differences
FROM fluss.sys.lake_tiering_status AS s
LEFT JOIN fluss.sys.validation_results AS v ON v.database_name = s.database_name AND v.table_name = s.table_name
GROUP BY s.table_name
ORDER BY s.table_name;

-- Expected:
-- | table_name | checks | differences |
-- | --- | --- | --- |
-- | flights | * | 0 |
-- | weather | 0 | 0 |
