-- Title: The last commits of a table
-- Answers: which commits were granted, did they reach the lake, and up to which offset of each bucket?

SELECT table_name, state, records, lake_snapshot_id IS NOT NULL AS in_lake, offsets['0'] > 0 AS bucket_0_has_rows
FROM fluss.sys.lake_commits
WHERE table_name = 'flights'
ORDER BY prepared_at DESC
LIMIT 1;

-- Expected:
-- | table_name | state | records | in_lake | bucket_0_has_rows |
-- | --- | --- | --- | --- | --- |
-- | flights | ACKED | * | true | true |
