-- Title: How many tables keep their promise
-- Answers: how many lake copies are as fresh as promised, how many are at risk, and how many are too old?
--   NULL: the lag of these tables is unknown, because their logs were not observed yet.

SELECT promise, count(*) AS tables, max(lag_ms - freshness_ms) > 0 AS any_late
FROM fluss.sys.lake_tiering_status
GROUP BY promise
ORDER BY promise;

-- Expected:
-- | promise | tables | any_late |
-- | --- | --- | --- |
-- | broken | 1 | true |
-- | kept | 1 | false |
