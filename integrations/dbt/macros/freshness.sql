{# For `loaded_at_query` of a source of the store: when rows last reached the lake. #}
{% macro last_tiered_time(relation) %}
  select last_tiered_time {{ lakeward._status_of(relation) }}
{% endmacro %}

{# For `loaded_at_query` of a source of the store: the time up to which the lake has all rows. #}
{% macro complete_until(relation) %}
  select timestamp_millis(unix_millis(current_timestamp()) - lag_ms) {{ lakeward._status_of(relation) }}
{% endmacro %}

{# The row of a table or of its lake copy, such as `orders$lake`. #}
{% macro _status_of(relation) %}
  from {{ lakeward._sys() }}.lake_tiering_status
  where database_name = '{{ relation.schema.split(".") | last }}' and table_name = '{{ relation.identifier.split("$") | first }}'
{% endmacro %}
