-- Title: Take over a lake table that another pipeline wrote
-- Answers: how does Lakeward continue a lake table that a job of mine wrote until today?
--   Its rows must be those of the log below the stated offsets. A table that was tiered before needs no such call.

CALL fluss.sys.adopt_table('demo.flights', lake_table => 'demo.flights', offsets => map('0', 10), dry_run => true);

-- Expected error:
-- demo.flights was tiered to a lake table before
