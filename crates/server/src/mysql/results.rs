//! Result sets in the text and binary encodings of the protocol.

use arrow::array::RecordBatch;
use freshet_base::{Lsn, Result, bail};
use freshet_query::evaluation::Memory;
use freshet_query::result::{Cells, ResultColumn, ResultType};
use freshet_query::temporal;
use freshet_wire::{
    BinaryRow, Capabilities, Collation, ColumnDefinition, ColumnFlags, ColumnType, Date, DateTime,
    PacketWriter, Prepared, StatusFlags, TextRow, Time,
};
use tokio::sync::mpsc;

use super::infile::{self, ClientFile, FileRequest};
use crate::session::Session;

/// The size of the pieces in which rows are passed to the connection.
const PIECE_BYTES: usize = 64 << 10;

/// The memory of shorter rows is not accounted for.
const UNCOUNTED_BYTES: usize = 64 << 10;

/// The encoding of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// For COM_QUERY.
    Text,
    /// For COM_STMT_EXECUTE.
    Binary,
}

/// The answer of a statement: packets, passed to the connection in pieces.
pub struct Output {
    /// Packets that were not passed on yet.
    pub writer: PacketWriter,
    /// The log must be durable up to here before they are sent.
    covers: Lsn,
    pieces: mpsc::Sender<Piece>,
    /// Memory of wide rows in `writer`.
    memory: Memory,
}

/// Packets of an answer on their way to the client.
pub struct Piece {
    pub bytes: Vec<u8>,
    /// The file that the last packet requests.
    pub file: Option<FileRequest>,
    /// They are sent when the log is durable up to here.
    pub covers: Lsn,
    /// The memory of the packets.
    _memory: Memory,
}

/// The client has disconnected.
#[derive(Debug)]
pub struct Gone;

impl Output {
    /// An output whose first packet has this sequence id.
    pub fn new(
        capabilities: Capabilities,
        sequence: u8,
        pieces: mpsc::Sender<Piece>,
        memory: Memory,
    ) -> Self {
        let mut writer = PacketWriter::new();
        writer.set_capabilities(capabilities);
        writer.reply_to(sequence);
        Self { writer, covers: Lsn::ZERO, pieces, memory }
    }

    /// Packets from here on acknowledge loads up to `acked`.
    pub fn covers(&mut self, acked: Lsn) {
        self.covers = self.covers.max(acked);
    }

    /// Passes packets on if they reach `PIECE_BYTES`; waits while the client does not read.
    pub async fn spill(&mut self) -> std::result::Result<(), Gone> {
        if self.writer.bytes().len() < PIECE_BYTES {
            return Ok(());
        }
        let (bytes, covers) = (self.writer.take_bytes(), self.covers);
        let piece = Piece { bytes, file: None, covers, _memory: self.memory.split() };
        self.pieces.send(piece).await.map_err(|_| Gone)
    }

    /// Requests a file from the client, whose content then arrives through the result. It must be
    /// read to its end before anything else is written.
    pub async fn request_file(&mut self, name: &str) -> std::result::Result<ClientFile, Gone> {
        self.writer.local_infile(name);
        let (request, file) = infile::channel(self.writer.sequence());
        let (bytes, covers) = (self.writer.take_bytes(), self.covers);
        let memory = self.memory.split();
        let piece = Piece { bytes, file: Some(request), covers, _memory: memory };
        self.pieces.send(piece).await.map_err(|_| Gone)?;
        Ok(file)
    }
}

pub fn definition<'a>(column: &'a ResultColumn, collation: Collation) -> ColumnDefinition<'a> {
    ColumnDefinition {
        schema: &column.database,
        table: &column.table,
        table_original: &column.org_table,
        name: &column.name,
        name_original: &column.org_name,
        collation: if column.binary { Collation::BINARY } else { collation },
        length: column.length,
        column_type: column_type(column.ty),
        flags: ColumnFlags(column.flags),
        decimals: column.decimals,
    }
}

fn column_type(ty: ResultType) -> ColumnType {
    ColumnType::from_code(ty as u8).expect("types of results are types of the protocol")
}

/// The collation of text in a session's results.
pub fn result_collation(session: &Session) -> Collation {
    match session.client.collation.charset() {
        Some("utf8mb4" | "utf8mb3") => session.client.collation,
        _ => Collation::UTF8MB4_GENERAL_CI,
    }
}

