-- Title: Hand over a proof of a table
-- Answers: how do I get a signed proof that every row of a table is in the lake?
--   `archive` is a ZIP file in base64, with a program that checks it. `lakeward prove` writes it into a file.

CALL fluss.sys.prove_table('demo.flights');

-- Expected:
-- | table | lake_snapshot_id | verdict | details | files | rows | readers | fingerprint | archive_sha256 | archive_bytes | archive |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | * | equal | NULL | * | 1000 | * | * | * | * | * |
