-- Title: The newest row of the lake
-- Answers: when was the newest row of the lake copy written to the store, and was the last round later?

SELECT s.table_name, f.newest_row, s.last_tiered_time, s.last_tiered_time >= f.newest_row AS tiered_after
FROM fluss.sys.lake_tiering_status AS s
CROSS JOIN (SELECT max(__timestamp) AS newest_row FROM fluss.demo.`flights$lake`) AS f
WHERE s.database_name = 'demo' AND s.table_name = 'flights';

-- Expected:
-- | table_name | newest_row | last_tiered_time | tiered_after |
-- | --- | --- | --- | --- |
-- | flights | * | * | true |
