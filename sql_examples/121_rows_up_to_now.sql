-- Title: Rows of a table up to now
-- Answers: how many rows does the table have, those included that are only in its log?
--   In DuckDB the name means lake and log. In Spark the option plain-name of the catalog says what it means.

SELECT count(*) AS flights, max(id) AS last_flight
FROM fluss.demo.flights;

-- Expected:
-- | flights | last_flight |
-- | --- | --- |
-- | 1000 | 999 |
