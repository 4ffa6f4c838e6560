//! Columns and their types.

use freshet_base::ColumnId;
use freshet_schema::value::nested::can_be_inside;
use freshet_schema::{
    Aggregate, BIT_LEN_MAX, CHAR_LEN_MAX, Collation, Column, ColumnType, DECIMAL_PRECISION_MAX,
    DefaultValue, FSP_MAX, Generated, LengthUnit, LobSize, VARCHAR_LEN_MAX,
};
use prost::{Message, Oneof};

use super::{OnDisk, Unreadable, ensure, numbered, required};

#[derive(Clone, PartialEq, Message)]
pub struct ColumnForm {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(bool, tag = "3")]
    non_negative: bool,
    #[prost(bool, tag = "4")]
    nullable: bool,
    #[prost(string, tag = "5")]
    comment: String,
    #[prost(uint32, tag = "6")]
    collation: u32,
    #[prost(uint32, tag = "7")]
    length_unit: u32,
    #[prost(string, optional, tag = "8")]
    before: Option<String>,
    #[prost(oneof = "DefaultForm", tags = "9, 10, 11, 12, 48")]
    default: Option<DefaultForm>,
    #[prost(uint64, optional, tag = "13")]
    auto_increment: Option<u64>,
    #[prost(uint32, optional, tag = "14")]
    aggregate: Option<u32>,
    #[prost(bool, tag = "15")]
    on_update_now: bool,
    #[prost(string, repeated, tag = "39")]
    labels: Vec<String>,
    #[prost(bool, tag = "41")]
    keyed_by_weights: bool,
    #[prost(message, repeated, tag = "46")]
    elements: Vec<ColumnForm>,
    #[prost(message, optional, tag = "47")]
    generated: Option<GeneratedForm>,
    #[prost(uint32, tag = "49")]
    lob_size: u32,
    #[prost(
        oneof = "TypeForm",
        tags = "16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, \
                36, 37, 38, 40, 42, 43, 44, 45, 60, 61, 62"
    )]
    ty: Option<TypeForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GeneratedForm {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(uint32, repeated, tag = "2")]
    columns: Vec<u32>,
    #[prost(bool, tag = "3")]
    is_stored: bool,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum DefaultForm {
    #[prost(string, tag = "9")]
    Literal(String),
    #[prost(string, tag = "10")]
    Bits(String),
    #[prost(message, tag = "11")]
    CurrentTimestamp(()),
    #[prost(message, tag = "12")]
    CurrentDate(()),
    #[prost(string, tag = "48")]
    Expression(String),
}

/// Integers have whether they are unsigned, temporal types their fraction digits, and texts their
/// length.
#[derive(Clone, PartialEq, Oneof)]
pub enum TypeForm {
    #[prost(message, tag = "16")]
    Boolean(()),
    #[prost(bool, tag = "17")]
    TinyInt(bool),
    #[prost(bool, tag = "18")]
    SmallInt(bool),
    #[prost(bool, tag = "19")]
    MediumInt(bool),
    #[prost(bool, tag = "20")]
    Int(bool),
    #[prost(bool, tag = "21")]
    BigInt(bool),
    #[prost(message, tag = "22")]
    LargeInt(()),
    #[prost(message, tag = "23")]
    Float(()),
    #[prost(message, tag = "24")]
    Double(()),
    #[prost(message, tag = "25")]
    Decimal(DecimalForm),
    #[prost(message, tag = "26")]
    Date(()),
    #[prost(uint32, tag = "27")]
    DateTime(u32),
    #[prost(uint32, tag = "28")]
    Timestamp(u32),
    #[prost(uint32, tag = "29")]
    Char(u32),
    #[prost(uint32, tag = "30")]
    VarChar(u32),
    #[prost(message, tag = "31")]
    Text(()),
    #[prost(uint32, tag = "32")]
    VarBinary(u32),
    #[prost(message, tag = "33")]
    Blob(()),
    #[prost(message, tag = "34")]
    Json(()),
    #[prost(uint32, tag = "35")]
    Time(u32),
    #[prost(message, tag = "36")]
    Year(()),
    #[prost(uint32, tag = "37")]
    Enum(u32),
    #[prost(uint32, tag = "38")]
    Set(u32),
    #[prost(uint32, tag = "40")]
    Bit(u32),
    #[prost(message, tag = "60")]
    Bitmap(()),
    #[prost(message, tag = "61")]
    Hll(()),
    #[prost(uint32, tag = "62")]
    Binary(u32),
    #[prost(message, tag = "42")]
    Variant(()),
    #[prost(message, tag = "43")]
    Array(()),
    #[prost(message, tag = "44")]
    Map(()),
    #[prost(message, tag = "45")]
    Struct(()),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct DecimalForm {
    #[prost(uint32, tag = "1")]
    precision: u32,
    #[prost(uint32, tag = "2")]
    scale: u32,
}

numbered!(Aggregate {
    Sum = 1,
    Min = 2,
    Max = 3,
    Replace = 4,
    ReplaceIfNotNull = 5,
    BitmapUnion = 6,
    HllUnion = 7,
});
numbered!(Collation {
    Binary = 1,
    Utf8mb4Bin = 2,
    Utf8mb40900Bin = 3,
    Utf8mb40900AiCi = 4,
    Utf8mb40900AsCi = 5,
    Utf8mb40900AsCs = 6,
    Utf8mb4GeneralCi = 7,
    Utf8mb4UnicodeCi = 8,
    Utf8mb4Unicode520Ci = 9,
});
numbered!(LengthUnit { Bytes = 1, Characters = 2 });
numbered!(LobSize { Plain = 0, Tiny = 1, Medium = 2, Long = 3 });

impl OnDisk for Column {
    type Form = ColumnForm;

