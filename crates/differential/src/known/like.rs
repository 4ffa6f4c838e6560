//! Conditions on two results, given their short representations.

use std::collections::BTreeSet;

/// The rows of a result.
fn rows(shown: &str) -> impl Iterator<Item = &str> {
    let (_, rows) = shown.split_once("] ").unwrap_or(("", shown));
    rows.split(" ; ")
}

/// Whether both have the same number of cells, each pair of which is equal or satisfies `like`;
/// with the rows in this order, or sorted by their text.
fn each(ours: &str, theirs: &str, like: impl Fn(&str, &str) -> bool) -> bool {
    let (mut ours, mut theirs) = (rows(ours).collect::<Vec<_>>(), rows(theirs).collect::<Vec<_>>());
    let together = |ours: &[&str], theirs: &[&str]| {
        let cells = |rows: &[&str]| {
            rows.iter().flat_map(|row| row.split(" | ")).map(str::to_owned).collect::<Vec<_>>()
        };
        let (ours, theirs) = (cells(ours), cells(theirs));
        ours.len() == theirs.len()
            && ours.iter().zip(&theirs).all(|(ours, theirs)| ours == theirs || like(ours, theirs))
    };
    if together(&ours, &theirs) {
        return true;
    }
    ours.sort_unstable();
    theirs.sort_unstable();
    together(&ours, &theirs)
}

/// Whether both are numbers within `tolerance`, relative to the first one if that is above 1.
fn near(ours: &str, theirs: &str, tolerance: f64) -> bool {
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(ours), Ok(theirs)) => (ours - theirs).abs() <= tolerance * ours.abs().max(1.0),
        _ => false,
    }
}

/// Whether all cells are equal except for trailing zeros.
pub fn same_but_zeros(ours: &str, theirs: &str) -> bool {
    let plain = |cell: &str| match cell.rsplit_once('.') {
        Some(_) => cell.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => cell.to_owned(),
    };
    each(ours, theirs, |ours, theirs| plain(ours) == plain(theirs))
}

/// Whether all numbers are equal within a tolerance of 1e-4.
pub fn same_to_four_digits(ours: &str, theirs: &str) -> bool {
    each(ours, theirs, |ours, theirs| near(ours, theirs, 1e-4))
}

/// Whether all numbers have the same six digits, as many as a FLOAT shows.
pub fn same_to_six_digits(ours: &str, theirs: &str) -> bool {
    each(ours, theirs, |ours, theirs| near(ours, theirs, 1e-6))
}

/// Whether all numbers are equal within a tolerance of 1e-9.
pub fn same_to_nine_digits(ours: &str, theirs: &str) -> bool {
    each(ours, theirs, |ours, theirs| near(ours, theirs, 1e-9))
}

/// Whether `ours` has the same rows as `theirs` without duplicates.
pub fn without_copies(ours: &str, theirs: &str) -> bool {
    let different = |shown| rows(shown).map(str::to_owned).collect::<BTreeSet<_>>();
    different(ours) == different(theirs) && ours.len() < theirs.len()
}

/// Whether `ours` is 1 and `theirs` is 0 wherever the cells differ.
pub fn one_or_same(ours: &str, theirs: &str) -> bool {
    each(ours, theirs, |ours, theirs| (ours, theirs) == ("1", "0"))
}

/// Whether all differing cells are truth values.
pub fn truths(ours: &str, theirs: &str) -> bool {
    let is_truth = |cell: &str| matches!(cell, "0" | "1" | "NULL");
    each(ours, theirs, |ours, theirs| is_truth(ours) && is_truth(theirs))
}

/// Whether `theirs` is 1e17 wherever the cells differ, where MariaDB's DOUBLE with digits ends.
pub fn capped(ours: &str, theirs: &str) -> bool {
    each(ours, theirs, |_, theirs| theirs == "1e17")
}

/// Whether `ours` is NULL and `theirs` contains a zero date wherever the cells differ.
pub fn null_for_zero_date(ours: &str, theirs: &str) -> bool {
    each(ours, theirs, |ours, theirs| ours.contains("NULL") && theirs.contains("0000-00-00"))
}

/// Whether `ours` is NULL and `theirs` is a part of a zero date wherever the cells differ.
pub fn null_for_zero(ours: &str, theirs: &str) -> bool {
    each(ours, theirs, |ours, theirs| ours == "NULL" && matches!(theirs, "0" | "0e0"))
}

/// Whether, wherever the cells differ, `theirs` is NULL and `ours` is a Unix time above 32 bits, or
/// 0 for an invalid one.
pub fn instant_for_null(ours: &str, theirs: &str) -> bool {
    let beyond = |seconds: f64| seconds == 0.0 || seconds > f64::from(i32::MAX);
    each(ours, theirs, |ours, theirs| theirs == "NULL" && ours.parse::<f64>().is_ok_and(beyond))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_belong_together_cell_by_cell() {
        assert!(same_but_zeros("[Text] 1.0 ; x", "[Text] 1.000 ; x"));
        assert!(!same_but_zeros("[Text] 1.0 ; x", "[Text] 1.0 ; y"));
        assert!(same_to_four_digits("[Double] 1.70782", "[Double] 1.7078"));
        assert!(!same_to_nine_digits("[Double] 1.70782", "[Double] 1.7078"));
        assert!(same_to_six_digits("[Text] 30000000000 ; x", "[Text] 30000001024 ; x"));
        assert!(!same_to_six_digits("[Text] 30000000000", "[Text] 30000101024"));
        assert!(same_to_six_digits("[Text] 30000000000 ; a", "[Text] a ; 30000001024"));
        assert!(without_copies("[Int] 1 ; 2", "[Int] 1 ; 1 ; 2"));
        assert!(!without_copies("[Int] 1 ; 2", "[Int] 1 ; 1 ; 3"));
        assert!(one_or_same("[Int] 1 ; 0", "[Int] 0 ; 0") && !one_or_same("[Int] 0", "[Int] 1"));
        assert!(truths("[Int] NULL", "[Int] 1") && !truths("[Int] NULL", "[Int] 2"));
        assert!(null_for_zero_date("[Text] NULL ; a", "[Text] 0000-00-00 ; a"));
        assert!(instant_for_null("[Int] 0", "[Int] NULL"));
        assert!(!instant_for_null("[Int] 5", "[Int] NULL"));
    }
}
