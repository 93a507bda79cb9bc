-- Title: Cancel a round
-- Answers: how do I stop a running round?
--   `round_id` is in `sys.lake_tiering_status`. A round whose commit was granted is too late to cancel.

CALL fluss.sys.cancel_tiering('no-such-round', message => 'its cluster is going down');

-- Expected:
-- | round_id | state | outcome |
-- | --- | --- | --- |
-- | no-such-round | NULL | unknown |
