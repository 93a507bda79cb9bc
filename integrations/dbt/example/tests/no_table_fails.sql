-- Fails if the last round of a table failed.
select table_name, last_error from {{ source('sys', 'lake_tiering_status') }} where status = 'Failed'
