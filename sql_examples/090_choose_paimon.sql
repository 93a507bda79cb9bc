-- Title: Make the lake table a Paimon one
-- Answers: how do I tier a table that has no lake copy yet into Paimon? (Without dry_run its first round does.)

CALL fluss.sys.set_table_option('demo.planes', 'table.datalake.format', 'paimon', dry_run => true);

-- Expected:
-- | table | name | previous_value | value | outcome |
-- | --- | --- | --- | --- | --- |
-- | demo.planes | table.datalake.format | NULL | paimon | would_set |
