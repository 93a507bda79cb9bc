-- Title: Change the freshness of a table
-- Answers: what would change if the freshness of this table were a minute? (Without dry_run it changes. NULL sets the default.)

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.freshness', '1 min', dry_run => true);

-- Expected:
-- | table | name | previous_value | value | outcome |
-- | --- | --- | --- | --- | --- |
-- | demo.flights | table.datalake.freshness | * | 1 min | would_set |
