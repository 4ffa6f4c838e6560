//! Writing commands.

use crate::command::code;
use crate::encode::{put_lenenc, put_lenenc_bytes, put_nul_bytes};
use crate::{Capabilities, ColumnType, PacketWriter, Param};

const EXECUTE_PARAMETER_COUNT: u8 = 0x08;

/// Commands. Each starts a packet with sequence id 0, so several may be sent before the first reply
/// is read.
impl PacketWriter {
    fn command(&mut self, code: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.reply_to(0);
        self.packet(|out| {
            out.push(code);
            fill(out);
        });
    }

    /// COM_QUERY.
    pub fn command_query(&mut self, sql: &[u8]) {
        let attributes = self.capabilities().contains(Capabilities::QUERY_ATTRIBUTES);
        self.command(code::QUERY, |out| {
            if attributes {
                put_lenenc(out, 0);
                put_lenenc(out, 1);
            }
            out.extend_from_slice(sql);
        });
    }

    /// COM_STMT_PREPARE.
    pub fn command_prepare(&mut self, sql: &[u8]) {
        self.command(code::STMT_PREPARE, |out| out.extend_from_slice(sql));
    }

    /// COM_STMT_EXECUTE. `bind` includes the parameter types, as the first execution must.
    pub fn command_execute(&mut self, statement_id: u32, params: &[Param<'_>], bind: bool) {
        self.execute(statement_id, 0, params, bind);
    }

    /// COM_STMT_EXECUTE with a cursor; fetch the rows by [`PacketWriter::command_fetch`].
    pub fn command_execute_cursor(&mut self, statement_id: u32, params: &[Param<'_>]) {
        self.execute(statement_id, 1, params, true);
    }

    fn execute(&mut self, statement_id: u32, cursor: u8, params: &[Param<'_>], bind: bool) {
        let named = self.capabilities().contains(Capabilities::QUERY_ATTRIBUTES);
        self.command(code::STMT_EXECUTE, |out| {
            out.extend_from_slice(&statement_id.to_le_bytes());
            out.push(if named { cursor | EXECUTE_PARAMETER_COUNT } else { cursor });
            out.extend_from_slice(&1u32.to_le_bytes());
            if named {
                put_lenenc(out, params.len() as u64);
            }
            if !params.is_empty() {
                put_params(out, params, bind, named);
            }
        });
    }

    /// COM_STMT_SEND_LONG_DATA: a part of a parameter. There is no reply.
    pub fn command_long_data(&mut self, statement_id: u32, parameter: u16, data: &[u8]) {
        self.command(code::STMT_SEND_LONG_DATA, |out| {
            out.extend_from_slice(&statement_id.to_le_bytes());
            out.extend_from_slice(&parameter.to_le_bytes());
            out.extend_from_slice(data);
        });
    }

    /// COM_STMT_CLOSE. There is no reply.
    pub fn command_close(&mut self, statement_id: u32) {
        self.command(code::STMT_CLOSE, |out| out.extend_from_slice(&statement_id.to_le_bytes()));
    }

    /// COM_STMT_RESET.
    pub fn command_reset(&mut self, statement_id: u32) {
        self.command(code::STMT_RESET, |out| out.extend_from_slice(&statement_id.to_le_bytes()));
    }

    /// COM_STMT_FETCH.
    pub fn command_fetch(&mut self, statement_id: u32, rows: u32) {
        self.command(code::STMT_FETCH, |out| {
            out.extend_from_slice(&statement_id.to_le_bytes());
            out.extend_from_slice(&rows.to_le_bytes());
        });
    }

    /// COM_INIT_DB.
    pub fn command_init_db(&mut self, database: &str) {
        self.command(code::INIT_DB, |out| out.extend_from_slice(database.as_bytes()));
    }

    /// COM_FIELD_LIST.
    pub fn command_field_list(&mut self, table: &str, pattern: &str) {
        self.command(code::FIELD_LIST, |out| {
            put_nul_bytes(out, table.as_bytes());
            out.extend_from_slice(pattern.as_bytes());
        });
    }

    /// COM_CHANGE_USER without a response: the server asks for one by an AuthSwitchRequest.
    pub fn command_change_user(&mut self, user: &str, database: &str, collation: u16) {
        self.command(code::CHANGE_USER, |out| {
            put_nul_bytes(out, user.as_bytes());
            out.push(0);
            put_nul_bytes(out, database.as_bytes());
            out.extend_from_slice(&collation.to_le_bytes());
        });
    }

    /// COM_SET_OPTION.
    pub fn command_set_multi_statements(&mut self, on: bool) {
        let option = u16::from(!on);
        self.command(code::SET_OPTION, |out| out.extend_from_slice(&option.to_le_bytes()));
    }

    /// COM_PROCESS_KILL.
    pub fn command_process_kill(&mut self, connection_id: u32) {
        self.command(code::PROCESS_KILL, |out| out.extend_from_slice(&connection_id.to_le_bytes()));
    }

    /// COM_PING.
    pub fn command_ping(&mut self) {
        self.command(code::PING, |_| {});
    }

    /// COM_STATISTICS.
    pub fn command_statistics(&mut self) {
        self.command(code::STATISTICS, |_| {});
    }

    /// COM_RESET_CONNECTION.
    pub fn command_reset_connection(&mut self) {
        self.command(code::RESET_CONNECTION, |_| {});
    }

    /// COM_QUIT. There is no reply.
    pub fn command_quit(&mut self) {
        self.command(code::QUIT, |_| {});
    }

    /// A part of the file that the server requested; an empty one ends it. The first has the
    /// sequence id after that of the request.
    pub fn infile_piece(&mut self, piece: &[u8]) {
        self.packet(|out| out.extend_from_slice(piece));
    }
}

fn put_params(out: &mut Vec<u8>, params: &[Param<'_>], bind: bool, named: bool) {
    let nulls = out.len();
    out.resize(nulls + params.len().div_ceil(8), 0);
    for (index, _) in params.iter().enumerate().filter(|(_, param)| **param == Param::Null) {
        out[nulls + index / 8] |= 1 << (index % 8);
    }
    out.push(u8::from(bind));
    if bind {
        for param in params {
            let (column_type, sign) = type_of(param);
            out.extend_from_slice(&[column_type.code(), sign]);
            if named {
                out.push(0);
            }
        }
    }
    params.iter().for_each(|param| put_value(out, param));
}

fn type_of(param: &Param<'_>) -> (ColumnType, u8) {
    match param {
        Param::Null => (ColumnType::Null, 0),
        Param::Int(_) => (ColumnType::LongLong, 0),
        Param::UInt(_) => (ColumnType::LongLong, 0x80),
        Param::Float(_) => (ColumnType::Float, 0),
        Param::Double(_) => (ColumnType::Double, 0),
        Param::Decimal(_) => (ColumnType::NewDecimal, 0),
        Param::Bytes(_) => (ColumnType::VarString, 0),
        Param::Date(_) => (ColumnType::Date, 0),
        Param::DateTime(_) => (ColumnType::DateTime, 0),
        Param::Time(_) => (ColumnType::Time, 0),
    }
}

fn put_value(out: &mut Vec<u8>, param: &Param<'_>) {
    match param {
        Param::Null => {}
        Param::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
        Param::UInt(value) => out.extend_from_slice(&value.to_le_bytes()),
        Param::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
        Param::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
        Param::Decimal(value) | Param::Bytes(value) => put_lenenc_bytes(out, value),
        Param::Date(value) => value.put_binary(out),
        Param::DateTime(value) => value.put_binary(out),
        Param::Time(value) => value.put_binary(out),
    }
}
