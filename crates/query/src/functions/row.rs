//! Functions defined by their result for one row. Arguments are converted by column with MySQL's
//! rules; by default the result is NULL if any argument is NULL.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanBuilder, Date32Array, Date32Builder,
    DurationMicrosecondArray, DurationMicrosecondBuilder, Float64Array, Float64Builder,
    GenericByteViewBuilder, Int64Array, Int64Builder, LargeBinaryArray, LargeBinaryBuilder,
    StringViewArray, TimestampMicrosecondArray, TimestampMicrosecondBuilder, UInt64Builder,
};
use arrow::compute::cast;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, Field, FieldRef, StringViewType};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility,
};

use freshet_base::ErrorCode;

use super::meaning::{self, Digits};
use super::udf::{FunctionImpl, Udf};
use super::zero_dates::without;
use crate::evaluation::{Evaluation, Meter};
use crate::{convert, sketches, temporal};

pub use super::meaning::Source;
pub use super::udf::MANY;

/// Rows between checks for cancellation.
const ROWS_BETWEEN_CHECKS: usize = 64;

/// Memory for a row that is not accounted for.
const UNCOUNTED_BYTES: usize = 64 << 10;

/// The type of an argument or result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Text,
    Bytes,
    /// A BITMAP or HLL in its stored form.
    Sketch,
    /// JSON, only as a result; an argument has the kind `Text` and reveals by [`Row::source`]
    /// whether it is JSON.
    Json,
    Int,
    /// Only as a result.
    UInt,
    Double,
    DateTime,
    Date,
    Time,
    /// Only as a result.
    Bool,
}

impl Kind {
    /// The corresponding Arrow type.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Text | Self::Json => DataType::Utf8View,
            Self::Bytes => DataType::BinaryView,
            Self::Sketch => convert::SKETCH,
            Self::Int => DataType::Int64,
            Self::UInt => DataType::UInt64,
            Self::Double => DataType::Float64,
            Self::DateTime => convert::DATETIME,
            Self::Date => DataType::Date32,
            Self::Time => convert::TIME,
            Self::Bool => DataType::Boolean,
        }
    }
}

/// The result of a function for one row.
#[derive(Clone, PartialEq, Debug)]
pub enum Out {
    Text(String),
    Bytes(Vec<u8>),
    Sketch(Vec<u8>),
    Int(i64),
    UInt(u64),
    Double(f64),
    /// Microseconds since 1970.
    DateTime(i64),
    /// Days since 1970.
    Date(i32),
    /// Microseconds.
    Time(i64),
    Bool(bool),
    /// Text or bytes longer than `max_allowed_packet`, which were not computed: results in NULL
    /// and a warning.
    TooLong,
}

