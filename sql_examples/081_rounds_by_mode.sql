-- Title: Rounds by mode
-- Answers: how many records do rounds of a backlog bring to the lake, and how many do the other rounds bring?

SELECT mode, count(*) AS rounds, sum(records_written) > 0 AS with_records
FROM fluss.sys.tiering_rounds
WHERE database_name = 'demo' AND table_name = 'flights' AND mode = 'BACKLOG'
GROUP BY mode;

-- Expected:
-- | mode | rounds | with_records |
-- | --- | --- | --- |
-- | BACKLOG | 1 | true |
