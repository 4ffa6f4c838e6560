//! What can be wrong with bytes that came from the other side.

/// The result of decoding.
pub type Result<T> = std::result::Result<T, Error>;

/// A violation of the protocol, with the MySQL error that tells the peer about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field is cut short or holds a value that the protocol does not allow.
    #[error("Malformed communication packet: {what}")]
    Malformed {
        /// The field and what is wrong with it.
        what: &'static str,
    },
    /// The payload is larger than `max_allowed_packet`.
    #[error("Got a packet bigger than 'max_allowed_packet' bytes ({bytes_max})")]
    PacketTooLarge {
        /// The limit that was passed.
        bytes_max: usize,
    },
    /// A frame does not carry the sequence id that follows from the conversation.
    #[error("Got packets out of order: sequence id {found}, expected {expected}")]
    OutOfOrder {
        /// The id that had to come.
        expected: u8,
        /// The id that came.
        found: u8,
    },
    /// The command byte names no command of this server.
    #[error("Unknown command {code:#04x}")]
    UnknownCommand {
        /// The command byte.
        code: u8,
    },
    /// The answer to the greeting cannot start a session.
    #[error("Bad handshake: {what}")]
    BadHandshake {
        /// The field and what is wrong with it.
        what: &'static str,
    },
    /// The arguments of an EXECUTE or SEND_LONG_DATA do not fit the statement.
    #[error("Incorrect arguments to {what}")]
    WrongArguments {
        /// The command and what is wrong with its arguments.
        what: &'static str,
    },
    /// The pieces of one parameter sent by SEND_LONG_DATA exceed the limit.
    #[error(
        "Parameter {parameter} set through SEND_LONG_DATA is longer than 'max_allowed_packet' \
         bytes ({bytes_max})"
    )]
    LongDataTooLarge {
        /// Number of the parameter, from 0.
        parameter: u16,
        /// The limit that was passed.
        bytes_max: usize,
    },
}

impl Error {
    /// The MySQL error number.
    pub fn errno(&self) -> u16 {
        match self {
            Self::Malformed { .. } => 1835,
            Self::PacketTooLarge { .. } | Self::LongDataTooLarge { .. } => 1153,
            Self::OutOfOrder { .. } => 1156,
            Self::UnknownCommand { .. } => 1047,
            Self::BadHandshake { .. } => 1043,
            Self::WrongArguments { .. } => 1210,
        }
    }

    /// The SQLSTATE that belongs to [`Error::errno`].
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Malformed { .. } | Self::WrongArguments { .. } => "HY000",
            _ => "08S01",
        }
    }

    /// Whether the two sides may have lost step, so that the connection has to end.
    pub fn closes_connection(&self) -> bool {
        !matches!(
            self,
            Self::UnknownCommand { .. }
                | Self::WrongArguments { .. }
                | Self::LongDataTooLarge { .. }
        )
    }
}
