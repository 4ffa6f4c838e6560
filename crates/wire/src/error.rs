//! Protocol errors.

pub type Result<T> = std::result::Result<T, Error>;

/// A violation of the protocol, with the MySQL error to send to the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field is truncated or has an invalid value.
    #[error("Malformed communication packet: {what}")]
    Malformed {
        /// The field and what is wrong with it.
        what: &'static str,
    },
    /// The payload is larger than `max_allowed_packet`.
    #[error("Got a packet bigger than 'max_allowed_packet' bytes ({bytes_max})")]
    PacketTooLarge { bytes_max: usize },
    /// A frame has the wrong sequence id.
    #[error("Got packets out of order: sequence id {found}, expected {expected}")]
    OutOfOrder { expected: u8, found: u8 },
    /// An unknown command byte.
    #[error("Unknown command {code:#04x}")]
    UnknownCommand { code: u8 },
    /// The response to the greeting is invalid.
    #[error("Bad handshake: {what}")]
    BadHandshake {
        /// The field and what is wrong with it.
        what: &'static str,
    },
    /// The arguments of an EXECUTE or SEND_LONG_DATA do not match the statement.
    #[error("Incorrect arguments to {what}")]
    WrongArguments {
        /// The command and what is wrong with its arguments.
        what: &'static str,
    },
    /// The parts of a parameter sent by SEND_LONG_DATA exceed the limit.
    #[error(
        "Parameter {parameter} set through SEND_LONG_DATA is longer than 'max_allowed_packet' \
         bytes ({bytes_max})"
    )]
    LongDataTooLarge {
        /// The index of the parameter.
        parameter: u16,
        bytes_max: usize,
    },
}

impl Error {
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

    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Malformed { .. } | Self::WrongArguments { .. } => "HY000",
            _ => "08S01",
        }
    }
}
