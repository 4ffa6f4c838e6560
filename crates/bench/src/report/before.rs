//! Comparison of two versions of Freshet.

use super::{OURS, Results, in_order};

/// The ratio of Freshet to the other target at a point.
#[derive(Debug, PartialEq)]
struct Ratio {
    what: String,
    ratio: f64,
}

/// Prints the ratios in ascending order; fails if one is below `least`.
pub fn compare(results: &Results, to: &str, least: f64) -> Result<(), String> {
    let ratios = ratios(results, to);
    if ratios.is_empty() {
        return Err(format!("nothing was measured on `{OURS}` and on `{to}`"));
    }
    for Ratio { what, ratio } in &ratios {
        println!("{} {ratio:.3}  {what}", if *ratio < least { "SLOWER" } else { "      " });
    }
    let slower = ratios.iter().filter(|ratio| ratio.ratio < least).count();
    let all = ratios.len();
    println!("\n{} of {all} points are at least {least} times as fast", all - slower);
    (slower == 0).then_some(()).ok_or_else(|| format!("{slower} points have slowed"))
}

/// For points, the median over rounds of the ratio of rates; for TPC-H the ratio of the fastest
/// runs.
fn ratios(results: &Results, to: &str) -> Vec<Ratio> {
    let points = results.points().into_iter().filter_map(|point| {
        let ratio = results.ratio(point, OURS, to)?;
        Some(Ratio { what: point.to_owned(), ratio })
    });
    let steps = in_order(results.tpch.iter().map(|line| line.tpch.as_str()));
    let steps = steps.into_iter().filter_map(|step| {
        let ratio = results.tpch_seconds(step, to)? / results.tpch_seconds(step, OURS)?;
        Some(Ratio { what: format!("W7 {step}"), ratio })
    });
    let mut ratios: Vec<Ratio> = points.chain(steps).collect();
    ratios.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FORMAT, line};
    use crate::tpch::TpchLine;

    fn results() -> Results {
        let lines = [("W1", OURS, 97.0), ("W1", "before", 100.0), ("W2", "before", 1.0)];
        let query = |target: &str, seconds| TpchLine {
            format: FORMAT,
            tpch: "q1".to_owned(),
            target: target.to_owned(),
            seconds,
            rows: 1,
        };
        Results {
            lines: lines.map(|(point, target, rate)| line(point, target, 1, rate)).into(),
            tpch: vec![query(OURS, 2.0), query("before", 1.0), query("before", 3.0)],
            ..Results::default()
        }
    }

    #[test]
    fn what_both_ran_is_compared_and_the_slowest_comes_first() {
        let expected = [("W7 q1", 0.5), ("W1", 0.97)];
        let expected = expected.map(|(what, ratio)| Ratio { what: what.to_owned(), ratio });
        assert_eq!(ratios(&results(), "before"), expected);
    }

    #[test]
    fn a_point_that_slowed_or_nothing_to_compare_is_a_failure() {
        assert_eq!(compare(&results(), "before", 0.5), Ok(()));
        let slower = compare(&results(), "before", 0.97).unwrap_err();
        assert_eq!(slower, "1 points have slowed");
        assert!(compare(&results(), "mariadb", 0.5).is_err());
    }
}
