-- Title: How many tables are in which state
-- Answers: what is the tiering busy with?

SELECT status, count(*) AS tables
FROM fluss.sys.lake_tiering_status
GROUP BY status
ORDER BY status;

-- Expected:
-- | status | tables |
-- | --- | --- |
-- | Failed | 1 |
-- | ... |
