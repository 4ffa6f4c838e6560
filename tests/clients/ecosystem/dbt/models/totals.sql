{{ config(materialized='table', duplicate_key=['id'], distributed_by=['id'], properties={"replication_num": "1"}) }}
select id, item, price * 2 as price from {{ ref('orders') }}
