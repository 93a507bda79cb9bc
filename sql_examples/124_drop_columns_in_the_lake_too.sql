-- Title: Drop columns in the lake, too
-- Answers: how does ALTER TABLE ... DROP COLUMN also drop the column of the lake table?
--   The default is keep: the lake table keeps the column, and it is NULL in new rows.

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.on-drop-column', 'drop', dry_run => true);

-- Expected:
-- | table | name | previous_value | value | outcome |
-- | --- | --- | --- | --- | --- |
-- | demo.flights | table.datalake.on-drop-column | NULL | drop | would_set |
