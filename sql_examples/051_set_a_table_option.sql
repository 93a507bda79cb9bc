-- Title: Change how fresh a lake copy has to be
-- Answers: what would change if this table promised its lake copy within a minute? (Without dry_run it does; a value of NULL is the default.)

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.freshness', '1 min', dry_run => true);

-- Expected:
-- | table | name | previous_value | value | outcome |
-- | --- | --- | --- | --- | --- |
-- | demo.flights | table.datalake.freshness | * | 1 min | would_set |
