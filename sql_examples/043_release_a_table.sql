-- Title: Let go of one table's KV snapshots
-- Answers: what does a release say of a lease that is not there?

CALL fluss.sys.release_kv_snapshot_lease(lease_id => 'my-lease', table => 'demo.flights');

-- Expected error:
-- there is no lease 'my-lease'
