-- Title: A count beside what the status says
-- Answers: does the lake copy hold as many rows as the status of its table says, and what did not come yet?

SELECT s.table_name, s.lake_records, f.rows_found, s.pending_records
FROM fluss.sys.lake_tiering_status AS s
JOIN (SELECT 'flights' AS table_name, count(*) AS rows_found FROM fluss.demo.flights) AS f ON f.table_name = s.table_name
WHERE s.database_name = 'demo';

-- Expected:
-- | table_name | lake_records | rows_found | pending_records |
-- | --- | --- | --- | --- |
-- | flights | 1000 | 1000 | 0 |
