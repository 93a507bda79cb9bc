-- Title: Merge manifests now
-- Answers: how do I make a scan cheaper that reads many manifests?

CALL fluss.sys.rewrite_manifests('demo.flights', dry_run => true);

-- Expected:
-- | table | outcome | reason | round_id | manifests_before | manifests_after |
-- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | PLANNED | NULL | NULL | * | NULL |
