-- Title: Count the rows of a lake copy, and compare with the status
-- Answers: does the lake copy have as many rows as the status of its table says, and how many records are not there yet?

SELECT s.table_name, s.lake_records, f.rows_found, s.pending_records
FROM fluss.sys.lake_tiering_status AS s
JOIN (SELECT 'flights' AS table_name, count(*) AS rows_found FROM fluss.demo.`flights$lake`) AS f ON f.table_name = s.table_name
WHERE s.database_name = 'demo';

-- Expected:
-- | table_name | lake_records | rows_found | pending_records |
-- | --- | --- | --- | --- |
-- | flights | 1000 | 1000 | 0 |
