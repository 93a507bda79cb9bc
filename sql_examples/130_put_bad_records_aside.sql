-- Title: Put records aside that the lake cannot hold
-- Answers: how does a bucket continue when the lake cannot hold one of its records?
--   The default is stop: the bucket stops before the record.

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.on-bad-record', 'dead-letter', dry_run => true);

-- Expected:
-- | table | name | previous_value | value | outcome |
-- | --- | --- | --- | --- | --- |
-- | demo.flights | table.datalake.on-bad-record | NULL | dead-letter | would_set |