/// The result for a row; `None` is NULL.
#[derive(Clone, Copy, Debug)]
enum Body {
    Plain(fn(&Row<'_>) -> Option<Out>),
    /// Like `Plain`, for a function that fails on some values.
    Try(fn(&Row<'_>) -> Result<Option<Out>>),
}

#[derive(Debug)]
pub struct RowFunction {
    name: &'static str,
    arity: (usize, usize),
    volatility: Volatility,
    does: RowFunctionImpl,
}

#[derive(Debug)]
struct RowFunctionImpl {
    /// The kinds of the arguments; the last one also applies to further arguments.
    args: &'static [Kind],
    result: Kind,
    sees_null: bool,
    sees_zero_dates: bool,
    of_bytes: bool,
    digits: Digits,
    does: Body,
}

impl RowFunction {
    fn with(
        name: &'static str,
        args: &'static [Kind],
        arity: (usize, usize),
        result: Kind,
        does: Body,
    ) -> Self {
        let (sees_null, sees_zero_dates, of_bytes) = (false, false, false);
        let digits = Digits::Each;
        let does =
            RowFunctionImpl { args, result, sees_null, sees_zero_dates, of_bytes, digits, does };
        Self { name, arity, volatility: Volatility::Immutable, does }
    }

    /// A function with `arity.0` to `arity.1` arguments.
    pub fn new(
        name: &'static str,
        args: &'static [Kind],
        arity: (usize, usize),
        result: Kind,
        body: fn(&Row<'_>) -> Option<Out>,
    ) -> Self {
        Self::with(name, args, arity, result, Body::Plain(body))
    }

    /// Like [`Self::new`], for a function that fails on some values.
    pub fn fallible(
        name: &'static str,
        args: &'static [Kind],
        arity: (usize, usize),
        result: Kind,
        body: fn(&Row<'_>) -> Result<Option<Out>>,
    ) -> Self {
        Self::with(name, args, arity, result, Body::Try(body))
    }

    /// Also calls the function for rows with NULL arguments.
    #[must_use]
    pub fn sees_null(mut self) -> Self {
        self.does.sees_null = true;
        self
    }

    /// Also calls the function for the zero date, which is NULL to others.
    #[must_use]
    pub fn sees_zero_dates(mut self) -> Self {
        self.does.sees_zero_dates = true;
        self
    }

    /// If one of the text arguments is bytes, treats all of them as bytes: each byte is a
    /// character, and a text result becomes bytes.
    #[must_use]
    pub fn of_bytes(mut self) -> Self {
        self.does.of_bytes = true;
        self
    }

    /// Evaluates the function anew for each row, even if the arguments are constant.
    #[must_use]
    pub fn volatile(mut self) -> Self {
        self.volatility = Volatility::Volatile;
        self
    }

    /// Sets the number of fractional digits that the results display.
    #[must_use]
    pub fn showing(mut self, digits: Digits) -> Self {
        self.does.digits = digits;
        self
    }

    pub fn udf(self) -> ScalarUDF {
        Udf::scalar(self.name, self.arity, self.volatility, self.does)
    }
}

impl RowFunctionImpl {
    fn kind(&self, at: usize) -> Kind {
        let last = *self.args.last().expect("a function with arguments names their kinds");
        self.args.get(at).copied().unwrap_or(last)
    }

    /// Whether arguments of these fields are treated as bytes.
    fn on_bytes(&self, fields: &[FieldRef]) -> bool {
        let bytes = |(at, field): (usize, &FieldRef)| {
            self.kind(at) == Kind::Text && convert::is_binary(field.data_type())
        };
        self.of_bytes && fields.iter().enumerate().any(bytes)
    }

    /// The kind of the result for arguments of these fields.
    fn result(&self, fields: &[FieldRef]) -> Kind {
        match self.result {
            Kind::Text if self.on_bytes(fields) => Kind::Bytes,
            result => result,
        }
    }
}

impl FunctionImpl for RowFunctionImpl {
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        for (at, arg) in args.arg_fields.iter().enumerate() {
            match self.kind(at) {
                Kind::Sketch => sketches::check(name, arg.data_type())?,
                _ if *arg.data_type() == convert::SKETCH => return Err(sketches::wrong_use()),
                _ => {}
            }
        }
        if self.result == Kind::Json {
            return Ok(meaning::json(name));
        }
        Ok(self.digits.field(name, self.result(args.arg_fields).arrow(), args))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let result = self.result(&args.arg_fields);
        let on_bytes = self.on_bytes(&args.arg_fields);
        let columns = args
            .args
            .iter()
            .zip(&args.arg_fields)
            .enumerate()
            .map(|(at, (arg, field))| {
                let column = Column::new(arg, self.kind(at), field, on_bytes)?;
                Ok(if self.sees_zero_dates { column } else { column.without_zero_dates() })
            })
            .collect::<Result<Vec<_>>>()?;
        let evaluation = Evaluation::of(&args.config_options);
        let _guard = evaluation.enter()?;
        let mut sink = Sink::new(result, rows);
        let mut meter = Meter::new(&evaluation, args.return_field.name(), rows);
        for at in 0..rows {
            if at % ROWS_BETWEEN_CHECKS == 0 {
                evaluation.check()?;
            }
            let held = RefCell::new(None);
            let row = Row { columns: &columns, at, evaluation: &evaluation, held };
            let null = !self.sees_null && (0..columns.len()).any(|column| row.null(column));
            let out = match self.does {
                _ if null => None,
                Body::Plain(body) => body(&row),
                Body::Try(body) => body(&row)?,
            };
            sink.push(out, &mut meter)?;
        }
        Ok(sink.finish(meter))
    }
}

enum Values {
    Text(StringViewArray),
    Bytes(BinaryViewArray),
    Sketch(LargeBinaryArray),
    Int(Int64Array),
    Double(Float64Array),
    DateTime(TimestampMicrosecondArray),
    Date(Date32Array),
    Time(DurationMicrosecondArray),
}

/// Converts bytes to a text with one character per byte.
fn characters(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The bytes of a text made by [`characters`].
fn bytes_of(characters: &str) -> Vec<u8> {
    let byte =
        |character| u8::try_from(character).expect("bytes are put together in new ways only");
    characters.chars().map(byte).collect()
}

struct Column {
    values: Values,
    scalar: bool,
    source: Source,
}

impl Column {
    fn new(arg: &ColumnarValue, kind: Kind, field: &Field, on_bytes: bool) -> Result<Self> {
        let (mut array, scalar) = match arg {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        // Text has the displayed digits only; other conversions use all digits.
        if matches!(kind, Kind::Text | Kind::Bytes | Kind::Json) && meaning::hides_digits(field) {
            array = cast(&array, &meaning::shown_type(field))?;
        }
        let digits = meaning::text_digits(field);
        let values = match kind {
            Kind::Text if on_bytes => {
                let bytes = convert::bytes(&array, digits)?;
                let texts = bytes.iter().map(|bytes| bytes.map(characters));
                Values::Text(texts.collect::<StringViewArray>())
            }
            Kind::Text | Kind::Json => Values::Text(convert::text_showing(&array, digits)?),
            Kind::Bytes => Values::Bytes(convert::bytes(&array, digits)?),
            Kind::Sketch => Values::Sketch(cast(&array, &convert::SKETCH)?.as_binary().clone()),
            Kind::Int | Kind::UInt | Kind::Bool => Values::Int(convert::int(&array)?),
            Kind::Double => Values::Double(convert::double(&array)?),
            Kind::DateTime => Values::DateTime(convert::datetime(&array)?),
            Kind::Date => Values::Date(convert::date(&array)?),
            Kind::Time => Values::Time(convert::time(&array)?),
        };
        Ok(Self { values, scalar, source: Source::of(field) })
    }

    fn without_zero_dates(mut self) -> Self {
        self.values = match self.values {
            Values::DateTime(array) => Values::DateTime(without(array, temporal::is_zero)),
            Values::Date(array) => Values::Date(without(array, temporal::is_zero_day)),
            values => values,
        };
        self
    }

    fn array(&self) -> &dyn Array {
        match &self.values {
            Values::Text(array) => array,
            Values::Bytes(array) => array,
            Values::Sketch(array) => array,
            Values::Int(array) => array,
            Values::Double(array) => array,
            Values::DateTime(array) => array,
            Values::Date(array) => array,
            Values::Time(array) => array,
        }
    }
}

/// The arguments of one row.
pub struct Row<'a> {
    columns: &'a [Column],
    at: usize,
    evaluation: &'a Evaluation,
    /// Memory reserved until the row is finished.
    held: RefCell<Option<MemoryReservation>>,
}

macro_rules! accessor {
    ($(#[$doc:meta])* $name:ident, $kind:ident, $ty:ty) => {
        $(#[$doc])*
        ///
        ///
        /// # Panics
        /// When the argument was declared with another kind.
        pub fn $name(&self, arg: usize) -> $ty {
            let column = &self.columns[arg];
            let at = if column.scalar { 0 } else { self.at };
            match &column.values {
                Values::$kind(array) => array.value(at),
                _ => panic!("argument {arg} was declared of another kind"),
            }
        }
    };
}

impl Row<'_> {
    accessor!(
        /// An argument of kind `Text`.
        text, Text, &str
    );
    accessor!(
        /// An argument of kind `Bytes`.
        bytes, Bytes, &[u8]
    );
    accessor!(
        /// An argument of kind `Sketch`.
        sketch, Sketch, &[u8]
    );
    accessor!(
        /// An argument of kind `Int`.
        int, Int, i64
    );
    accessor!(
        /// An argument of kind `Double`.
        double, Double, f64
    );
    accessor!(
        /// An argument of kind `DateTime`, microseconds since 1970.
        datetime, DateTime, i64
    );
    accessor!(
        /// An argument of kind `Date`, days since 1970.
        date, Date, i32
    );
    accessor!(
        /// An argument of kind `Time`, microseconds.
        time, Time, i64
    );

    /// `max_allowed_packet`, the maximum length of a result.
    pub fn bytes_max(&self) -> usize {
        self.evaluation.bounds().packet_bytes_max
    }

    /// Adds a warning to the statement.
    pub fn warn(&self, code: ErrorCode, message: impl FnOnce() -> String) {
        self.evaluation.warn(code, message);
    }

    /// The next number of the sequence of a call, which begins with this seed.
    pub fn random(&self, call: i64, seed: i64) -> f64 {
        self.evaluation.random(call, seed)
    }

    /// Notes an id for LAST_INSERT_ID().
    pub fn note_insert_id(&self, id: u64) {
        self.evaluation.note_insert_id(id);
    }

    /// Reserves query memory until the row is finished.
    ///
    /// # Errors
    /// When the memory is exhausted.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        let mut held = self.held.borrow_mut();
        match &mut *held {
            Some(held) => held.try_grow(bytes)?,
            None => *held = Some(self.evaluation.take(bytes)?),
        }
        Ok(())
    }

    /// Like [`Self::hold`], but small amounts are not accounted for.
    ///
    /// # Errors
    /// Those of [`Self::hold`].
    pub fn hold_more(&self, bytes: usize) -> Result<()> {
        if bytes > UNCOUNTED_BYTES { self.hold(bytes) } else { Ok(()) }
    }

    /// The number of arguments.
    pub fn count(&self) -> usize {
        self.columns.len()
    }

    pub fn null(&self, arg: usize) -> bool {
        let column = &self.columns[arg];
        column.array().is_null(if column.scalar { 0 } else { self.at })
    }

    /// The original type of an argument of kind `Text`.
    pub fn source(&self, arg: usize) -> Source {
        self.columns[arg].source
    }

    /// An integer argument, or `otherwise` if it is not given.
    pub fn int_or(&self, arg: usize, otherwise: i64) -> i64 {
        if arg < self.count() { self.int(arg) } else { otherwise }
    }
}

enum Sink {
    Text(GenericByteViewBuilder<StringViewType>),
    Bytes(GenericByteViewBuilder<BinaryViewType>),
    Sketch(LargeBinaryBuilder),
    Int(Int64Builder),
    UInt(UInt64Builder),
    Double(Float64Builder),
    DateTime(TimestampMicrosecondBuilder),
    Date(Date32Builder),
    Time(DurationMicrosecondBuilder),
    Bool(BooleanBuilder),
}

impl Sink {
    fn new(kind: Kind, rows: usize) -> Self {
        match kind {
            Kind::Text | Kind::Json => Self::Text(GenericByteViewBuilder::with_capacity(rows)),
            Kind::Bytes => Self::Bytes(GenericByteViewBuilder::with_capacity(rows)),
            Kind::Sketch => Self::Sketch(LargeBinaryBuilder::with_capacity(rows, 0)),
            Kind::Int => Self::Int(Int64Builder::with_capacity(rows)),
            Kind::UInt => Self::UInt(UInt64Builder::with_capacity(rows)),
            Kind::Double => Self::Double(Float64Builder::with_capacity(rows)),
            Kind::DateTime => Self::DateTime(TimestampMicrosecondBuilder::with_capacity(rows)),
            Kind::Date => Self::Date(Date32Builder::with_capacity(rows)),
            Kind::Time => Self::Time(DurationMicrosecondBuilder::with_capacity(rows)),
            Kind::Bool => Self::Bool(BooleanBuilder::with_capacity(rows)),
        }
    }

    fn push(&mut self, out: Option<Out>, meter: &mut Meter<'_>) -> Result<()> {
        if let Some(Out::TooLong) = out {
            meter.too_long();
            self.push_null();
            return Ok(());
        }
        match (self, out) {
            (Self::Text(sink), Some(Out::Text(value))) => match meter.add(value.len())? {
                true => sink.append_value(value),
                false => sink.append_null(),
            },
            (Self::Bytes(sink), Some(Out::Bytes(value))) => match meter.add(value.len())? {
                true => sink.append_value(value),
                false => sink.append_null(),
            },
            (Self::Bytes(sink), Some(Out::Text(value))) => match meter.add(value.len())? {
                true => sink.append_value(bytes_of(&value)),
                false => sink.append_null(),
            },
            (Self::Sketch(sink), Some(Out::Sketch(value))) => match meter.add(value.len())? {
                true => sink.append_value(value),
                false => sink.append_null(),
            },
            (Self::Int(sink), Some(Out::Int(value))) => sink.append_value(value),
            (Self::UInt(sink), Some(Out::UInt(value))) => sink.append_value(value),
            (Self::Double(sink), Some(Out::Double(value))) => sink.append_value(value),
            // The result is NULL outside of years 0 to 9999.
            (Self::DateTime(sink), Some(Out::DateTime(value))) => {
                sink.append_option(Some(value).filter(|value| temporal::is_time(*value)));
            }
            (Self::Date(sink), Some(Out::Date(value))) => {
                let time = |days: &i32| temporal::is_time(i64::from(*days) * temporal::DAY);
                sink.append_option(Some(value).filter(time));
            }
            (Self::Time(sink), Some(Out::Time(value))) => sink.append_value(value),
            (Self::Bool(sink), Some(Out::Bool(value))) => sink.append_value(value),
            (sink, None) => sink.push_null(),
            (_, Some(out)) => panic!("a function returned {out:?} and declared another kind"),
        }
        Ok(())
    }

    fn push_null(&mut self) {
        match self {
            Self::Text(sink) => sink.append_null(),
            Self::Bytes(sink) => sink.append_null(),
            Self::Sketch(sink) => sink.append_null(),
            Self::Int(sink) => sink.append_null(),
            Self::UInt(sink) => sink.append_null(),
            Self::Double(sink) => sink.append_null(),
            Self::DateTime(sink) => sink.append_null(),
            Self::Date(sink) => sink.append_null(),
            Self::Time(sink) => sink.append_null(),
            Self::Bool(sink) => sink.append_null(),
        }
    }

    fn finish(self, meter: Meter<'_>) -> ArrayRef {
        match self {
            Self::Text(sink) => metered(sink, meter),
            Self::Bytes(sink) => metered(sink, meter),
            Self::Sketch(mut sink) => Arc::new(sink.finish()),
            Self::Int(mut sink) => Arc::new(sink.finish()),
            Self::UInt(mut sink) => Arc::new(sink.finish()),
            Self::Double(mut sink) => Arc::new(sink.finish()),
            Self::DateTime(mut sink) => Arc::new(sink.finish()),
            Self::Date(mut sink) => Arc::new(sink.finish()),
            Self::Time(mut sink) => Arc::new(sink.finish()),
            Self::Bool(mut sink) => Arc::new(sink.finish()),
        }
    }
}

/// The finished array, which holds the memory reserved for it.
fn metered<T: ByteViewType>(mut sink: GenericByteViewBuilder<T>, meter: Meter<'_>) -> ArrayRef {
    if let Some(held) = meter.finish() {
        sink.append_block(held);
    }
    Arc::new(sink.finish())
}
