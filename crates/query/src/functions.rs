//! MySQL's functions and operators on top of DataFusion.

pub mod amounts;
mod bounded;
pub mod clock;
pub mod collate;
pub mod column_default;
pub mod convert_charset;
pub mod crypt;
pub mod date;
pub mod date_format;
mod digest;
pub mod encode;
mod evaluated;
pub mod extreme;
pub mod group_concat;
pub mod in_list;
pub mod in_set;
pub mod interval;
pub mod json;
pub mod json_path;
pub mod json_schema;
pub mod json_search;
pub mod json_table;
mod json_text;
pub mod like;
pub mod list;
pub mod math;
pub mod meaning;
pub mod misc;
pub mod nested;
pub mod nested_cast;
pub mod net;
pub mod number;
pub mod once;
pub mod one_row;
pub mod operators;
pub mod password;
pub mod pattern;
pub mod random;
pub mod regexp;
pub mod rounding;
pub mod row;
pub mod shown_text;
pub mod sketch_aggregates;
pub mod sketch_scalars;
pub mod string;
pub mod sum;
pub mod sys;
pub mod typed;
pub mod types;
pub mod udf;
pub mod user_variables;
pub mod variance;
pub mod vector;
pub mod whole;
pub mod wrapping_sum;
pub mod written_dates;
pub mod written_years;
pub mod zero_dates;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, Expr, ScalarUDF};

/// DataFusion's functions that are also kept under `df_` names, because our functions of the same
/// name call them.
const KEPT: [&str; 3] = ["coalesce", "greatest", "least"];

/// All scalar functions by name; ours override DataFusion's.
pub fn scalars() -> &'static HashMap<String, Arc<ScalarUDF>> {
    static ALL: OnceLock<HashMap<String, Arc<ScalarUDF>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = HashMap::new();
        let nested = datafusion_functions_nested::all_default_nested_functions();
        let nested = nested.into_iter().map(bounded::bounded);
        for function in nested.chain(SessionStateDefaults::default_scalar_functions()) {
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

/// Our aggregate of this name, where DataFusion has none or a different one.
pub fn aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    static ALL: OnceLock<Vec<Arc<AggregateUDF>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let extremes = ["min", "max"].into_iter().filter_map(extreme::extreme);
        let ours = extremes.chain([group_concat::group_concat(), sum::sum()]);
        let ours = ours.chain(variance::all()).chain(sketch_aggregates::all());
        ours.map(Arc::new).collect()
    });
    all.iter().find(|function| function.name() == name).cloned()
}

/// The names of scalar functions that statements may call.
pub fn names() -> impl Iterator<Item = &'static str> {
    list::scalars()
}

fn ours() -> impl Iterator<Item = ScalarUDF> {
    [
        typed::all(),
        collate::all(),
        convert_charset::all(),
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
        zero_dates::all(),
        column_default::all(),
        json::all(),
        json_table::all(),
        group_concat::all(),
        misc::all(),
        user_variables::all(),
        net::all(),
        password::all(),
        encode::all(),
        digest::all(),
        crypt::all(),
        amounts::all(),
        one_row::all(),
        whole::all(),
        sketch_scalars::all(),
        nested::all(),
        nested_cast::all(),
    ]
    .into_iter()
    .flatten()
}

/// A call of a scalar function.
///
/// # Panics
/// When there is no function of this name: callers use constant names.
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
