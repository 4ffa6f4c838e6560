//! The functions that statements may call, by their MySQL names. Other functions known to
//! DataFusion and internal ones that the rewriter uses cannot be called.
//!
//! `docs/functions.md` is generated from these lists, and a test checks that it is up to date.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::OnceLock;

use freshet_base::{Result, bail};

const MANY: usize = usize::MAX;

/// A function's name, and its minimum and maximum number of arguments.
type Callable = (&'static str, usize, usize);

/// Where a function may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// On the values of a row.
    Scalar,
    /// As an aggregate of a group or over a window.
    Aggregate,
    /// Over a window only.
    Window,
}

/// What a call must look like.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kind: Kind,
    arguments: (usize, usize),
}

/// A section of the documentation.
struct Family {
    title: &'static str,
    kind: Kind,
    functions: &'static [Callable],
}

const FAMILIES: &[Family] = &[
    Family { title: "Conditions", kind: Kind::Scalar, functions: CONDITIONS },
    Family { title: "Numbers", kind: Kind::Scalar, functions: NUMBERS },
    Family { title: "Text and bytes", kind: Kind::Scalar, functions: TEXT },
    Family { title: "Dates and times", kind: Kind::Scalar, functions: DATES },
    Family { title: "JSON", kind: Kind::Scalar, functions: JSON },
    Family { title: "Arrays, maps and structs", kind: Kind::Scalar, functions: NESTED },
    Family { title: "Addresses and identifiers", kind: Kind::Scalar, functions: ADDRESSES },
    Family { title: "The session and the server", kind: Kind::Scalar, functions: SESSION },
    Family { title: "BITMAP and HLL", kind: Kind::Scalar, functions: SKETCHES },
    Family { title: "Aggregates", kind: Kind::Aggregate, functions: AGGREGATES },
    Family { title: "Windows", kind: Kind::Window, functions: WINDOWS },
];

const CONDITIONS: &[Callable] = &[
    ("coalesce", 1, MANY),
    ("greatest", 2, MANY),
    ("if", 3, 3),
    ("ifnull", 2, 2),
    ("interval", 2, MANY),
    ("isnull", 1, 1),
    ("least", 2, MANY),
    ("nullif", 2, 2),
    ("nvl", 2, 2),
];

const NUMBERS: &[Callable] = &[
    ("abs", 1, 1),
    ("acos", 1, 1),
    ("asin", 1, 1),
    ("atan", 1, 2),
    ("atan2", 1, 2),
    ("bin", 1, 1),
    ("bit_count", 1, 1),
    ("ceil", 1, 1),
    ("ceiling", 1, 1),
    ("conv", 3, 3),
    ("cos", 1, 1),
    ("cot", 1, 1),
    ("crc32", 1, 1),
    ("degrees", 1, 1),
    ("exp", 1, 1),
    ("floor", 1, 1),
    ("format", 2, 3),
    ("format_bytes", 1, 1),
    ("format_pico_time", 1, 1),
    ("ln", 1, 1),
    ("log", 1, 2),
    ("log10", 1, 1),
    ("log2", 1, 1),
    ("mod", 2, 2),
    ("oct", 1, 1),
    ("pi", 0, 0),
    ("pow", 2, 2),
    ("power", 2, 2),
    ("radians", 1, 1),
    ("rand", 0, 1),
    ("round", 1, 2),
    ("sign", 1, 1),
    ("sin", 1, 1),
    ("sqrt", 1, 1),
    ("tan", 1, 1),
    ("truncate", 2, 2),
];

