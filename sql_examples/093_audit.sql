-- Title: Who was refused
-- Answers: which calls did the policies refuse, who made them, and which objects did they name?

SELECT principal, action, object, error_class
FROM fluss.sys.audit
WHERE outcome = 'REFUSED';

-- Expected:
-- | principal | action | object | error_class |
-- | --- | --- | --- | --- |
