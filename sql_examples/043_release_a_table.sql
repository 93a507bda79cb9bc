-- Title: Release the KV snapshots of one table
-- Answers: what does a release answer for an unknown lease?

CALL fluss.sys.release_kv_snapshot_lease(lease_id => 'my-lease', table => 'demo.flights');

-- Expected error:
-- there is no lease 'my-lease'
