-- Title: Decide that records stay out of the lake
-- Answers: how do records that the lake need not have stop waiting?

CALL fluss.sys.discard_dead_letters('demo.flights', reason => 'test rows', dry_run => true);

-- Expected:
-- | table | outcome | round_id | lake_snapshot_id | records_discarded |
-- | --- | --- | --- | --- | --- |
-- | demo.flights | nothing_to_discard | NULL | NULL | 0 |
