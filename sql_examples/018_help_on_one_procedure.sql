-- Title: Help on one procedure
-- Answers: how is a procedure called?

CALL fluss.sys.help(procedure => 'tier_table');

-- Expected:
-- | procedure | parameter | type | required | default | comment |
-- | --- | --- | --- | --- | --- | --- |
-- | tier_table | NULL | NULL | NULL | NULL | Tiers a table now and waits until the lake has caught up. |
-- | tier_table | table | STRING | true | NULL | * |
-- | tier_table | wait | BOOLEAN | false | true | * |
-- | tier_table | timeout_ms | BIGINT | false | 300000 | * |
-- | tier_table | dry_run | BOOLEAN | false | false | * |
-- | tier_table | idempotency_key | STRING | false | NULL | * |
