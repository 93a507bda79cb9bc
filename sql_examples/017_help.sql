-- Title: Help on everything
-- Answers: which procedures are there, with all their parameters?

CALL fluss.sys.help();

-- Expected:
-- | procedure | parameter | type | required | default | comment |
-- | --- | --- | --- | --- | --- | --- |
-- | help | NULL | NULL | NULL | NULL | Explains the procedures and their parameters. |
-- | help | procedure | STRING | false | NULL | The procedure to explain; NULL = all of them. |
-- | ... |
