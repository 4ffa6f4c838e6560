//! The tables of TPC-H.

use super::{Kind, Table};

const REGION: &[(&str, Kind)] =
    &[("r_regionkey", Kind::BigInt), ("r_name", Kind::Char(25)), ("r_comment", Kind::Varchar(152))];

const NATION: &[(&str, Kind)] = &[
    ("n_nationkey", Kind::BigInt),
    ("n_name", Kind::Char(25)),
    ("n_regionkey", Kind::BigInt),
    ("n_comment", Kind::Varchar(152)),
];

const PART: &[(&str, Kind)] = &[
    ("p_partkey", Kind::BigInt),
    ("p_name", Kind::Varchar(55)),
    ("p_mfgr", Kind::Char(25)),
    ("p_brand", Kind::Char(10)),
    ("p_type", Kind::Varchar(25)),
    ("p_size", Kind::Int),
    ("p_container", Kind::Char(10)),
    ("p_retailprice", Kind::Decimal),
    ("p_comment", Kind::Varchar(23)),
];

const SUPPLIER: &[(&str, Kind)] = &[
    ("s_suppkey", Kind::BigInt),
    ("s_name", Kind::Char(25)),
    ("s_address", Kind::Varchar(40)),
    ("s_nationkey", Kind::BigInt),
    ("s_phone", Kind::Char(15)),
    ("s_acctbal", Kind::Decimal),
    ("s_comment", Kind::Varchar(101)),
];

const PARTSUPP: &[(&str, Kind)] = &[
    ("ps_partkey", Kind::BigInt),
    ("ps_suppkey", Kind::BigInt),
    ("ps_availqty", Kind::Int),
    ("ps_supplycost", Kind::Decimal),
    ("ps_comment", Kind::Varchar(199)),
];

const CUSTOMER: &[(&str, Kind)] = &[
    ("c_custkey", Kind::BigInt),
    ("c_name", Kind::Varchar(25)),
    ("c_address", Kind::Varchar(40)),
    ("c_nationkey", Kind::BigInt),
    ("c_phone", Kind::Char(15)),
    ("c_acctbal", Kind::Decimal),
    ("c_mktsegment", Kind::Char(10)),
    ("c_comment", Kind::Varchar(117)),
];

const ORDERS: &[(&str, Kind)] = &[
    ("o_orderkey", Kind::BigInt),
    ("o_custkey", Kind::BigInt),
    ("o_orderstatus", Kind::Char(1)),
    ("o_totalprice", Kind::Decimal),
    ("o_orderdate", Kind::Date),
    ("o_orderpriority", Kind::Char(15)),
    ("o_clerk", Kind::Char(15)),
    ("o_shippriority", Kind::Int),
    ("o_comment", Kind::Varchar(79)),
];

/// All eight tables, small ones first.
pub fn all() -> Vec<Table> {
    let keyed = |name: &str, columns: &'static [(&'static str, Kind)]| Table {
        name: name.to_owned(),
        columns,
        key_columns: 1,
        distributed_by: columns[0].0,
        buckets: 2,
        indexes: &[],
        partitions: 1,
        hint: "",
        names_columns: false,
    };
    vec![
        keyed("region", REGION),
        keyed("nation", NATION),
        keyed("supplier", SUPPLIER),
        keyed("part", PART),
        keyed("customer", CUSTOMER),
        keyed("partsupp", PARTSUPP),
        keyed("orders", ORDERS),
        Table { buckets: 2, ..super::lineitem() },
    ]
}
