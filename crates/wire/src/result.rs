//! Result sets and prepare replies: the packets before the rows.

use crate::encode::{put_lenenc, put_lenenc_bytes};
use crate::response::OK_HEADER;
use crate::{BinaryRow, Capabilities, ColumnDefinition, PacketWriter, StatusFlags, TextRow};

/// The reply to COM_STMT_PREPARE.
#[derive(Debug, Clone, Copy)]
pub struct Prepared<'a> {
    pub statement_id: u32,
    /// The number of `?` in the statement.
    pub parameters: u16,
    /// The result columns; empty without a result set.
    pub columns: &'a [ColumnDefinition<'a>],
    pub status: StatusFlags,
    pub warnings: u16,
}

impl PacketWriter {
    /// Starts a result set. Rows follow, then [`PacketWriter::result_end`].
    pub fn columns(&mut self, columns: &[ColumnDefinition<'_>], status: StatusFlags) {
        self.column_definitions(columns);
        if !self.capabilities().contains(Capabilities::DEPRECATE_EOF) {
            self.eof(status, 0);
        }
    }

    /// The reply to a COM_STMT_EXECUTE that opens a cursor. The reply to COM_STMT_FETCH consists of
    /// rows and [`PacketWriter::result_end`] only.
    pub fn cursor(&mut self, columns: &[ColumnDefinition<'_>], status: StatusFlags, warnings: u16) {
        self.column_definitions(columns);
        self.result_end(status | StatusFlags::CURSOR_EXISTS, warnings);
    }

    fn column_definitions(&mut self, columns: &[ColumnDefinition<'_>]) {
        assert!(!columns.is_empty(), "a result set has at least one column");
        self.packet(|out| put_lenenc(out, columns.len() as u64));
        for column in columns {
            self.packet(|out| column.put(out));
        }
    }

    /// The reply to COM_FIELD_LIST: columns, each with its default value as text.
    pub fn field_list<'a>(
        &mut self,
        fields: impl IntoIterator<Item = (ColumnDefinition<'a>, Option<&'a str>)>,
        status: StatusFlags,
    ) {
        for (column, default) in fields {
            self.packet(|out| {
                column.put(out);
                match default {
                    Some(text) => put_lenenc_bytes(out, text.as_bytes()),
                    None => out.push(crate::row::TEXT_NULL),
                }
            });
        }
        self.result_end(status, 0);
    }

    /// The reply to COM_STMT_PREPARE.
    pub fn prepared(&mut self, prepared: &Prepared<'_>) {
        let columns = u16::try_from(prepared.columns.len()).expect("a table has fewer columns");
        self.packet(|out| {
            out.push(OK_HEADER);
            out.extend_from_slice(&prepared.statement_id.to_le_bytes());
            out.extend_from_slice(&columns.to_le_bytes());
            out.extend_from_slice(&prepared.parameters.to_le_bytes());
            out.push(0);
            out.extend_from_slice(&prepared.warnings.to_le_bytes());
        });
        let parameter = ColumnDefinition::parameter();
        for _ in 0..prepared.parameters {
            self.packet(|out| parameter.put(out));
        }
        self.end_of_definitions(prepared.parameters, prepared.status);
        for column in prepared.columns {
            self.packet(|out| column.put(out));
        }
        self.end_of_definitions(columns, prepared.status);
    }

    fn end_of_definitions(&mut self, count: u16, status: StatusFlags) {
        if count > 0 && !self.capabilities().contains(Capabilities::DEPRECATE_EOF) {
            self.eof(status, 0);
        }
    }

    /// Starts a row of the text protocol (COM_QUERY).
    #[inline]
    pub fn text_row(&mut self, columns: usize) -> TextRow<'_> {
        TextRow::new(self.frame(), columns)
    }

    /// Starts a row of the binary protocol (COM_STMT_EXECUTE, COM_STMT_FETCH).
    #[inline]
    pub fn binary_row(&mut self, columns: usize) -> BinaryRow<'_> {
        BinaryRow::new(self.frame(), columns)
    }
}
