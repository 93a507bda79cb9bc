-- Title: Delete files that no snapshot names
-- Answers: which files of a lake table would be deleted, and why do others stay?
--   The service does this by itself. `older_than` is at least an hour ago.

CALL fluss.sys.remove_orphan_files('demo.flights', dry_run => true);

-- Expected:
-- | table | outcome | orphan_file_location | reason | files | bytes |
-- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | would_remove | NULL | NULL | * | * |
-- | ... |
