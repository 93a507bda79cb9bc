-- Title: The lake copy alone
-- Answers: how many rows does the lake copy have, without those that are only in the log?

SELECT count(*) AS flights_in_the_lake
FROM fluss.demo.`flights$lake`;

-- Expected:
-- | flights_in_the_lake |
-- | --- |
-- | 1000 |