const TEXT: &[Callable] = &[
    ("aes_decrypt", 2, 3),
    ("aes_encrypt", 2, 3),
    ("ascii", 1, 1),
    ("bit_length", 1, 1),
    ("char", 1, MANY),
    ("char_length", 1, 1),
    ("character_length", 1, 1),
    ("compress", 1, 1),
    ("concat", 1, MANY),
    ("concat_ws", 2, MANY),
    ("elt", 2, MANY),
    ("export_set", 3, 5),
    ("field", 2, MANY),
    ("find_in_set", 2, 2),
    ("from_base64", 1, 1),
    ("hex", 1, 1),
    ("insert", 4, 4),
    ("instr", 2, 2),
    ("lcase", 1, 1),
    ("left", 2, 2),
    ("length", 1, 1),
    ("load_file", 1, 1),
    ("locate", 2, 3),
    ("lower", 1, 1),
    ("lpad", 2, 3),
    ("ltrim", 1, 1),
    ("make_set", 2, MANY),
    ("md5", 1, 1),
    ("mid", 2, 3),
    ("octet_length", 1, 1),
    ("ord", 1, 1),
    ("position", 2, 2),
    ("quote", 1, 1),
    ("random_bytes", 1, 1),
    ("regexp_instr", 2, 6),
    ("regexp_like", 2, 3),
    ("regexp_replace", 3, 6),
    ("regexp_substr", 2, 5),
    ("repeat", 2, 2),
    ("replace", 3, 3),
    ("reverse", 1, 1),
    ("right", 2, 2),
    ("rpad", 2, 3),
    ("rtrim", 1, 1),
    ("sha", 1, 1),
    ("sha1", 1, 1),
    ("sha2", 2, 2),
    ("soundex", 1, 1),
    ("space", 1, 1),
    ("statement_digest", 1, 1),
    ("statement_digest_text", 1, 1),
    ("strcmp", 2, 2),
    ("substr", 2, 3),
    ("substring", 2, 3),
    ("substring_index", 3, 3),
    ("to_base64", 1, 1),
    ("trim", 1, 1),
    ("ucase", 1, 1),
    ("uncompress", 1, 1),
    ("uncompressed_length", 1, 1),
    ("unhex", 1, 1),
    ("upper", 1, 1),
    ("weight_string", 1, 1),
];

const DATES: &[Callable] = &[
    ("adddate", 2, 2),
    ("addtime", 2, 2),
    ("convert_tz", 3, 3),
    ("curdate", 0, 0),
    ("current_date", 0, 0),
    ("current_time", 0, 1),
    ("current_timestamp", 0, 1),
    ("curtime", 0, 1),
    ("date", 1, 1),
    ("date_add", 2, 2),
    ("date_format", 2, 2),
    ("date_sub", 2, 2),
    ("date_trunc", 2, 2),
    ("datediff", 2, 2),
    ("day", 1, 1),
    ("dayname", 1, 1),
    ("dayofmonth", 1, 1),
    ("dayofweek", 1, 1),
    ("dayofyear", 1, 1),
    ("extract", 2, 2),
    ("from_days", 1, 1),
    ("from_unixtime", 1, 2),
    ("get_format", 2, 2),
    ("hour", 1, 1),
    ("last_day", 1, 1),
    ("localtime", 0, 1),
    ("localtimestamp", 0, 1),
    ("makedate", 2, 2),
    ("maketime", 3, 3),
    ("microsecond", 1, 1),
    ("minute", 1, 1),
    ("month", 1, 1),
    ("monthname", 1, 1),
    ("now", 0, 1),
    ("period_add", 2, 2),
    ("period_diff", 2, 2),
    ("quarter", 1, 1),
    ("sec_to_time", 1, 1),
    ("second", 1, 1),
    ("str_to_date", 2, 2),
    ("subdate", 2, 2),
    ("subtime", 2, 2),
    ("sysdate", 0, 1),
    ("time", 1, 1),
    ("time_format", 2, 2),
    ("time_to_sec", 1, 1),
    ("timediff", 2, 2),
    ("timestamp", 1, 2),
    ("timestampadd", 3, 3),
    ("timestampdiff", 3, 3),
    ("to_date", 1, 1),
    ("to_days", 1, 1),
    ("to_seconds", 1, 1),
    ("unix_timestamp", 0, 1),
    ("utc_date", 0, 0),
    ("utc_time", 0, 1),
    ("utc_timestamp", 0, 1),
    ("week", 1, 2),
    ("weekday", 1, 1),
    ("weekofyear", 1, 1),
    ("year", 1, 1),
    ("yearweek", 1, 2),
];

