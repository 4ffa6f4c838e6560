use super::*;

#[test]
fn text_that_starts_with_a_number_is_that_number() {
    for (text, wanted) in [
        ("12abc", 12.0),
        (" -1.5e2x", -150.0),
        ("abc", 0.0),
        ("", 0.0),
        ("1e", 1.0),
        (".5", 0.5),
        ("inf", 0.0),
    ] {
        assert!((number_prefix(text) - wanted).abs() < 1e-12, "{text}");
    }
    assert_eq!(integer_prefix("42xyz"), 42);
    assert_eq!(integer_prefix("-99999999999999999999"), i64::MIN);
}

#[test]
fn decimals_round_half_away_from_zero() {
    assert_eq!(decimal_prefix("1.255", 2, 99_999), 126);
    assert_eq!(decimal_prefix("-1.255", 2, 99_999), -126);
    assert_eq!(decimal_prefix("1e3", 1, 999_999), 10_000);
    assert_eq!(decimal_prefix("99999", 2, 999), 999);
    assert_eq!(round_half_up(-25, 10), -3);
    assert_eq!(round_half_up(24, 10), 2);
}

#[test]
fn a_decimal_is_the_double_nearest_to_it() {
    assert_eq!(nearest(123_456_789_012_345_678_905, 1), 12_345_678_901_234_567_890.5);
    assert_eq!(nearest(-15, 1), -1.5);
    assert_eq!(nearest(1, 30), 1e-30);
}

#[test]
fn dates_become_their_digits() {
    let days = temporal::days_of(2024, 1, 2).unwrap();
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![days]));
    assert_eq!(int(&dates).unwrap().value(0), 20_240_102);
    assert_eq!(text(&dates).unwrap().value(0), "2024-01-02");
}
