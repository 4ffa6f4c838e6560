use super::*;
use crate::result::line;

fn results(lines: &[(&str, &str, usize, f64)]) -> Results {
    let lines = lines.iter().map(|(point, target, round, rate)| line(point, target, *round, *rate));
    Results { lines: lines.collect(), ..Results::default() }
}

const W1: &str = "W1 ints prepared 1 x 30";

#[test]
fn ratios_are_taken_within_a_round_and_their_median_counts() {
    // The machine was three times as slow in the second round.
    let results = results(&[
        (W1, "mariadb", 1, 30.0),
        (W1, OURS, 1, 90.0),
        (W1, "mariadb", 2, 10.0),
        (W1, OURS, 2, 40.0),
        (W1, "mariadb", 3, 30.0),
        (W1, OURS, 3, 60.0),
    ]);
    assert_eq!(results.ratio(W1, OURS, "mariadb"), Some(3.0));
    assert_eq!(results.rate(W1, OURS), Some(60.0));
    assert_eq!(results.ratio(W1, OURS, "questdb"), None);
}

#[test]
fn what_is_required_is_met_or_not_or_open() {
    let slow = results(&[(W1, "mariadb", 1, 30.0), (W1, OURS, 1, 60.0)]);
    let find = |results: &Results| {
        checks::all(results).into_iter().find(|c| c.what.ends_with("x 30, to mariadb")).unwrap()
    };
    assert_eq!(find(&slow).met(), Some(false));
    assert!(find(&slow).to_string().starts_with("NOT MET"));
    // The requirement is limited to 0.8 of the null server.
    let bound = results(&[(W1, "mariadb", 1, 30.0), (W1, OURS, 1, 60.0), (W1, "null", 1, 70.0)]);
    assert_eq!(find(&bound).met(), Some(true));
    assert_eq!(find(&results(&[])).met(), None);
}

#[test]
fn lines_of_all_kinds_are_read_back() {
    let written = serde_json::to_string(&line(W1, OURS, 1, 5.0)).unwrap();
    let text = format!(
        "{written}\n\
         {{\"format\":1,\"machine\":\"copy\",\"per_second\":2.0,\"p50_ms\":0.5}}\n\
         {{\"format\":1,\"tpch\":\"q1\",\"target\":\"duckdb\",\"seconds\":0.25,\"rows\":4}}\n"
    );
    let results = Results::parse(&text).unwrap();
    assert_eq!(results.machine_ms("copy"), Some(0.5));
    assert_eq!(results.tpch_seconds("q1", "duckdb"), Some(0.25));
    assert!(tables::all(&results).contains("| W1 ints prepared 1 x 30 | freshet | 5 |"));
    assert!(Results::parse("{}").is_err());
}

#[test]
fn a_document_is_filled_between_its_marks() {
    let results = results(&[(W1, "mariadb", 1, 30.0), (W1, OURS, 1, 90.0)]);
    let text = "# T\n<!-- figures: W1 -->\nold\n<!-- end of figures -->\nrest\n\
        <!-- figures: W3 -->\nkept\n<!-- end of figures -->\n";
    let filled = document::fill(&results, text).unwrap();
    assert!(filled.contains("| W1 ints prepared 1 x 30 | 30 (1.00 / 2.0 ms, x 3.00) | 90"));
    assert!(!filled.contains("old") && filled.contains("rest\n") && filled.contains("kept"));
    assert_eq!(document::fill(&results, &filled).unwrap(), filled);
    assert!(document::fill(&results, "<!-- figures: W1 -->\n").unwrap_err().contains("no end"));
    let unknown = "<!-- figures: W0 -->\n<!-- end of figures -->\n";
    assert!(document::fill(&results, unknown).unwrap_err().contains("W0"));
}

#[test]
fn a_long_run_keeps_its_rate_or_not() {
    let mut results = results(&[("W2 lineitem text 100 x 20 long", OURS, 1, 90.0)]);
    results.lines[0].rates = vec![100.0, 90.0, 80.0];
    let checks = checks::all(&results);
    let kept = checks.iter().find(|check| check.what.ends_with("last tenth to first")).unwrap();
    assert_eq!((kept.got, kept.met()), (Some(0.8), Some(false)));
}
