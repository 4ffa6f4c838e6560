//! What functions and operators mean in MySQL, on DataFusion.

pub mod clock;
pub mod date;
pub mod date_format;
pub mod encode;
pub mod extreme;
pub mod group_concat;
pub mod in_list;
pub mod in_set;
pub mod interval;
pub mod json;
pub mod json_path;
pub mod json_search;
pub mod like;
pub mod list;
pub mod math;
pub mod meaning;
pub mod misc;
pub mod net;
pub mod number;
mod once;
pub mod operators;
pub mod regexp;
pub mod rounding;
pub mod row;
pub mod string;
pub mod sum;
pub mod typed;
pub mod udf;
pub mod variance;
pub mod vector;
pub mod whole;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, Expr, ScalarUDF};

/// Names of DataFusion's functions that ours of the same name are made of.
const KEPT: [&str; 3] = ["coalesce", "greatest", "least"];

/// Every scalar function by name: DataFusion's, and ours in place of those of the same name.
pub fn scalars() -> &'static HashMap<String, Arc<ScalarUDF>> {
    static ALL: OnceLock<HashMap<String, Arc<ScalarUDF>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = HashMap::new();
        for function in SessionStateDefaults::default_scalar_functions() {
            if KEPT.contains(&function.name()) {
                all.insert(format!("df_{}", function.name()), Arc::clone(&function));
            }
            for name in function.aliases() {
                all.insert(name.clone(), Arc::clone(&function));
            }
            all.insert(function.name().to_owned(), function);
        }
        for function in ours() {
            all.insert(function.name().to_owned(), Arc::new(function));
        }
        for (alias, name) in misc::ALIASES {
            let function = Arc::clone(&all[*name]);
            all.insert((*alias).to_owned(), function);
        }
        all
    })
}

/// The aggregate of this name that DataFusion has not, or has otherwise.
pub fn aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    static ALL: OnceLock<Vec<Arc<AggregateUDF>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let extremes = ["min", "max"].into_iter().filter_map(extreme::extreme);
        let ours = extremes.chain([group_concat::group_concat(), sum::sum()]);
        ours.chain(variance::all()).map(Arc::new).collect()
    });
    all.iter().find(|function| function.name() == name).cloned()
}

/// The functions of the values of a row that statements may call, by name.
pub fn names() -> impl Iterator<Item = &'static str> {
    list::scalars()
}

fn ours() -> impl Iterator<Item = ScalarUDF> {
    [
        typed::all(),
        number::all(),
        rounding::all(),
        math::all(),
        string::all(),
        regexp::all(),
        like::all(),
        interval::all(),
        date::all(),
        clock::all(),
        date_format::all(),
        json::all(),
        group_concat::all(),
        misc::all(),
        net::all(),
        encode::all(),
        whole::all(),
    ]
    .into_iter()
    .flatten()
}

/// A call of the function of this name.
///
/// # Panics
/// When there is none: callers name functions of this crate.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let function = scalars().get(name).unwrap_or_else(|| panic!("function '{name}' exists"));
    function.call(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names = ours().map(|function| function.name().to_owned()).collect::<Vec<_>>();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
