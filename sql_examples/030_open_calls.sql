-- Title: CALLs under way
-- Answers: who waits for a procedure now, and since when?
--   A CALL that was interrupted, or whose client died, is gone from here; the round it asked for goes on.

SELECT call_id, procedure_name, caller, running_ms
FROM fluss.sys.open_calls
ORDER BY call_id;

-- Expected:
-- | call_id | procedure_name | caller | running_ms |
-- | --- | --- | --- | --- |
