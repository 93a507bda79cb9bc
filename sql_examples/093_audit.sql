-- Title: Who was refused
-- Answers: which calls did the policies refuse, whose were they, and what were they about?

SELECT principal, action, object, error_class
FROM fluss.sys.audit
WHERE outcome = 'REFUSED';

-- Expected:
-- | principal | action | object | error_class |
-- | --- | --- | --- | --- |
