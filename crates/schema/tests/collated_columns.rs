//! Weights of whole columns, and texts beside weights: as one by one.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;

use arrow::array::{AsArray, StringViewArray};
use freshet_schema::Collation;
use freshet_schema::collation::{COLLATIONS, column, fold, weights};
use proptest::prelude::*;

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[aAbB \u{e4}\u{c4}\u{df}s\u{0}\u{1}\u{301}l\u{b7}]{0,5}",
        "[a-cA-C0-9_-]{0,20} {0,3}",
        "[ -~]{7,17}[\u{e9}\u{301}\u{0}]?[ -~]{0,9}",
        ".{0,24}",
    ]
}

fn weighed(collation: Collation, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    weights::put(collation, text, &mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_column_has_the_weights_of_its_texts(
        rows in proptest::collection::vec(proptest::option::of(texts()), 0..40),
        from in 0_usize..40,
    ) {
        let from = from.min(rows.len());
        let all = rows.iter().map(Option::as_deref).collect::<StringViewArray>();
        let part = all.slice(from, rows.len() - from);
        for collation in COLLATIONS {
            let Ok(found) = column::weights(collation, &part, |_| Ok::<(), Infallible>(()));
            let wanted = rows[from..].iter().map(|text| {
                text.as_ref().map(|text| weighed(collation, text))
            });
            let found = found.as_binary_view().iter().map(|one| one.map(<[u8]>::to_vec));
            prop_assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
            let Ok(found) = column::folded(collation, &part, |_| Ok::<(), Infallible>(()));
            let wanted = rows[from..].iter().map(|text| {
                text.as_ref().map(|text| fold::folded(collation, text).into_owned())
            });
            let found = found.as_string_view().iter().map(|one| one.map(str::to_owned));
            prop_assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        }
    }

    #[test]
    fn texts_are_compared_as_their_weights(one in texts(), other in texts(), same: bool) {
        let other = if same { one.to_uppercase() + " " } else { other };
        for collation in COLLATIONS {
            let of_other = weighed(collation, &other);
            let wanted = weighed(collation, &one).cmp(&of_other);
            let found = weights::compare(collation, &one, &of_other, &mut Vec::new());
            prop_assert_eq!(found, wanted, "{:?} {:?} {:?}", collation, one, other);
        }
    }
}

#[test]
fn a_check_that_fails_ends_it() {
    let texts = StringViewArray::from(vec!["a"; 9]);
    let stopped = |row: usize| if row == 5 { Err(row) } else { Ok(()) };
    assert_eq!(column::weights(Collation::DEFAULT, &texts, stopped).unwrap_err(), 5);
    assert_eq!(column::folded(Collation::DEFAULT, &texts, stopped).unwrap_err(), 5);
}
