-- Title: Sort the rows of lake files
-- Answers: how do readers of the lake find the rows of one key faster?
--   In a log table of the embedded cluster with the layout clean, the rows within each new file are then in this order.

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.sort', 'id DESC', dry_run => true);

-- Expected error:
-- demo.flights has the layout system-columns, in which Fluss fixes the partition by bucket and the order by offset
