-- Title: Which policies are in force
-- Answers: who may do what, and is the policy file as it is now in force?

SELECT policy_id, effect, principal, privileges, resource
FROM fluss.sys.grants;

-- Expected:
-- | policy_id | effect | principal | privileges | resource |
-- | --- | --- | --- | --- | --- |