const JSON: &[Callable] = &[
    ("json_array", 0, MANY),
    ("json_array_append", 3, MANY),
    ("json_array_insert", 3, MANY),
    ("json_contains", 2, 3),
    ("json_contains_path", 3, MANY),
    ("json_depth", 1, 1),
    ("json_extract", 2, MANY),
    ("json_insert", 3, MANY),
    ("json_keys", 1, 2),
    ("json_length", 1, 2),
    ("json_merge", 2, MANY),
    ("json_merge_patch", 2, MANY),
    ("json_merge_preserve", 2, MANY),
    ("json_object", 0, MANY),
    ("json_overlaps", 2, 2),
    ("json_pretty", 1, 1),
    ("json_quote", 1, 1),
    ("json_remove", 2, MANY),
    ("json_replace", 3, MANY),
    ("json_schema_valid", 2, 2),
    ("json_schema_validation_report", 2, 2),
    ("json_search", 3, MANY),
    ("json_set", 3, MANY),
    ("json_storage_free", 1, 1),
    ("json_storage_size", 1, 1),
    ("json_type", 1, 1),
    ("json_unquote", 1, 1),
    ("json_valid", 1, 1),
    ("json_value", 2, 2),
    ("to_json", 1, 1),
];

const NESTED: &[Callable] = &[
    ("array", 0, MANY),
    ("array_avg", 1, 1),
    ("array_contains", 2, 2),
    ("array_distinct", 1, 1),
    ("array_except", 2, 2),
    ("array_intersect", 2, 2),
    ("array_join", 2, 3),
    ("array_max", 1, 1),
    ("array_min", 1, 1),
    ("array_position", 2, 2),
    ("array_reverse", 1, 1),
    ("array_size", 1, 1),
    ("array_slice", 2, 3),
    ("array_sort", 1, 1),
    ("array_sum", 1, 1),
    ("array_union", 2, 2),
    ("arrays_overlap", 2, 2),
    ("cardinality", 1, 1),
    ("element_at", 2, 2),
    ("explode", 1, 1),
    ("explode_map", 1, 1),
    ("explode_map_outer", 1, 1),
    ("explode_outer", 1, 1),
    ("map", 0, MANY),
    ("map_contains_key", 2, 2),
    ("map_contains_value", 2, 2),
    ("map_keys", 1, 1),
    ("map_values", 1, 1),
    ("named_struct", 2, MANY),
    ("posexplode", 1, 1),
    ("posexplode_outer", 1, 1),
    ("size", 1, 1),
    ("struct", 1, MANY),
    ("struct_element", 2, 2),
];

const ADDRESSES: &[Callable] = &[
    ("bin_to_uuid", 1, 2),
    ("inet6_aton", 1, 1),
    ("inet6_ntoa", 1, 1),
    ("inet_aton", 1, 1),
    ("inet_ntoa", 1, 1),
    ("is_ipv4", 1, 1),
    ("is_ipv4_compat", 1, 1),
    ("is_ipv4_mapped", 1, 1),
    ("is_ipv6", 1, 1),
    ("is_uuid", 1, 1),
    ("uuid", 0, 0),
    ("uuid_short", 0, 0),
    ("uuid_to_bin", 1, 2),
];

const SESSION: &[Callable] = &[
    ("benchmark", 2, 2),
    ("charset", 1, 1),
    ("coercibility", 1, 1),
    ("collation", 1, 1),
    ("connection_id", 0, 0),
    ("current_role", 0, 0),
    ("current_user", 0, 0),
    ("database", 0, 0),
    ("default", 1, 1),
    ("found_rows", 0, 0),
    ("get_lock", 2, 2),
    ("is_free_lock", 1, 1),
    ("is_used_lock", 1, 1),
    ("last_insert_id", 0, 1),
    ("name_const", 2, 2),
    ("ps_current_thread_id", 0, 0),
    ("release_all_locks", 0, 0),
    ("release_lock", 1, 1),
    ("row_count", 0, 0),
    ("schema", 0, 0),
    ("session_user", 0, 0),
    ("sleep", 1, 1),
    ("system_user", 0, 0),
    ("user", 0, 0),
    ("validate_password_strength", 1, 1),
    ("version", 0, 0),
];

