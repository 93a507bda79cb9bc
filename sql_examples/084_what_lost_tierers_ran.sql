-- Title: What lost tierers ran
-- Answers: which tierers were lost while they ran a round, when did they take the table, and in which state are these tierers now?
--   The rounds stay in the history; sys.tierers forgets a tierer a day after its last heartbeat.

SELECT r.tierer_id, t.state, t.heartbeat_time, r.table_name, r.round_id, r.started_time, r.finished_time AS given_up_at
FROM fluss.sys.tiering_rounds r
LEFT JOIN fluss.sys.tierers t ON t.tierer_id = r.tierer_id AND t.state <> 'ACTIVE'
WHERE r.error_class = 'TiererLost'
ORDER BY r.started_time DESC;

-- Expected:
-- | tierer_id | state | heartbeat_time | table_name | round_id | started_time | given_up_at |
-- | --- | --- | --- | --- | --- | --- | --- |
