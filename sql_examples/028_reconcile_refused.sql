-- Title: An unknown action of reconcile_lake
-- Answers: which actions are there for a lake table that another program changed?

CALL fluss.sys.reconcile_lake('demo.weather', 'forget');

-- Expected error:
-- must be one of adopt, accept, retier
