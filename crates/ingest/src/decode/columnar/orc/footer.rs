//! What an ORC file says of itself: at its end of its stripes and types, and behind each stripe of
//! its streams.

use std::ops::Range;

use arrow::datatypes::{
    DataType, Field as ArrowField, Fields, Schema, TimeUnit, UnionFields, UnionMode,
};
use freshet_base::{Result, bail, err};
use freshet_schema::nested::{ITEM, KEY, NESTING_MAX, VALUE};
use freshet_schema::{DECIMAL_PRECISION_MAX, Zone};

use super::super::file::FileBytes;
use super::damaged;
use super::message::{Field, fields};
use super::stream::{BLOCK_BYTES_MAX, Packed, Packing, Stream};

const MAGIC: &[u8] = b"ORC";
/// The longest footer of a file or a stripe, unpacked.
const FOOTER_BYTES_MAX: usize = 4 << 20;
/// The most memory that is taken for a footer, and for what was read of it.
pub const FOOTER_MEMORY_BYTES: usize = 6 * FOOTER_BYTES_MAX;
/// The size of blocks of files that do not say it.
const BLOCK_BYTES: u64 = 256 << 10;
/// The most columns, nested ones included.
const TYPES_MAX: usize = 20_000;
/// The most stripes of a file, and the most streams of a stripe.
const STRIPES_MAX: usize = 100_000;
const STREAMS_MAX: usize = 8 * TYPES_MAX;

/// What the values of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Boolean,
    Byte,
    Int,
    Float,
    Double,
    Text,
    Binary,
    /// Of local time, or of an instant.
    Moment {
        is_instant: bool,
    },
    Date,
    Decimal {
        precision: u8,
        scale: i8,
    },
    List,
    Map,
    Struct,
    /// Unions, and what nests deeper than columns of tables do.
    Other,
}

impl Kind {
    /// The type of its values in a batch, where no others stand inside.
    fn arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Byte | Self::Int => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Moment { is_instant } => {
                DataType::Timestamp(TimeUnit::Microsecond, is_instant.then(|| "+00:00".into()))
            }
            Self::Date => DataType::Date32,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Self::List | Self::Map | Self::Struct | Self::Other => {
                DataType::Union(UnionFields::empty(), UnionMode::Sparse)
            }
        }
    }
}

/// A column: its number among all types, and what it holds.
#[derive(Clone, Debug)]
pub struct Column {
    pub number: u64,
    pub name: String,
    pub kind: Kind,
    /// What lists, maps and structs consist of.
    pub inside: Vec<Column>,
}

impl Column {
    fn field(&self) -> ArrowField {
        ArrowField::new(&self.name, self.arrow(), true)
    }

    fn arrow(&self) -> DataType {
        match (self.kind, &*self.inside) {
            (Kind::List, [item]) => DataType::List(item.field().into()),
            (Kind::Map, [key, value]) => {
                let key = key.field().with_nullable(false);
                let entries = DataType::Struct(Fields::from(vec![key, value.field()]));
                DataType::Map(ArrowField::new("entries", entries, false).into(), false)
            }
            (Kind::Struct, inside) => DataType::Struct(inside.iter().map(Self::field).collect()),
            (kind, _) => kind.arrow(),
        }
    }

    /// The first column, of this one and those inside, whose values cannot be read.
    pub fn unreadable(&self) -> Option<&Self> {
        match self.kind {
            Kind::Other => Some(self),
            _ => self.inside.iter().find_map(Self::unreadable),
        }
    }
}

/// Where a stripe is, and how many rows it says it has.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stripe {
    offset: u64,
    index_bytes: u64,
    data_bytes: u64,
    footer_bytes: u64,
    pub rows: u64,
}

/// What the end of a file says.
#[derive(Clone, Debug)]
pub struct Footer {
    pub packed: Packed,
    pub columns: Vec<Column>,
    pub stripes: Vec<Stripe>,
}

#[derive(Default)]
struct Type {
    kind: u64,
    children: Vec<u64>,
    names: Vec<String>,
    precision: u64,
    scale: u64,
}

