-- Title: Remove duplicate rows from the lake
-- Answers: how do I remove rows that another tiering service committed a second time?
--   Only where one works on the same tables, as on a Fluss cluster with `--fluss-mode shared`: of rows with the same offset one stays.

CALL fluss.sys.reconcile_lake(table => 'demo.flights', action => 'deduplicate');

-- Expected error:
-- no other tiering service works on the cluster of demo.flights
