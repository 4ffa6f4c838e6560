//! Functions of BITMAP and HLL, as Doris has them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use freshet_base::{ErrorCode, err};
use freshet_schema::sketch::{
    BadSketch, Bitmap, Hll, SKETCH_BYTES_MAX, SketchKind, bitmap_hash, bitmap_hash64, hll_hash,
};

use super::row::{Kind, MANY, Out, Row, RowFunction};
use crate::error::external;

/// The result of a function for one row.
type Given = Result<Option<Out>>;

/// An argument of a type that a value of another may have.
fn read<T>(
    row: &Row<'_>,
    at: usize,
    kind: SketchKind,
    read: fn(&[u8]) -> Result<T, BadSketch>,
) -> Result<T> {
    let (bytes, wanted) = (row.sketch(at), kind.name());
    match SketchKind::of(bytes) {
        Some(other) if other != kind => Err(external(err!(
            Unknown,
            "argument {} is of type {}, where a {wanted} is wanted",
            at + 1,
            other.name()
        ))),
        _ => read(bytes).map_err(|why| external(err!(Internal, "a {wanted} is damaged: {why}"))),
    }
}

/// A few bytes may become much memory, which is held until the row is finished.
fn bitmap(row: &Row<'_>, at: usize) -> Result<Bitmap> {
    let bitmap = read(row, at, SketchKind::Bitmap, Bitmap::read)?;
    row.hold_more(usize::try_from(bitmap.memory_bytes()).unwrap_or(usize::MAX))?;
    Ok(bitmap)
}

fn hll(row: &Row<'_>, at: usize) -> Result<Hll> {
    read(row, at, SketchKind::Hll, Hll::read)
}

fn sketch(bitmap: &Bitmap) -> Option<Out> {
    Some(Out::Sketch(bitmap.to_bytes()))
}

