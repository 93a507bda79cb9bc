-- Title: Why was this table late this morning?
-- Answers: which promises of a table were broken in the last twelve hours, why, what failed meanwhile, what did users do, and what helps?
--   A promise that is broken now has no reached_at. Here for weather, which fails; ask for your table.

SELECT
  late.table_name,
  late.deadline,
  late.reached_at,
  late.missed_by_ms,
  late.explanation AS reason,
  max_by(concat(failures.error_class, ': ', failures.message), failures.last_seen) AS error,
  concat_ws(', ', sort_array(collect_set(concat(acts.occurred_at, ' ', acts.principal, ' ', acts.event_type, ': ', acts.message)))) AS acts,
  coalesce(CASE WHEN late.reached_at IS NULL THEN max(status.next_action) END, max_by(failures.hint, failures.last_seen), 'nothing') AS what_helps
FROM fluss.sys.freshness_misses late
LEFT JOIN fluss.sys.lake_tiering_status status
  ON status.database_name = late.database_name AND status.table_name = late.table_name
LEFT JOIN fluss.sys.tiering_errors failures
  ON failures.database_name = late.database_name AND failures.table_name = late.table_name AND failures.last_seen >= late.deadline
    AND (late.reached_at IS NULL OR failures.first_seen < late.reached_at)
LEFT JOIN fluss.sys.tiering_events acts
  ON acts.database_name = late.database_name AND acts.table_name = late.table_name AND acts.principal IS NOT NULL
    AND acts.occurred_at >= late.deadline - INTERVAL 1 HOUR AND (late.reached_at IS NULL OR acts.occurred_at < late.reached_at)
WHERE late.database_name = 'demo' AND late.table_name = 'weather'
  AND (late.reached_at IS NULL OR late.reached_at > current_timestamp() - INTERVAL 12 HOURS)
GROUP BY late.table_name, late.deadline, late.reached_at, late.missed_by_ms, late.explanation
ORDER BY late.deadline DESC;

-- Expected:
-- | table_name | deadline | reached_at | missed_by_ms | reason | error | acts | what_helps |
-- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | weather | * | NULL | * | * | * | * | * |
