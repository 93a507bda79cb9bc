-- Title: Make the lake table a Paimon one
-- Answers: may this table, which has no lake copy yet, be tiered into Paimon? (Without dry_run it will be, from its first round on.)

CALL fluss.sys.set_table_option('demo.planes', 'table.datalake.format', 'paimon', dry_run => true);

-- Expected:
-- | table | name | previous_value | value | outcome |
-- | --- | --- | --- | --- | --- |
-- | demo.planes | table.datalake.format | NULL | paimon | would_set |
