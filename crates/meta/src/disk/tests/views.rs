//! Views on disk: any of them comes back, and their bytes are those of older stores.

use freshet_base::{ColumnId, DbId};
use freshet_schema::{Column, ColumnType};
use proptest::prelude::*;
use proptest::{collection::vec, option, sample::select};

use super::golden::has_bytes;
use super::strategies::{column, text};
use crate::{Account, CheckOption, TextMode, View, ViewAlgorithm};

pub(super) fn view() -> impl Strategy<Value = View> {
    let modes = any::<[bool; 4]>().prop_map(
        |[pipes_as_concat, ansi_quotes, no_backslash_escapes, loose_group_by]| TextMode {
            pipes_as_concat,
            ansi_quotes,
            no_backslash_escapes,
            loose_group_by,
        },
    );
    let texts = (text(), text(), text(), text(), option::of(text()));
    let columns = vec((column(), text()), 1..4);
    let algorithms =
        select(vec![ViewAlgorithm::Undefined, ViewAlgorithm::Merge, ViewAlgorithm::TempTable]);
    let options = select(vec![CheckOption::None, CheckOption::Local, CheckOption::Cascaded]);
    let written = (algorithms, options);
    (texts, modes, columns, any::<(u64, bool, bool, i64)>(), written).prop_map(
        |((name, query, user, host, database), text_mode, columns, numbers, written)| {
            let (algorithm, check_option) = written;
            let (db, invoker, by_name, created_micros) = numbers;
            let (columns, sources): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
            View {
                db: DbId(db),
                name,
                query,
                text_mode,
                database,
                definer: Account { name: user, host },
                invoker,
                algorithm,
                check_option,
                columns,
                sources: if by_name { sources } else { Vec::new() },
                created_micros,
            }
        },
    )
}

#[test]
fn a_view_stays_as_it_was_written() {
    let view = View {
        db: DbId(3),
        name: "v".to_owned(),
        query: "SELECT 1".to_owned(),
        text_mode: TextMode { ansi_quotes: true, loose_group_by: true, ..TextMode::default() },
        database: Some("d".to_owned()),
        definer: Account::anywhere("u"),
        invoker: true,
        algorithm: ViewAlgorithm::Undefined,
        check_option: CheckOption::None,
        columns: vec![Column::new(ColumnId(1), "a", ColumnType::Date)],
        sources: vec!["A".to_owned()],
        created_micros: 9,
    };
    const BEGINS: &str = "01 0803 120176 1a0853454c4543542031 2801 3a0164 420175 4a0125 5001";
    const COLUMNS: &str = "0e 0801120161200130013801d20100";
    const ENDS: &str = "620141 6809 7001";
    has_bytes(&view, &format!("{BEGINS} 5a{COLUMNS} {ENDS}"));
    let algorithm = ViewAlgorithm::TempTable;
    let view = View { algorithm, ..view };
    has_bytes(&view, &format!("{BEGINS} 5a{COLUMNS} {ENDS} 7802"));
    // Versions that know no option find no columns.
    let checked = View { check_option: CheckOption::Cascaded, ..view };
    has_bytes(&checked, &format!("{BEGINS} {ENDS} 7802 800102 8a01{COLUMNS}"));
}
