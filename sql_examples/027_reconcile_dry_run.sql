-- Title: What a reconciliation would do
-- Answers: is there anything to reconcile in a lake table that other programs may have changed?

CALL fluss.sys.reconcile_lake(table => 'demo.flights', action => 'accept', dry_run => true);

-- Expected:
-- | table | action | round_id | lake_snapshot_id | outcome | records_left_out | records_removed |
-- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | accept | NULL | * | not_needed | 0 | NULL |