    fn form(&self) -> ColumnForm {
        ColumnForm {
            id: self.id.get(),
            name: self.name.clone(),
            non_negative: self.non_negative,
            nullable: self.nullable,
            comment: self.comment.clone(),
            collation: self.collation.form(),
            length_unit: self.length_unit.form(),
            before: self.before.clone(),
            auto_increment: self.auto_increment,
            aggregate: self.aggregate.map(|function| function.form()),
            on_update_now: self.on_update_now,
            labels: self.labels.to_vec(),
            elements: self.elements.iter().map(Self::form).collect(),
            keyed_by_weights: self.keyed_by_weights,
            generated: self.generated.as_ref().map(Generated::form),
            lob_size: self.lob_size.form(),
            default: self.default.as_ref().map(DefaultValue::form),
            ty: Some(self.ty.form()),
        }
    }

    fn from_form(form: ColumnForm) -> Result<Self, Unreadable> {
        let is_labelled = matches!(form.ty, Some(TypeForm::Enum(_) | TypeForm::Set(_)));
        ensure(is_labelled != form.labels.is_empty(), "a list of texts is missing, or too much")?;
        let elements = form.elements.into_iter().map(Self::from_form);
        let elements = elements.collect::<Result<Vec<_>, _>>()?;
        let is_whole = match form.ty {
            Some(TypeForm::Array(())) => elements.len() == 1,
            Some(TypeForm::Map(())) => elements.len() == 2 && !elements[0].ty.is_nested(),
            Some(TypeForm::Struct(())) => !elements.is_empty(),
            _ => elements.is_empty(),
        };
        ensure(is_whole, "a nested type lacks a part, or has too much")?;
        let inside = |element: &Column| element.ty.is_nested() || can_be_inside(element.ty);
        ensure(elements.iter().all(inside), "a nested type has a part that it cannot have")?;
        Ok(Self {
            id: ColumnId(form.id),
            name: form.name,
            ty: required(form.ty, "column type")?,
            non_negative: form.non_negative,
            nullable: form.nullable,
            default: form.default.map(DefaultValue::from_form).transpose()?,
            comment: form.comment,
            collation: Collation::from_form(form.collation)?,
            length_unit: LengthUnit::from_form(form.length_unit)?,
            before: form.before,
            auto_increment: form.auto_increment,
            aggregate: form.aggregate.map(Aggregate::from_form).transpose()?,
            on_update_now: form.on_update_now,
            labels: form.labels.into(),
            elements: elements.into(),
            keyed_by_weights: form.keyed_by_weights,
            generated: form.generated.map(Generated::from_form).transpose()?,
            lob_size: LobSize::from_form(form.lob_size)?,
        })
    }
}

impl OnDisk for Generated {
    type Form = GeneratedForm;

    fn form(&self) -> GeneratedForm {
        GeneratedForm {
            text: self.text.clone(),
            columns: self.columns.iter().map(|column| column.get()).collect(),
            is_stored: self.is_stored,
        }
    }

    fn from_form(form: GeneratedForm) -> Result<Self, Unreadable> {
        let GeneratedForm { text, columns, is_stored } = form;
        ensure(!text.is_empty(), "a generated column has no expression")?;
        Ok(Self { text, columns: columns.into_iter().map(ColumnId).collect(), is_stored })
    }
}

impl OnDisk for DefaultValue {
    type Form = DefaultForm;

    fn form(&self) -> DefaultForm {
        match self {
            Self::Literal(text) => DefaultForm::Literal(text.clone()),
            Self::Bits(digits) => DefaultForm::Bits(digits.clone()),
            Self::CurrentTimestamp => DefaultForm::CurrentTimestamp(()),
            Self::CurrentDate => DefaultForm::CurrentDate(()),
            Self::Expression(text) => DefaultForm::Expression(text.clone()),
        }
    }

    fn from_form(form: DefaultForm) -> Result<Self, Unreadable> {
        Ok(match form {
            DefaultForm::Literal(text) => Self::Literal(text),
            DefaultForm::Bits(digits) => Self::Bits(digits),
            DefaultForm::CurrentTimestamp(()) => Self::CurrentTimestamp,
            DefaultForm::CurrentDate(()) => Self::CurrentDate,
            DefaultForm::Expression(text) => {
                ensure(!text.is_empty(), "a default has no expression")?;
                Self::Expression(text)
            }
        })
    }
}

impl OnDisk for ColumnType {
    type Form = TypeForm;

