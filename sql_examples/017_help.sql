-- Title: Help on everything
-- Answers: which procedures are there, with all their parameters?

CALL fluss.sys.help();

-- Expected:
-- | procedure | parameter | type | required | default | comment |
-- | --- | --- | --- | --- | --- | --- |
-- | acquire_kv_snapshot_lease | NULL | NULL | NULL | NULL | Keeps the newest KV snapshots of a table alive. |
-- | acquire_kv_snapshot_lease | lease_id | STRING | true | NULL | Identifier of the lease, chosen by its owner. |
-- | ... |
