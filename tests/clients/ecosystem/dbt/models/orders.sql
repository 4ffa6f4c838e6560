select 1 as id, 'tea' as item, cast(3.5 as decimal(8,2)) as price union all select 2, 'cake', 4.25
