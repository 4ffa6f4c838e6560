select id, item, price, sold from {{ ref('items') }} where price is not null