pub fn definitions<'a>(
    columns: &'a [ResultColumn],
    session: &Session,
) -> Vec<ColumnDefinition<'a>> {
    let collation = result_collation(session);
    columns.iter().map(|column| definition(column, collation)).collect()
}

/// Answers COM_STMT_PREPARE.
pub fn prepared(
    writer: &mut PacketWriter,
    statement_id: u32,
    parameters: u16,
    columns: &[ResultColumn],
    session: &Session,
) {
    let columns = definitions(columns, session);
    writer.prepared(&Prepared {
        statement_id,
        parameters,
        columns: &columns,
        status: session.status(),
        warnings: 0,
    });
}

pub fn begin(writer: &mut PacketWriter, columns: &[ResultColumn], session: &Session) {
    writer.columns(&definitions(columns, session), session.status());
}

/// Writes the rows `from..to` of a batch.
///
/// # Errors
/// A column type that cannot be sent.
pub fn rows(
    writer: &mut PacketWriter,
    batch: &RecordBatch,
    columns: &[ResultColumn],
    encoding: Encoding,
) -> Result<()> {
    let cells = Cells::of(batch, columns)?;
    let mut scratch = Vec::new();
    for row in 0..batch.num_rows() {
        put_row(writer, &cells, columns, encoding, row, &mut scratch);
    }
    Ok(())
}

/// Writes the rows of a batch, passing pieces on as they fill; a row may have up to `bytes_max`
/// bytes.
///
/// # Errors
/// 1153 for a longer row, 1038 without memory for it, or a column type that cannot be sent.
/// `Ok(Err(Gone))` when the client has disconnected.
pub async fn stream(
    output: &mut Output,
    batch: &RecordBatch,
    columns: &[ResultColumn],
    encoding: Encoding,
    bytes_max: usize,
) -> Result<std::result::Result<(), Gone>> {
    let cells = Cells::of(batch, columns)?;
    let mut scratch = Vec::new();
    for row in 0..batch.num_rows() {
        let bytes = cells.iter().map(|cells| text_bytes(cells, row)).sum::<usize>();
        if bytes > bytes_max {
            bail!(PacketTooLarge, "Got a packet bigger than 'max_allowed_packet' bytes");
        }
        if bytes > UNCOUNTED_BYTES {
            output.memory.grow(bytes)?;
        }
        put_row(&mut output.writer, &cells, columns, encoding, row, &mut scratch);
        if let Err(gone) = output.spill().await {
            return Ok(Err(gone));
        }
    }
    Ok(Ok(()))
}

/// The length of a cell's text.
fn text_bytes(cells: &Cells, row: usize) -> usize {
    match cells {
        Cells::Text(values) if !cells.is_null(row) => values.value(row).len(),
        Cells::Bytes(values) if !cells.is_null(row) => values.value(row).len(),
        _ => 0,
    }
}

fn put_row(
    writer: &mut PacketWriter,
    cells: &[Cells],
    columns: &[ResultColumn],
    encoding: Encoding,
    row: usize,
    scratch: &mut Vec<u8>,
) {
    match encoding {
        Encoding::Text => {
            let mut out = writer.text_row(cells.len());
            cells.iter().for_each(|cells| put_text(&mut out, cells, row, scratch));
            out.finish();
        }
        Encoding::Binary => {
            let mut out = writer.binary_row(cells.len());
            for (cells, column) in cells.iter().zip(columns) {
                put_binary(&mut out, cells, column.ty, row, scratch);
            }
            out.finish();
        }
    }
}

/// A value that both encodings write as it is.
#[derive(Clone, Copy)]
pub enum Value<'v> {
    Null,
    Int(i64),
    UInt(u64),
    Bytes(&'v [u8]),
}

impl<'v> Value<'v> {
    /// `None` for a value that has another form in each encoding.
    fn of(cells: &'v Cells, row: usize) -> Option<Self> {
        Some(match cells {
            _ if cells.is_null(row) => Self::Null,
            Cells::Int(values) => Self::Int(values.value(row)),
            Cells::UInt(values) => Self::UInt(values.value(row)),
            Cells::Text(values) => Self::Bytes(values.value(row).as_bytes()),
            Cells::Bytes(values) => Self::Bytes(values.value(row)),
            _ => return None,
        })
    }

