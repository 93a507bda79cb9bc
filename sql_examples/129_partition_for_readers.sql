-- Title: Partition a lake table for its readers
-- Answers: how do readers of the lake skip the files of other ids?
--   In a log table of the embedded cluster with the layout clean, each new file then has the rows of one bucket of ids.

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.partition', 'bucket(8, id)', dry_run => true);

-- Expected error:
-- demo.flights has the layout system-columns, in which Fluss fixes the partition by bucket and the order by offset
