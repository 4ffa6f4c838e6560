{{ config(materialized='table') }}
select id, item, price * 2 as price from {{ ref('orders') }}
