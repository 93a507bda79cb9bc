-- Title: How many tables fail
-- Answers: how many tables fail, how many do not, and what is the longest lag of each?

SELECT last_error IS NOT NULL AS failing, count(*) AS tables, max(lag_ms) AS longest_lag_ms
FROM fluss.sys.lake_tiering_status
GROUP BY last_error IS NOT NULL
ORDER BY failing;

-- Expected:
-- | failing | tables | longest_lag_ms |
-- | --- | --- | --- |
-- | false | 1 | 0 |
-- | true | 1 | * |
