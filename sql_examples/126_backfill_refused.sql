-- Title: Copy older rows into a lake table
-- Answers: how do I add rows to a lake table that are older than the log?
--   Once `archive.flights` exists in the lake's catalog, its rows are copied in one commit, which moves no offset.

CALL fluss.sys.backfill_table('demo.flights', source_table => 'archive.flights', dry_run => true);

-- Expected error:
-- cannot be backfilled by this version: its lake table has system columns