const SKETCHES: &[Callable] = &[
    ("bitmap_and", 2, MANY),
    ("bitmap_and_count", 2, MANY),
    ("bitmap_and_not", 2, 2),
    ("bitmap_and_not_count", 2, 2),
    ("bitmap_andnot", 2, 2),
    ("bitmap_andnot_count", 2, 2),
    ("bitmap_contains", 2, 2),
    ("bitmap_count", 1, 1),
    ("bitmap_empty", 0, 0),
    ("bitmap_from_array", 1, 1),
    ("bitmap_from_base64", 1, 1),
    ("bitmap_from_string", 1, 1),
    ("bitmap_has_all", 2, 2),
    ("bitmap_has_any", 2, 2),
    ("bitmap_hash", 1, 1),
    ("bitmap_hash64", 1, 1),
    ("bitmap_max", 1, 1),
    ("bitmap_min", 1, 1),
    ("bitmap_not", 2, 2),
    ("bitmap_or", 2, MANY),
    ("bitmap_or_count", 2, MANY),
    ("bitmap_remove", 2, 2),
    ("bitmap_subset_in_range", 3, 3),
    ("bitmap_subset_limit", 3, 3),
    ("bitmap_to_base64", 1, 1),
    ("bitmap_to_string", 1, 1),
    ("bitmap_xor", 2, MANY),
    ("bitmap_xor_count", 2, MANY),
    ("hll_cardinality", 1, 1),
    ("hll_empty", 0, 0),
    ("hll_from_base64", 1, 1),
    ("hll_hash", 1, 1),
    ("hll_to_base64", 1, 1),
    ("sub_bitmap", 3, 3),
    ("to_bitmap", 1, 1),
    ("to_bitmap_with_check", 1, 1),
];

const AGGREGATES: &[Callable] = &[
    ("any_value", 1, 1),
    ("approx_count_distinct", 1, 1),
    ("array_agg", 1, 1),
    ("avg", 1, 1),
    ("bit_and", 1, 1),
    ("bit_or", 1, 1),
    ("bit_xor", 1, 1),
    ("bitmap_agg", 1, 1),
    ("bitmap_intersect", 1, 1),
    ("bitmap_union", 1, 1),
    ("bitmap_union_count", 1, 1),
    ("bitmap_union_int", 1, 1),
    ("collect_list", 1, 1),
    ("collect_set", 1, 1),
    ("count", 1, MANY),
    ("group_array", 1, 1),
    ("group_concat", 1, MANY),
    ("grouping", 1, MANY),
    ("hll_raw_agg", 1, 1),
    ("hll_union", 1, 1),
    ("hll_union_agg", 1, 1),
    ("intersect_count", 3, MANY),
    ("json_arrayagg", 1, 1),
    ("json_objectagg", 2, 2),
    ("max", 1, 1),
    ("min", 1, 1),
    ("ndv", 1, 1),
    ("std", 1, 1),
    ("stddev", 1, 1),
    ("stddev_pop", 1, 1),
    ("stddev_samp", 1, 1),
    ("sum", 1, 1),
    ("var_pop", 1, 1),
    ("var_samp", 1, 1),
    ("variance", 1, 1),
];

const WINDOWS: &[Callable] = &[
    ("cume_dist", 0, 0),
    ("dense_rank", 0, 0),
    ("first_value", 1, 1),
    ("lag", 1, 3),
    ("last_value", 1, 1),
    ("lead", 1, 3),
    ("nth_value", 2, 2),
    ("ntile", 1, 1),
    ("percent_rank", 0, 0),
    ("rank", 0, 0),
    ("row_number", 0, 0),
];