impl Footer {
    /// Reads the end of a file.
    ///
    /// # Errors
    /// `WrongArguments` for what is no ORC file, or is damaged.
    pub fn read(file: &FileBytes) -> Result<Self> {
        let no_file = || err!(WrongArguments, "the body is no ORC file");
        let end = file.len_bytes().checked_sub(1).filter(|end| *end > MAGIC.len() as u64);
        let end = end.ok_or_else(no_file)?;
        if file.part(0, MAGIC.len())?[..] != *MAGIC {
            return Err(no_file());
        }
        let bytes = u64::from(file.part(end, 1)?[0]);
        let start = end.checked_sub(bytes).ok_or_else(no_file)?;
        let post = file.part(start, bytes as usize)?;
        let (packed, footer_bytes) = postscript(&post)?;
        let footer = start.checked_sub(footer_bytes);
        let footer = footer.ok_or_else(|| damaged("its footer is longer than the file"))?;
        let footer = Stream::new(file, packed, footer..start).all(FOOTER_BYTES_MAX)?;
        Self::of(&footer, packed)
    }

    fn of(footer: &[u8], packed: Packed) -> Result<Self> {
        let (mut types, mut stripes) = (Vec::new(), Vec::new());
        let mut names_left = TYPES_MAX;
        fields(footer, |number, field| {
            match number {
                3 if stripes.len() == STRIPES_MAX => {
                    bail!(WrongArguments, "the ORC file has more than {STRIPES_MAX} stripes")
                }
                3 => stripes.push(stripe(field.bytes()?)?),
                4 if types.len() == TYPES_MAX => bail!(
                    WrongArguments,
                    "the ORC file has more than {TYPES_MAX} columns, nested ones included"
                ),
                4 => types.push(one_type(field.bytes()?, &mut names_left)?),
                10 => bail!(NotSupported, "the ORC file is encrypted, which is not supported"),
                _ => {}
            }
            Ok(())
        })?;
        let columns = Types { types: &types, last: 0 }.columns()?;
        Ok(Self { packed, columns, stripes })
    }

    /// The columns as those of a batch.
    pub fn schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(Column::field).collect::<Vec<_>>())
    }
}

/// How the file is packed, and the length of its footer.
fn postscript(post: &[u8]) -> Result<(Packed, u64)> {
    let (mut packing, mut footer_bytes, mut block_bytes) = (0, 0, BLOCK_BYTES);
    let mut is_orc = false;
    fields(post, |number, field| {
        match number {
            1 => footer_bytes = field.number()?,
            2 => packing = field.number()?,
            3 => block_bytes = field.number()?,
            8000 => is_orc = field.bytes()? == MAGIC,
            _ => {}
        }
        Ok(())
    })?;
    if !is_orc {
        bail!(WrongArguments, "the ORC file has no end: it was not written or sent as a whole");
    }
    let packing = match packing {
        0 => Packing::None,
        1 => Packing::Zlib,
        2 => Packing::Snappy,
        4 => Packing::Lz4,
        5 => Packing::Zstd,
        _ => bail!(
            NotSupported,
            "the ORC file is packed in a way that is not supported; zlib, snappy, lz4 and zstd are"
        ),
    };
    let block_bytes = match usize::try_from(block_bytes) {
        Ok(bytes @ 1..=BLOCK_BYTES_MAX) => bytes,
        _ => bail!(
            WrongArguments,
            "the blocks of the ORC file have {block_bytes} bytes, and may have {BLOCK_BYTES_MAX}"
        ),
    };
    Ok((Packed { packing, block_bytes }, footer_bytes))
}

fn stripe(message: &[u8]) -> Result<Stripe> {
    let mut stripe = Stripe::default();
    fields(message, |number, field| {
        let place = match number {
            1 => &mut stripe.offset,
            2 => &mut stripe.index_bytes,
            3 => &mut stripe.data_bytes,
            4 => &mut stripe.footer_bytes,
            5 => &mut stripe.rows,
            _ => return Ok(()),
        };
        *place = field.number()?;
        Ok(())
    })?;
    Ok(stripe)
}

