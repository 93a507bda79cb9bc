-- Title: Formats of lake tables
-- Answers: which lake formats do the tiered tables of this database go to?

SELECT lake_format, count(*) AS lake_tables
FROM fluss.sys.tables
WHERE database_name = 'demo' AND lake_enabled
GROUP BY lake_format
ORDER BY lake_format;

-- Expected:
-- | lake_format | lake_tables |
-- | --- | --- |
-- | iceberg | 2 |
