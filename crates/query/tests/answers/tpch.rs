//! The 22 queries of TPC-H run unchanged.

use std::path::Path;

use crate::common::Bench;
use arrow::array::RecordBatch;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

const SCALE: f64 = 0.01;

fn tpch() -> Bench {
    let mut bench = Bench::new();
    let mut add = |name: &str, batches: Vec<RecordBatch>| bench.add(name, batches);
    add(
        "nation",
        NationArrow::new(NationGenerator::new(SCALE, 1, 1)).collect::<Result<_, _>>().unwrap(),
    );
    add(
        "region",
        RegionArrow::new(RegionGenerator::new(SCALE, 1, 1)).collect::<Result<_, _>>().unwrap(),
    );
    add("part", PartArrow::new(PartGenerator::new(SCALE, 1, 1)).collect::<Result<_, _>>().unwrap());
    add(
        "supplier",
        SupplierArrow::new(SupplierGenerator::new(SCALE, 1, 1)).collect::<Result<_, _>>().unwrap(),
    );
    add(
        "partsupp",
        PartSuppArrow::new(PartSuppGenerator::new(SCALE, 1, 1)).collect::<Result<_, _>>().unwrap(),
    );
    add(
        "customer",
        CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1)).collect::<Result<_, _>>().unwrap(),
    );
    add(
        "orders",
        OrderArrow::new(OrderGenerator::new(SCALE, 1, 1)).collect::<Result<_, _>>().unwrap(),
    );
    add(
        "lineitem",
        LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1)).collect::<Result<_, _>>().unwrap(),
    );
    bench
}

#[test]
#[allow(clippy::disallowed_methods)]
fn all_queries_answer() {
    let bench = tpch();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tpch");
    let mut failed = Vec::new();
    // Result rows at scale factor 0.01; contents are compared with another engine's at a larger
    // one.
    let rows = [4, 4, 10, 5, 5, 1, 4, 2, 173, 20, 359, 2, 33, 1, 1, 296, 1, 2, 1, 1, 1, 7];
    for (at, wanted) in rows.into_iter().enumerate() {
        let sql = std::fs::read_to_string(dir.join(format!("q{:02}.sql", at + 1))).unwrap();
        match bench.query(&sql) {
            Ok(answer) if answer.len() == wanted => {}
            Ok(answer) => {
                failed.push(format!("q{}: {} rows, wanted {wanted}", at + 1, answer.len()))
            }
            Err(error) => failed.push(format!("q{}: {error:?}", at + 1)),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_first_query_answers_exactly() {
    let bench = tpch();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tpch");
    let sql = std::fs::read_to_string(dir.join("q01.sql")).unwrap();
    let answer = bench.query(&sql).unwrap();
    assert_eq!(answer[0][..3], ["A", "F", "380456.00"]);
    assert_eq!(answer[0][9], "14876");
}
