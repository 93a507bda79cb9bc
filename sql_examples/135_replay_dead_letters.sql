-- Title: Give the lake records that were put aside
-- Answers: how do dead letters become rows after their cause is gone?
--   Each record becomes a row once. A record that the lake still cannot hold keeps waiting.

CALL fluss.sys.replay_dead_letters('demo.flights', 'bucket_id = 0', dry_run => true);

-- Expected:
-- | table | outcome | round_id | lake_snapshot_id | rows_replayed | rows_superseded | rows_refused | refusal | refusals |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | nothing_to_replay | NULL | NULL | 0 | 0 | 0 | NULL | * |
