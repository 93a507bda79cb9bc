-- A view reads the system table again each time.
{{ config(materialized='view') }}
select database_name, table_name, status, lag_ms, freshness_ms, next_action
from {{ source('sys', 'lake_tiering_status') }}
where promise = 'broken'