fn shapes() -> &'static HashMap<&'static str, Shape> {
    static ALL: OnceLock<HashMap<&'static str, Shape>> = OnceLock::new();
    ALL.get_or_init(|| {
        let shape = |kind| {
            move |(name, least, most): &Callable| {
                (*name, Shape { kind, arguments: (*least, *most) })
            }
        };
        FAMILIES.iter().flat_map(|all| all.functions.iter().map(shape(all.kind))).collect()
    })
}

/// The names of all scalar functions.
pub fn scalars() -> impl Iterator<Item = &'static str> {
    let families = FAMILIES.iter().filter(|family| family.kind == Kind::Scalar);
    families.flat_map(|family| family.functions.iter().map(|(name, ..)| *name))
}

/// Whether a lower-case name is that of an aggregate.
pub fn is_aggregate(name: &str) -> bool {
    shapes().get(name).is_some_and(|shape| shape.kind == Kind::Aggregate)
}

/// Checks that a call is allowed.
///
/// # Errors
/// 1305 for an unknown function, 1582 for a wrong number of arguments, 1064 and 3593 for an OVER
/// clause that is not allowed or missing.
pub fn check(name: &str, arguments: usize, over: bool) -> Result<()> {
    let Some(Shape { kind, arguments: (least, most) }) = shapes().get(name) else {
        bail!(UnknownFunction, "FUNCTION {name} does not exist");
    };
    if !(*least..=*most).contains(&arguments) {
        bail!(ParameterCount, "Incorrect parameter count in the call to native function '{name}'");
    }
    match (kind, over) {
        (Kind::Scalar, true) => bail!(
            Syntax,
            "You have an error in your SQL syntax; OVER follows aggregates and functions of \
             windows, near 'OVER' behind '{name}'"
        ),
        (Kind::Window, false) => bail!(
            Syntax,
            "You have an error in your SQL syntax; function '{name}' of a window wants OVER"
        ),
        _ => Ok(()),
    }
}

/// The text of `docs/functions.md`.
pub fn document() -> String {
    let mut page = "# Functions\n\n\
        Made from the lists in `crates/query/src/functions/list.rs` by `make docs`; a test holds \
        the two together.\n\n\
        They mean what they mean in MySQL 8, those of BITMAP and HLL what they mean in Doris; no \
        others can be called. Behind each stands how many \
        arguments it takes. CAST, CONVERT, EXTRACT, POSITION, SUBSTRING, TRIM, CEIL and FLOOR have \
        their own syntax as well, and CURRENT_DATE, CURRENT_TIMESTAMP and their like go without \
        parentheses.\n"
        .to_owned();
    for Family { title, functions, .. } in FAMILIES {
        write!(page, "\n## {title}\n\n| function | arguments |\n| --- | --- |\n")
            .expect("writing to a string cannot fail");
        for (name, least, most) in *functions {
            let count = match (*least, *most) {
                (least, most) if least == most => least.to_string(),
                (least, MANY) => format!("{least} or more"),
                (least, most) => format!("{least} to {most}"),
            };
            writeln!(page, "| `{}` | {count} |", name.to_uppercase())
                .expect("writing to a string cannot fail");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/functions.md");

    #[test]
    fn the_document_lists_what_can_be_called() {
        #[allow(clippy::disallowed_methods, reason = "a test reads a page")]
        let written = std::fs::read_to_string(DOCUMENT).unwrap();
        assert!(written == document(), "docs/functions.md is out of date; write it with make docs");
    }

    #[test]
    fn names_are_unique_and_sorted() {
        let count = FAMILIES.iter().map(|family| family.functions.len()).sum::<usize>();
        assert_eq!(shapes().len(), count);
        for family in FAMILIES {
            assert!(family.functions.is_sorted(), "{}", family.title);
        }
    }
}
