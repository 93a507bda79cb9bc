-- Title: Rows of a table up to now
-- Answers: how many rows does the table have, those included that are only in its log?
--   The name means lake and log, in DuckDB and in Spark, unless the option plain-name of Spark's catalog is lake.

SELECT count(*) AS flights, max(id) AS last_flight
FROM fluss.demo.flights;

-- Expected:
-- | flights | last_flight |
-- | --- | --- |
-- | 1000 | 999 |
