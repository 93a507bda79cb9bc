-- Title: An action that is none
-- Answers: what can I say about a lake table that others changed?

CALL fluss.sys.reconcile_lake('demo.weather', 'forget');

-- Expected error:
-- must be one of adopt, accept, retier