    pub fn put_text(self, out: &mut TextRow<'_>) {
        match self {
            Self::Null => out.null(),
            Self::Int(value) => out.int(value),
            Self::UInt(value) => out.uint(value),
            Self::Bytes(bytes) => out.bytes(bytes),
        }
    }

    /// `ty` is that of the column.
    pub fn put_binary(self, out: &mut BinaryRow<'_>, ty: ResultType) {
        match self {
            Self::Null => out.null(),
            Self::Int(value) => put_int(out, ty, value),
            Self::UInt(value) => put_int(out, ty, value.cast_signed()),
            Self::Bytes(bytes) => out.bytes(bytes),
        }
    }
}

fn put_text(out: &mut TextRow<'_>, cells: &Cells, row: usize, scratch: &mut Vec<u8>) {
    if let Some(value) = Value::of(cells, row) {
        return value.put_text(out);
    }
    scratch.clear();
    cells.text(row, scratch);
    out.bytes(scratch);
}

fn put_binary(
    out: &mut BinaryRow<'_>,
    cells: &Cells,
    ty: ResultType,
    row: usize,
    scratch: &mut Vec<u8>,
) {
    if let Some(value) = Value::of(cells, row) {
        return value.put_binary(out, ty);
    }
    match cells {
        Cells::Bool(values) => put_int(out, ty, i64::from(values.value(row))),
        Cells::Year(values) => put_int(out, ty, values.value(row).cast_signed()),
        Cells::Float(values) => out.float(values.value(row)),
        Cells::Double(values, _) => out.double(values.value(row)),
        Cells::Date(values) => out.date(date(values.value(row))),
        Cells::DateTime(values, _) => out.datetime(datetime(values.value(row))),
        Cells::Time(values, _) => out.time(time(values.value(row))),
        _ => {
            scratch.clear();
            cells.text(row, scratch);
            out.bytes(scratch);
        }
    }
}

/// Writes an integer with the width of its column; an unsigned one has the same bits.
fn put_int(out: &mut BinaryRow<'_>, ty: ResultType, value: i64) {
    match ty {
        ResultType::Tiny => out.i8(value as i8),
        ResultType::Short | ResultType::Year => out.i16(value as i16),
        ResultType::Long | ResultType::Int24 => out.i32(value as i32),
        _ => out.i64(value),
    }
}

fn date(days: i32) -> Date {
    let (year, month, day) = temporal::civil(days);
    Date {
        year: u16::try_from(year).unwrap_or(0),
        month: u8::try_from(month).unwrap_or(0),
        day: u8::try_from(day).unwrap_or(0),
    }
}

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

fn datetime(micros: i64) -> DateTime {
    let days = micros.div_euclid(DAY);
    let of_day = micros.rem_euclid(DAY);
    let seconds = of_day / SECOND;
    DateTime {
        date: date(i32::try_from(days).unwrap_or(0)),
        hour: (seconds / 3600) as u8,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micros: (of_day % SECOND) as u32,
    }
}

fn time(micros: i64) -> Time {
    let size = micros.unsigned_abs();
    let seconds = size / SECOND as u64;
    Time {
        negative: micros < 0,
        days: (seconds / 86_400) as u32,
        hour: (seconds / 3600 % 24) as u8,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micros: (size % SECOND as u64) as u32,
    }
}

pub fn end(writer: &mut PacketWriter, session: &Session, more: bool) {
    let status = session.status().set(StatusFlags::MORE_RESULTS_EXISTS, more);
    writer.result_end(status, session.diagnostics.count_u16());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_taken_apart_on_both_sides_of_1970() {
        let noon = datetime(12 * 3600 * SECOND + 5);
        assert_eq!((noon.date.year, noon.hour, noon.micros), (1970, 12, 5));
        let before = datetime(-1);
        assert_eq!((before.date.year, before.date.month, before.date.day), (1969, 12, 31));
        assert_eq!((before.hour, before.second, before.micros), (23, 59, 999_999));
        let zero = datetime(freshet_schema::row::ZERO_MICROS);
        assert_eq!((zero, date(freshet_schema::row::ZERO_DAY)), Default::default());
        let late = time(-(25 * 3600 * SECOND + 1));
        assert_eq!((late.negative, late.days, late.hour, late.micros), (true, 1, 1, 1));
    }
}
