{#
  dbt-spark compares the schema that it asks for with the namespace that Spark answers. Spark answers without the catalog: `sys` for `fluss.sys`.
  So dbt would miss the sources of `fluss.sys` in catalog.json, and models in a schema such as `lake.reports`. The answer here has the schema as asked for.
#}
{% macro spark__list_relations_without_caching(relation) %}
  {% call statement('list_relations_without_caching', fetch_result=True) -%}
    show table extended in {{ relation.schema }} like '*'
  {% endcall %}
  {% set relations = [] %}
  {% for row in load_result('list_relations_without_caching').table %}
    {% do relations.append([relation.schema, row[1], row[2], row[3]]) %}
  {% endfor %}
  {{ return(relations) }}
{% endmacro %}
