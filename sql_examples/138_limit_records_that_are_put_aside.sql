-- Title: Limit the records that are put aside
-- Answers: how many records may rounds put aside within an hour, before a bucket stops as with on-bad-record = stop?

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.dead-letters-per-hour', '1000', dry_run => true);

-- Expected:
-- | table | name | previous_value | value | outcome |
-- | --- | --- | --- | --- | --- |
-- | demo.flights | table.datalake.dead-letters-per-hour | NULL | 1000 | would_set |
