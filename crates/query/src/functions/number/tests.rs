use super::*;

#[test]
fn quotients_are_cut() {
    let by = |left| ScaleUp { left, right: 0 };
    assert_eq!(quotient(2, 3, by(9)).unwrap(), Some(666_666_666));
    assert_eq!(quotient(-1, 2, by(0)).unwrap(), Some(0));
    assert_eq!(quotient(1, 0, by(4)).unwrap(), None);
    assert_eq!(quotient(700, 2, ScaleUp { left: 0, right: 2 }).unwrap(), Some(3));
    let large = quotient(10_i128.pow(37), 10_i128.pow(36), by(10));
    assert_eq!(large.unwrap(), Some(100_000_000_000));
}

#[test]
fn division_shows_four_digits_more_and_keeps_words() {
    let of = |ty: DataType| Number::of_type(&ty);
    let typed = |left, right| divide_type(&[of(left), of(right)], &[None, None]).unwrap();
    let (int, decimal) = (DataType::Int64, DataType::Decimal128(15, 2));
    let whole = typed(int.clone(), int.clone());
    assert_eq!((whole.ty, whole.shown), (DataType::Decimal128(28, 9), Some(4)));
    let cents = typed(decimal.clone(), int.clone());
    assert_eq!((cents.ty, cents.shown), (DataType::Decimal128(22, 9), Some(6)));
    let both = typed(decimal.clone(), decimal);
    assert_eq!((both.ty, both.shown), (DataType::Decimal128(33, 18), Some(6)));
    assert_eq!(typed(int, DataType::Utf8View).ty, DataType::Float64);
}