    fn form(&self) -> TypeForm {
        match *self {
            Self::Boolean => TypeForm::Boolean(()),
            Self::TinyInt { unsigned } => TypeForm::TinyInt(unsigned),
            Self::SmallInt { unsigned } => TypeForm::SmallInt(unsigned),
            Self::MediumInt { unsigned } => TypeForm::MediumInt(unsigned),
            Self::Int { unsigned } => TypeForm::Int(unsigned),
            Self::BigInt { unsigned } => TypeForm::BigInt(unsigned),
            Self::LargeInt => TypeForm::LargeInt(()),
            Self::Float => TypeForm::Float(()),
            Self::Double => TypeForm::Double(()),
            Self::Decimal { precision, scale } => {
                let (precision, scale) = (precision.into(), scale.into());
                TypeForm::Decimal(DecimalForm { precision, scale })
            }
            Self::Date => TypeForm::Date(()),
            Self::DateTime { fsp } => TypeForm::DateTime(fsp.into()),
            Self::Timestamp { fsp } => TypeForm::Timestamp(fsp.into()),
            Self::Char { len } => TypeForm::Char(len),
            Self::VarChar { len } => TypeForm::VarChar(len),
            Self::Text => TypeForm::Text(()),
            Self::Binary { len } => TypeForm::Binary(len),
            Self::VarBinary { len } => TypeForm::VarBinary(len),
            Self::Blob => TypeForm::Blob(()),
            Self::Json => TypeForm::Json(()),
            Self::Variant => TypeForm::Variant(()),
            Self::Array => TypeForm::Array(()),
            Self::Map => TypeForm::Map(()),
            Self::Struct => TypeForm::Struct(()),
            Self::Time { fsp } => TypeForm::Time(fsp.into()),
            Self::Year => TypeForm::Year(()),
            Self::Bit { len } => TypeForm::Bit(len.into()),
            Self::Enum { len } => TypeForm::Enum(len),
            Self::Set { len } => TypeForm::Set(len),
            Self::Bitmap => TypeForm::Bitmap(()),
            Self::Hll => TypeForm::Hll(()),
        }
    }

    fn from_form(form: TypeForm) -> Result<Self, Unreadable> {
        // What does not fit is above every limit.
        let digits = |digits: u32| u8::try_from(digits).unwrap_or(u8::MAX);
        let ty = match form {
            TypeForm::Boolean(()) => Self::Boolean,
            TypeForm::TinyInt(unsigned) => Self::TinyInt { unsigned },
            TypeForm::SmallInt(unsigned) => Self::SmallInt { unsigned },
            TypeForm::MediumInt(unsigned) => Self::MediumInt { unsigned },
            TypeForm::Int(unsigned) => Self::Int { unsigned },
            TypeForm::BigInt(unsigned) => Self::BigInt { unsigned },
            TypeForm::LargeInt(()) => Self::LargeInt,
            TypeForm::Float(()) => Self::Float,
            TypeForm::Double(()) => Self::Double,
            TypeForm::Decimal(DecimalForm { precision, scale }) => {
                Self::Decimal { precision: digits(precision), scale: digits(scale) }
            }
            TypeForm::Date(()) => Self::Date,
            TypeForm::DateTime(fsp) => Self::DateTime { fsp: digits(fsp) },
            TypeForm::Timestamp(fsp) => Self::Timestamp { fsp: digits(fsp) },
            TypeForm::Char(len) => Self::Char { len },
            TypeForm::VarChar(len) => Self::VarChar { len },
            TypeForm::Text(()) => Self::Text,
            TypeForm::Binary(len) => Self::Binary { len },
            TypeForm::VarBinary(len) => Self::VarBinary { len },
            TypeForm::Blob(()) => Self::Blob,
            TypeForm::Json(()) => Self::Json,
            TypeForm::Variant(()) => Self::Variant,
            TypeForm::Array(()) => Self::Array,
            TypeForm::Map(()) => Self::Map,
            TypeForm::Struct(()) => Self::Struct,
            TypeForm::Time(fsp) => Self::Time { fsp: digits(fsp) },
            TypeForm::Year(()) => Self::Year,
            TypeForm::Bit(len) => Self::Bit { len: digits(len) },
            TypeForm::Enum(len) => Self::Enum { len },
            TypeForm::Set(len) => Self::Set { len },
            TypeForm::Bitmap(()) => Self::Bitmap,
            TypeForm::Hll(()) => Self::Hll,
        };
        ensure(is_within_limits(ty), "a column's length or digits are out of range")?;
        Ok(ty)
    }
}

fn is_within_limits(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Char { len } | ColumnType::Binary { len } => len <= CHAR_LEN_MAX,
        ColumnType::Bit { len } => (1..=BIT_LEN_MAX).contains(&len),
        ColumnType::VarChar { len } | ColumnType::VarBinary { len } => len <= VARCHAR_LEN_MAX,
        ColumnType::Decimal { precision, scale } => {
            (1..=DECIMAL_PRECISION_MAX).contains(&precision) && scale <= precision
        }
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } | ColumnType::Time { fsp } => {
            fsp <= FSP_MAX
        }
        _ => true,
    }
}
