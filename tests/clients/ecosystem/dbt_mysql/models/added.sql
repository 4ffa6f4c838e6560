{{ config(materialized='incremental', unique_key='id') }}
select id, item, price from {{ ref('totals') }}
{% if is_incremental() %} where id > 1 {% endif %}
