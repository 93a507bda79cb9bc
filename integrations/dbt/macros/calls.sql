{#
  Brings source tables up to date in the lake before models read them. For `on-run-start`, where it does nothing for commands that run no model,
  and for `dbt run-operation`.

  tables: names such as 'sales.orders', as in `CALL sys.tier_table`. timeout_ms: how long to wait for each table.
  The run fails if a table cannot be tiered, or is not tiered in time.
#}
{% macro tier_before_run(tables, timeout_ms=300000) %}
  {% if execute and flags.WHICH in ('run', 'build', 'snapshot', 'retry', 'run-operation') %}
    {% for table in tables %}
      {% set round = run_query(lakeward._call('tier_table', table, timeout_ms))[0] %}
      {% if round['state'] not in ('SUCCEEDED', 'EMPTY') %}
        {{ exceptions.raise_compiler_error("tier_before_run: the round of " ~ table ~ " is " ~ round['state'] ~ " after " ~ timeout_ms ~ " ms") }}
      {% endif %}
      {{ log("tiered " ~ table ~ ": " ~ round['state'] ~ ", " ~ round['records'] ~ " records", info=True) }}
    {% endfor %}
  {% endif %}
{% endmacro %}

{#
  Waits until the lake has all rows of the table that were written before the call. Asks for no round: the schedule of the table decides.
  For `on-run-start`, `pre-hook` or `dbt run-operation`. It fails if the rows are not in the lake in time.
#}
{% macro wait_until_fresh(table, timeout_ms=300000) %}
  {% if execute %}
    {% set answer = run_query(lakeward._call('wait_for_tiering', table, timeout_ms))[0] %}
    {% if not answer['reached'] %}
      {{ exceptions.raise_compiler_error("wait_until_fresh: rows of " ~ table ~ " are not in the lake after " ~ timeout_ms ~ " ms") }}
    {% endif %}
    {{ log(table ~ " is complete in the lake after " ~ answer['waited_ms'] ~ " ms", info=True) }}
  {% endif %}
{% endmacro %}

{% macro _call(procedure, table, timeout_ms) %}
  {{ return("CALL " ~ lakeward._sys() ~ "." ~ procedure ~ "(table => '" ~ (table | replace("'", "\\'")) ~ "', timeout_ms => " ~ timeout_ms ~ ")") }}
{% endmacro %}

{#  The schema of system tables and procedures. The variable `lakeward_catalog` names the catalog of Lakeward in Spark. #}
{% macro _sys() %}
  {{ return(var('lakeward_catalog', 'fluss') ~ ".sys") }}
{% endmacro %}
