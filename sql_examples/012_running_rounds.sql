-- Title: What is being tiered now
-- Answers: which tables have a round that runs, on which tierer, and how far is it?

SELECT database_name, table_name, round_id, tierer_id, round_started_time, fraction_completed
FROM fluss.sys.lake_tiering_status
WHERE status = 'Tiering'
ORDER BY round_started_time;

-- Expected:
-- | database_name | table_name | round_id | tierer_id | round_started_time | fraction_completed |
-- | --- | --- | --- | --- | --- | --- |
-- | ... |