/// Reads a type; those of a file have at most `names_left` names together.
fn one_type(message: &[u8], names_left: &mut usize) -> Result<Type> {
    let mut one = Type::default();
    fields(message, |number, field| {
        match number {
            1 => one.kind = field.number()?,
            2 => field.numbers(TYPES_MAX, &mut one.children)?,
            3 => {
                let left = names_left.checked_sub(1);
                *names_left = left.ok_or_else(|| damaged("it has more names than columns"))?;
                one.names.push(field.text()?.to_owned());
            }
            5 => one.precision = field.number()?,
            6 => one.scale = field.number()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(one)
}

/// The types of a file, each in front of those inside it.
struct Types<'a> {
    types: &'a [Type],
    /// The number of the one that was taken last: none is taken twice.
    last: u64,
}

impl Types<'_> {
    /// The columns of the struct that each row is.
    fn columns(&mut self) -> Result<Vec<Column>> {
        const STRUCT: u64 = 12;
        let root = self.types.first().filter(|root| root.kind == STRUCT);
        let root = root.filter(|root| root.children.len() == root.names.len());
        let root = root.ok_or_else(|| damaged("its rows have no named columns"))?;
        let children = root.children.iter().zip(&root.names);
        children.map(|(number, name)| self.column(*number, name, 0)).collect()
    }

    fn column(&mut self, number: u64, name: &str, depth: usize) -> Result<Column> {
        let ty = usize::try_from(number).ok().and_then(|at| self.types.get(at));
        let ty = ty.ok_or_else(|| damaged("a column of it has no type"))?;
        if number <= self.last {
            return Err(damaged("its types are in no order"));
        }
        self.last = number;
        let mut column =
            Column { number, name: name.to_owned(), kind: kind(ty)?, inside: Vec::new() };
        let own = || ty.names.iter().map(String::as_str).collect();
        let names: Vec<&str> = match column.kind {
            Kind::List => vec![ITEM],
            Kind::Map => vec![KEY, VALUE],
            Kind::Struct => own(),
            _ => return Ok(column),
        };
        if names.len() != ty.children.len() {
            return Err(damaged("a list, map or struct of it lacks types"));
        }
        if depth == NESTING_MAX {
            column.kind = Kind::Other;
            return Ok(column);
        }
        let inside = ty.children.iter().zip(names);
        let inside = inside.map(|(number, name)| self.column(*number, name, depth + 1));
        column.inside = inside.collect::<Result<_>>()?;
        Ok(column)
    }
}

fn kind(ty: &Type) -> Result<Kind> {
    Ok(match ty.kind {
        0 => Kind::Boolean,
        1 => Kind::Byte,
        2..=4 => Kind::Int,
        5 => Kind::Float,
        6 => Kind::Double,
        7 | 16 | 17 => Kind::Text,
        8 => Kind::Binary,
        9 => Kind::Moment { is_instant: false },
        10 => Kind::List,
        11 => Kind::Map,
        12 => Kind::Struct,
        13 => Kind::Other,
        14 => {
            // Files of old writers do not say them.
            let (precision, scale) = match ty.precision {
                0 => (u64::from(DECIMAL_PRECISION_MAX), 10),
                precision => (precision, ty.scale),
            };
            match (u8::try_from(precision), i8::try_from(scale)) {
                (Ok(precision @ 1..=DECIMAL_PRECISION_MAX), Ok(scale))
                    if scale.unsigned_abs() <= precision =>
                {
                    Kind::Decimal { precision, scale }
                }
                _ => return Err(damaged("a DECIMAL of it has too many digits")),
            }
        }
        15 => Kind::Date,
        18 => Kind::Moment { is_instant: true },
        _ => return Err(damaged("a column of it is of no known type")),
    })
}

/// Which part of a column a stream has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Present,
    Data,
    Length,
    DictionaryData,
    Secondary,
}

/// A stream of a stripe.
struct Placed {
    part: Part,
    column: u64,
    range: Range<u64>,
}

/// How a column is encoded.
#[derive(Clone, Copy, Default, Debug)]
pub struct Encoding {
    pub is_dictionary: bool,
    /// Whether its integers are of the second version.
    pub is_new: bool,
    pub dictionary_size: u64,
}