fn count(count: u64) -> Option<Out> {
    Some(Out::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// A number of an argument of kind `Int`, where large unsigned ones keep their bits.
fn number(row: &Row<'_>, at: usize) -> u64 {
    row.int(at).cast_unsigned()
}

/// All arguments joined by `join`; `None` if one of them is NULL.
fn folded(row: &Row<'_>, join: fn(&mut Bitmap, &Bitmap)) -> Result<Option<Bitmap>> {
    if (0..row.count()).any(|at| row.null(at)) {
        return Ok(None);
    }
    let mut all = bitmap(row, 0)?;
    for at in 1..row.count() {
        join(&mut all, &bitmap(row, at)?);
    }
    Ok(Some(all))
}

/// The union of the arguments that are not NULL; `None` if all are.
fn united(row: &Row<'_>) -> Result<Option<Bitmap>> {
    let mut all = None::<Bitmap>;
    for at in (0..row.count()).filter(|at| !row.null(*at)) {
        let one = bitmap(row, at)?;
        match &mut all {
            Some(all) => all.unite(&one),
            None => all = Some(one),
        }
    }
    Ok(all)
}

/// Unsigned numbers with commas between them; `None` for other text.
fn numbers(text: &str) -> Option<Bitmap> {
    if text.trim().is_empty() {
        return Some(Bitmap::default());
    }
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}

fn to_string(row: &Row<'_>) -> Given {
    let mut text = String::new();
    for number in bitmap(row, 0)?.iter() {
        if text.len() > row.bytes_max() {
            return Ok(Some(Out::TooLong));
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&number.to_string());
    }
    Ok(Some(Out::Text(text)))
}

fn to_bitmap_checked(row: &Row<'_>) -> Given {
    if row.null(0) {
        return Ok(sketch(&Bitmap::default()));
    }
    match row.text(0).trim().parse() {
        Ok(number) => Ok(sketch(&Bitmap::from_iter([number]))),
        Err(_) => Err(external(err!(
            WrongArgument,
            "The input: {} is not valid, to_bitmap only support bigint value from 0 to {} \
             currently",
            row.text(0).chars().take(32).collect::<String>(),
            u64::MAX
        ))),
    }
}

/// The bytes of a text of base64, in which a sketch of Doris was sent.
fn sent<T>(row: &Row<'_>, read: fn(&[u8]) -> Result<T, BadSketch>) -> Option<T> {
    let text = row.text(0);
    let bytes = (text.len() <= 2 * SKETCH_BYTES_MAX).then(|| STANDARD.decode(text.trim()))?.ok()?;
    let damaged = |why: BadSketch| {
        row.warn(ErrorCode::WrongArgument, || format!("the bytes are no BITMAP or HLL: {why}"));
    };
    read(&bytes).map_err(damaged).ok()
}

/// `SUB_BITMAP(bitmap, offset, count)`: an offset below zero counts from the end.
fn sub_bitmap(row: &Row<'_>) -> Given {
    let mut part = bitmap(row, 0)?;
    let (offset, wanted) = (row.int(1), row.int(2));
    let skipped = match u64::try_from(offset) {
        Ok(offset) => Some(offset),
        Err(_) => part.count().checked_sub(offset.unsigned_abs()),
    };
    let (Some(skipped), Ok(wanted @ 1..)) = (skipped, u64::try_from(wanted)) else {
        return Ok(None);
    };
    part.keep_places(skipped, wanted);
    Ok(if part.count() == 0 { None } else { sketch(&part) })
}

/// `BITMAP_SUBSET_LIMIT(bitmap, first, count)`.
fn subset_limit(row: &Row<'_>) -> Given {
    let (Ok(first), Ok(wanted @ 1..)) = (u64::try_from(row.int(1)), u64::try_from(row.int(2)))
    else {
        return Ok(None);
    };
    let mut part = bitmap(row, 0)?;
    part.keep(first, u64::MAX);
    part.keep_places(0, wanted);
    Ok(sketch(&part))
}

/// `BITMAP_SUBSET_IN_RANGE(bitmap, first, end)`, without `end`.
fn subset_in_range(row: &Row<'_>) -> Given {
    match (u64::try_from(row.int(1)), u64::try_from(row.int(2))) {
        (Ok(first), Ok(end)) if first < end => {
            let mut part = bitmap(row, 0)?;
            part.keep(first, end);
            Ok(sketch(&part))
        }
        _ => Ok(None),
    }
}

/// What NULL or text makes of a function that hashes.
fn hashed(row: &Row<'_>, empty: SketchKind, of: fn(&[u8]) -> Vec<u8>) -> Option<Out> {
    Some(Out::Sketch(match row.null(0) {
        true => empty.empty().to_vec(),
        false => of(row.bytes(0)),
    }))
}

fn makers() -> Vec<RowFunction> {
    let (text, bytes): (&[Kind], &[Kind]) = (&[Kind::Text], &[Kind::Bytes]);
    let one = |name, does| RowFunction::new(name, text, (1, 1), Kind::Sketch, does);
    let hash = |name, does| RowFunction::new(name, bytes, (1, 1), Kind::Sketch, does).sees_null();
    vec![
        RowFunction::new(
            "bitmap_empty",
            text,
            (0, 0),
            Kind::Sketch,
            |_| sketch(&Bitmap::default()),
        ),
        RowFunction::new("hll_empty", text, (0, 0), Kind::Sketch, |_| {
            Some(Out::Sketch(Hll::default().to_bytes()))
        }),
        one("to_bitmap", |row| {
            let number = if row.null(0) { None } else { row.text(0).trim().parse().ok() };
            sketch(&number.into_iter().collect())
        })
        .sees_null(),
        RowFunction::fallible(
            "to_bitmap_with_check",
            text,
            (1, 1),
            Kind::Sketch,
            to_bitmap_checked,
        )
        .sees_null(),
        one("bitmap_from_string", |row| sketch(&numbers(row.text(0))?)),
        one("bitmap_from_array", |row| {
            let list = row.text(0).trim().strip_prefix('[')?.strip_suffix(']')?;
            sketch(&numbers(list)?)
        }),
        one("bitmap_from_base64", |row| sketch(&sent(row, Bitmap::of_doris)?)),
        one("hll_from_base64", |row| Some(Out::Sketch(sent(row, Hll::of_doris)?.to_bytes()))),
        hash("bitmap_hash", |row| {
            hashed(row, SketchKind::Bitmap, |value| {
                Bitmap::from_iter([bitmap_hash(value).into()]).to_bytes()
            })
        }),
        hash("bitmap_hash64", |row| {
            hashed(row, SketchKind::Bitmap, |value| {
                Bitmap::from_iter([bitmap_hash64(value)]).to_bytes()
            })
        }),
        hash("hll_hash", |row| {
            hashed(row, SketchKind::Hll, |value| {
                let mut hll = Hll::default();
                hll.insert(hll_hash(value));
                hll.to_bytes()
            })
        }),
    ]
}

const SKETCH: &[Kind] = &[Kind::Sketch];

fn changes() -> Vec<RowFunction> {
    let of_many = |name, does| RowFunction::fallible(name, SKETCH, (2, MANY), Kind::Sketch, does);
    let of_two = |name, does| RowFunction::fallible(name, SKETCH, (2, 2), Kind::Sketch, does);
    let less: fn(&Row<'_>) -> Given =
        |row| Ok(folded(row, Bitmap::subtract)?.as_ref().and_then(sketch));
    let part = |name, does| {
        let kinds: &[Kind] = &[Kind::Sketch, Kind::Int, Kind::Int];
        RowFunction::fallible(name, kinds, (3, 3), Kind::Sketch, does)
    };
    vec![
        of_many("bitmap_and", |row| Ok(folded(row, Bitmap::intersect)?.as_ref().and_then(sketch))),
        of_many("bitmap_xor", |row| Ok(folded(row, Bitmap::differ)?.as_ref().and_then(sketch))),
        of_many("bitmap_or", |row| Ok(united(row)?.as_ref().and_then(sketch))).sees_null(),
        of_two("bitmap_not", less),
        of_two("bitmap_and_not", less),
        of_two("bitmap_andnot", less),
        part("sub_bitmap", sub_bitmap),
        part("bitmap_subset_limit", subset_limit),
        part("bitmap_subset_in_range", subset_in_range),
        RowFunction::fallible(
            "bitmap_remove",
            &[Kind::Sketch, Kind::Int],
            (2, 2),
            Kind::Sketch,
            |row| {
                let mut rest = bitmap(row, 0)?;
                rest.subtract(&Bitmap::from_iter([number(row, 1)]));
                Ok(sketch(&rest))
            },
        ),
    ]
}

fn counts() -> Vec<RowFunction> {
    let of_many =
        |name, does| RowFunction::fallible(name, SKETCH, (1, MANY), Kind::Int, does).sees_null();
    let less: fn(&Row<'_>) -> Given =
        |row| Ok(count(folded(row, Bitmap::subtract)?.map_or(0, |rest| rest.count())));
    vec![
        RowFunction::fallible("bitmap_count", SKETCH, (1, 1), Kind::Int, |row| {
            Ok(count(if row.null(0) { 0 } else { bitmap(row, 0)?.count() }))
        })
        .sees_null(),
        RowFunction::fallible("hll_cardinality", SKETCH, (1, 1), Kind::Int, |row| {
            Ok(count(if row.null(0) { 0 } else { hll(row, 0)?.count() }))
        })
        .sees_null(),
        of_many("bitmap_and_count", |row| {
            Ok(count(folded(row, Bitmap::intersect)?.map_or(0, |all| all.count())))
        }),
        of_many("bitmap_xor_count", |row| {
            Ok(count(folded(row, Bitmap::differ)?.map_or(0, |all| all.count())))
        }),
        of_many("bitmap_or_count", |row| Ok(count(united(row)?.map_or(0, |all| all.count())))),
        RowFunction::fallible("bitmap_and_not_count", SKETCH, (2, 2), Kind::Int, less).sees_null(),
        RowFunction::fallible("bitmap_andnot_count", SKETCH, (2, 2), Kind::Int, less).sees_null(),
    ]
}

fn questions() -> Vec<RowFunction> {
    let of_two = |name, does| RowFunction::fallible(name, SKETCH, (2, 2), Kind::Bool, does);
    let of_one = |name, kind, does| RowFunction::fallible(name, SKETCH, (1, 1), kind, does);
    vec![
        of_two("bitmap_has_any", |row| {
            Ok(Some(Out::Bool(bitmap(row, 0)?.meets(&bitmap(row, 1)?))))
        }),
        of_two("bitmap_has_all", |row| {
            Ok(Some(Out::Bool(bitmap(row, 0)?.covers(&bitmap(row, 1)?))))
        }),
        RowFunction::fallible(
            "bitmap_contains",
            &[Kind::Sketch, Kind::Int],
            (2, 2),
            Kind::Bool,
            |row| Ok(Some(Out::Bool(bitmap(row, 0)?.contains(number(row, 1))))),
        ),
        of_one("bitmap_min", Kind::UInt, |row| Ok(bitmap(row, 0)?.min().map(Out::UInt))),
        of_one("bitmap_max", Kind::UInt, |row| Ok(bitmap(row, 0)?.max().map(Out::UInt))),
        of_one("bitmap_to_string", Kind::Text, to_string),
        of_one("bitmap_to_base64", Kind::Text, |row| {
            Ok(Some(Out::Text(STANDARD.encode(bitmap(row, 0)?.to_bytes()))))
        }),
        of_one("hll_to_base64", Kind::Text, |row| {
            Ok(Some(Out::Text(STANDARD.encode(hll(row, 0)?.to_doris()))))
        }),
    ]
}

pub fn all() -> Vec<ScalarUDF> {
    let all = [makers(), changes(), counts(), questions()];
    all.into_iter().flatten().map(RowFunction::udf).collect()
}
