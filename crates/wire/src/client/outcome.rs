//! Collecting complete replies: all results of a command, with their rows.

use crate::{
    Capabilities, Collation, ColumnDefinition, ColumnFlags, ColumnType, Date, DateTime, Param,
    Result, StatusFlags, Time,
};

use super::reply::{BinaryCells, ServerPacket, TextCells, cell_type, result_end};

/// The encoding of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Replies to COM_QUERY.
    Text,
    /// Replies to COM_STMT_EXECUTE.
    Binary,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    /// Text or bytes; all values of the text protocol.
    Bytes(Vec<u8>),
    Int(i64),
    UInt(u64),
    Float(f32),
    Double(f64),
    Date(Date),
    /// DATETIME or TIMESTAMP.
    DateTime(DateTime),
    Time(Time),
}

impl From<Param<'_>> for Value {
    fn from(param: Param<'_>) -> Self {
        match param {
            Param::Null => Self::Null,
            Param::Decimal(bytes) | Param::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Param::Int(value) => Self::Int(value),
            Param::UInt(value) => Self::UInt(value),
            Param::Float(value) => Self::Float(value),
            Param::Double(value) => Self::Double(value),
            Param::Date(value) => Self::Date(value),
            Param::DateTime(value) => Self::DateTime(value),
            Param::Time(value) => Self::Time(value),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    pub names: Vec<String>,
    /// The type and flags of each column.
    pub types: Vec<(ColumnType, ColumnFlags)>,
    /// The collation and the decimals of each column.
    pub shapes: Vec<(Collation, u8)>,
    pub rows: Vec<Vec<Value>>,
    /// The session's status after the result.
    pub status: StatusFlags,
    pub warnings: u16,
}

/// One result of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Ok {
        /// Rows inserted, changed or removed.
        affected_rows: u64,
        /// The first generated id, 0 if there is none.
        last_insert_id: u64,
        status: StatusFlags,
        warnings: u16,
        info: String,
    },
    Err {
        errno: u16,
        sqlstate: String,
        message: String,
    },
    Rows(Rows),
    /// The server requests this file: answer with [`PacketWriter::infile_piece`] before going on.
    ///
    /// [`PacketWriter::infile_piece`]: crate::PacketWriter::infile_piece
    LocalInfile(String),
}

#[derive(Debug)]
enum Stage {
    First,
    Definitions { missing: usize },
    DefinitionsEnd,
    Rows,
}

/// Collects the results of one command, packet by packet.
#[derive(Debug)]
pub struct Outcomes {
    encoding: Encoding,
    capabilities: Capabilities,
    stage: Stage,
    open: Rows,
    outcomes: Vec<Outcome>,
}

impl Outcomes {
    /// For the reply to a command.
    pub fn new(encoding: Encoding, capabilities: Capabilities) -> Self {
        let open = Rows::default();
        Self { encoding, capabilities, stage: Stage::First, open, outcomes: Vec::new() }
    }

    /// The results so far; complete once [`Outcomes::on_packet`] returned true.
    pub fn into_inner(self) -> Vec<Outcome> {
        self.outcomes
    }

    pub fn last(&self) -> Option<&Outcome> {
        self.outcomes.last()
    }

    /// Processes a packet; returns whether the reply is complete.
    pub fn on_packet(&mut self, payload: &[u8]) -> Result<bool> {
        match self.stage {
            Stage::First => self.first(payload),
            Stage::Definitions { missing } => {
                let definition = ColumnDefinition::parse(payload)?;
                self.open.names.push(definition.name.to_owned());
                self.open.types.push(cell_type(&definition));
                self.open.shapes.push((definition.collation, definition.decimals));
                self.stage = match missing - 1 {
                    0 if self.capabilities.contains(Capabilities::DEPRECATE_EOF) => Stage::Rows,
                    0 => Stage::DefinitionsEnd,
                    missing => Stage::Definitions { missing },
                };
                Ok(false)
            }
            Stage::DefinitionsEnd => self.end_definitions(payload),
            Stage::Rows => self.row(payload),
        }
    }

    fn first(&mut self, payload: &[u8]) -> Result<bool> {
        let (outcome, more) = match ServerPacket::parse(payload, self.capabilities)? {
            ServerPacket::Columns(count) => {
                self.stage = Stage::Definitions { missing: count.max(1) };
                return Ok(false);
            }
            ServerPacket::Ok(ok) => (
                Outcome::Ok {
                    affected_rows: ok.affected_rows,
                    last_insert_id: ok.last_insert_id,
                    status: ok.status,
                    warnings: ok.warnings,
                    info: ok.info.to_owned(),
                },
                ok.status.contains(StatusFlags::MORE_RESULTS_EXISTS),
            ),
            ServerPacket::Err(err) => (failure(err), false),
            ServerPacket::LocalInfile(name) => {
                (Outcome::LocalInfile(String::from_utf8_lossy(name).into_owned()), true)
            }
        };
        self.outcomes.push(outcome);
        Ok(!more)
    }

    /// The end of the column definitions, and with a cursor of the whole reply.
    fn end_definitions(&mut self, payload: &[u8]) -> Result<bool> {
        let end = result_end(payload, self.capabilities)?;
        let end = end.ok_or(crate::Error::Malformed { what: "EOF packet missing" })?;
        self.stage = Stage::Rows;
        if end.status.contains(StatusFlags::CURSOR_EXISTS) {
            return Ok(self.close(end.status, end.warnings));
        }
        Ok(false)
    }

    fn row(&mut self, payload: &[u8]) -> Result<bool> {
        if payload.first() == Some(&crate::response::ERR_HEADER) {
            self.open = Rows::default();
            self.outcomes.push(failure(super::ErrReply::parse(payload)?));
            return Ok(true);
        }
        if let Some(end) = result_end(payload, self.capabilities)? {
            return Ok(self.close(end.status, end.warnings));
        }
        let row = match self.encoding {
            Encoding::Binary => BinaryCells::new(payload, &self.open.types)?
                .map(|cell| cell.map(Value::from))
                .collect::<Result<_>>()?,
            Encoding::Text => TextCells::new(payload)
                .map(|cell| Ok(cell?.map_or(Value::Null, |bytes| Value::Bytes(bytes.to_vec()))))
                .collect::<Result<_>>()?,
        };
        self.open.rows.push(row);
        Ok(false)
    }

    fn close(&mut self, status: StatusFlags, warnings: u16) -> bool {
        let rows = std::mem::take(&mut self.open);
        self.outcomes.push(Outcome::Rows(Rows { status, warnings, ..rows }));
        self.stage = Stage::First;
        !status.contains(StatusFlags::MORE_RESULTS_EXISTS)
    }
}

fn failure(err: super::ErrReply<'_>) -> Outcome {
    Outcome::Err {
        errno: err.errno,
        sqlstate: err.sqlstate.to_owned(),
        message: err.message.to_owned(),
    }
}