/// What is in a stripe.
pub struct StripeFooter {
    /// By column.
    streams: Vec<Placed>,
    encodings: Vec<Encoding>,
    pub zone: Zone,
}

impl StripeFooter {
    /// Reads the footer of a stripe.
    ///
    /// # Errors
    /// When it is damaged, or has more than its file.
    pub fn read(file: &FileBytes, packed: Packed, stripe: &Stripe) -> Result<Self> {
        let sizes = [stripe.index_bytes, stripe.data_bytes, stripe.footer_bytes];
        let end = sizes.iter().try_fold(stripe.offset, |end, bytes| end.checked_add(*bytes));
        let end = end.filter(|end| *end <= file.len_bytes());
        let end = end.ok_or_else(|| damaged("a stripe of it is longer than the file"))?;
        let start = end - stripe.footer_bytes;
        let message = Stream::new(file, packed, start..end).all(FOOTER_BYTES_MAX)?;
        let mut read = Self { streams: Vec::new(), encodings: Vec::new(), zone: Zone::UTC };
        let mut at = stripe.offset;
        fields(&message, |number, field| {
            match number {
                1 => read.add_stream(field, &mut at, start)?,
                2 if read.encodings.len() < TYPES_MAX => {
                    read.encodings.push(encoding(field.bytes()?)?);
                }
                3 => {
                    let name = field.text()?;
                    let zone = if name.is_empty() { Some(Zone::UTC) } else { Zone::parse(name) };
                    read.zone = zone.ok_or_else(|| {
                        err!(
                            WrongArguments,
                            "the ORC file has times of zone '{name}', which is \
                             not known"
                        )
                    })?;
                }
                _ => {}
            }
            Ok(())
        })?;
        read.streams.sort_by_key(|one| one.column);
        Ok(read)
    }

    fn add_stream(&mut self, field: Field<'_>, at: &mut u64, end_max: u64) -> Result<()> {
        let (mut kind, mut column, mut bytes) = (0, 0, 0);
        fields(field.bytes()?, |number, field| {
            match number {
                1 => kind = field.number()?,
                2 => column = field.number()?,
                3 => bytes = field.number()?,
                _ => {}
            }
            Ok(())
        })?;
        let end = at.checked_add(bytes).filter(|end| *end <= end_max);
        let end = end.ok_or_else(|| damaged("a stream of it is longer than its stripe"))?;
        let range = std::mem::replace(at, end)..end;
        let part = match kind {
            0 => Part::Present,
            1 => Part::Data,
            2 => Part::Length,
            3 => Part::DictionaryData,
            5 => Part::Secondary,
            // Indexes, filters and statistics.
            _ => return Ok(()),
        };
        if self.streams.len() == STREAMS_MAX {
            bail!(WrongArguments, "a stripe of the ORC file has more than {STREAMS_MAX} streams");
        }
        self.streams.push(Placed { part, column, range });
        Ok(())
    }

    /// The encoding of a column.
    pub fn encoding(&self, column: u64) -> Encoding {
        let at = usize::try_from(column).unwrap_or(usize::MAX);
        self.encodings.get(at).copied().unwrap_or_default()
    }

    /// Where a part of a column is; nowhere if it has none.
    pub fn range(&self, column: u64, part: Part) -> Option<Range<u64>> {
        let found = self.of_column(column).iter().find(|one| one.part == part);
        found.map(|one| one.range.clone())
    }

    /// The lengths of the streams of a column.
    pub fn lengths(&self, column: u64) -> impl Iterator<Item = u64> {
        self.of_column(column).iter().map(|one| one.range.end - one.range.start)
    }

    fn of_column(&self, column: u64) -> &[Placed] {
        let start = self.streams.partition_point(|one| one.column < column);
        let end = self.streams.partition_point(|one| one.column <= column);
        &self.streams[start..end]
    }
}

fn encoding(message: &[u8]) -> Result<Encoding> {
    let mut encoding = Encoding::default();
    fields(message, |number, field| {
        match number {
            1 => {
                let kind = field.number()?;
                encoding.is_dictionary = matches!(kind, 1 | 3);
                encoding.is_new = matches!(kind, 2 | 3);
            }
            2 => encoding.dictionary_size = field.number()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(encoding)
}
