{% snapshot kept %}
{{ config(target_schema='client_dbt_mysql', unique_key='id', strategy='check', check_cols=['item', 'price']) }}
select * from {{ ref('totals') }}
{% endsnapshot %}
