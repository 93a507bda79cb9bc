-- Title: Which policies are in force
-- Answers: who may do what, and is the current policy file in force?

SELECT policy_id, effect, principal, privileges, resource
FROM fluss.sys.grants;

-- Expected:
-- | policy_id | effect | principal | privileges | resource |
-- | --- | --- | --- | --- | --- |
