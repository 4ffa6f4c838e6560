//! Bit sets of the protocol: capabilities, server status, column flags.

macro_rules! flags {
    ($(#[$meta:meta])* $name:ident: $int:ty {
        $($(#[$doc:meta])* $flag:ident = $value:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        impl $name {
            pub const NONE: Self = Self(0);
            $($(#[$doc])* pub const $flag: Self = Self($value);)*

            /// The bits as they are sent.
            pub const fn bits(self) -> $int {
                self.0
            }

            /// Whether all bits of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// This set without the bits of `other`.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// [`Self::with`] if `on`, else [`Self::without`].
            pub const fn set(self, other: Self, on: bool) -> Self {
                if on { self.with(other) } else { self.without(other) }
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut rest = *self;
                let mut set = f.debug_set();
                for (flag, name) in [$((Self::$flag, stringify!($flag))),*] {
                    if self.contains(flag) {
                        set.entry(&format_args!("{name}"));
                        rest = rest.without(flag);
                    }
                }
                if rest != Self::NONE {
                    set.entry(&format_args!("{:#x}", rest.0));
                }
                set.finish()
            }
        }
    };
}

flags! {
    /// Capabilities of client and server; a session uses their intersection.
    Capabilities: u32 {
        /// A MySQL peer; MariaDB peers omit it to announce capabilities of their own.
        LONG_PASSWORD = 1;
        /// UPDATE reports rows found instead of rows changed.
        FOUND_ROWS = 1 << 1;
        /// Column flags are two bytes.
        LONG_FLAG = 1 << 2;
        /// The handshake may name a database.
        CONNECT_WITH_DB = 1 << 3;
        /// Compression by zlib.
        COMPRESS = 1 << 5;
        /// An ODBC client; no effect on the protocol.
        ODBC = 1 << 6;
        /// The client supports LOAD DATA LOCAL.
        LOCAL_FILES = 1 << 7;
        /// A blank is allowed between a function name and its parenthesis.
        IGNORE_SPACE = 1 << 8;
        /// The protocol of MySQL 4.1 and later; required here.
        PROTOCOL_41 = 1 << 9;
        /// `interactive_timeout` applies instead of `wait_timeout`.
        INTERACTIVE = 1 << 10;
        /// The connection switches to TLS before authentication.
        SSL = 1 << 11;
        /// Status flags are sent.
        TRANSACTIONS = 1 << 13;
        /// Authentication by scramble.
        SECURE_CONNECTION = 1 << 15;
        /// Several statements in one COM_QUERY.
        MULTI_STATEMENTS = 1 << 16;
        /// Several results for one COM_QUERY.
        MULTI_RESULTS = 1 << 17;
        /// Several results for one COM_STMT_EXECUTE.
        PS_MULTI_RESULTS = 1 << 18;
        /// Authentication plugins are named.
        PLUGIN_AUTH = 1 << 19;
        /// The client sends connection attributes.
        CONNECT_ATTRS = 1 << 20;
        /// The authentication response has a length-encoded length.
        PLUGIN_AUTH_LENENC = 1 << 21;
        /// The client handles expired passwords.
        EXPIRED_PASSWORDS = 1 << 22;
        /// OK packets may carry changes of session state.
        SESSION_TRACK = 1 << 23;
        /// Result sets end with an OK packet instead of an EOF packet.
        DEPRECATE_EOF = 1 << 24;
        /// Column definitions may be omitted on request.
        OPTIONAL_METADATA = 1 << 25;
        /// Compression by zstd.
        ZSTD = 1 << 26;
        /// COM_QUERY and COM_STMT_EXECUTE may carry named attributes.
        QUERY_ATTRIBUTES = 1 << 27;
        /// More than one authentication factor.
        MULTI_FACTOR = 1 << 28;
    }
}

impl Capabilities {
    /// The capabilities of this codec. A server with TLS or compression underneath adds
    /// [`Capabilities::SSL`] or [`Capabilities::COMPRESS`].
    pub const SERVER: Self = Self::LONG_PASSWORD
        .with(Self::FOUND_ROWS)
        .with(Self::LONG_FLAG)
        .with(Self::CONNECT_WITH_DB)
        .with(Self::LOCAL_FILES)
        .with(Self::IGNORE_SPACE)
        .with(Self::PROTOCOL_41)
        .with(Self::INTERACTIVE)
        .with(Self::TRANSACTIONS)
        .with(Self::SECURE_CONNECTION)
        .with(Self::MULTI_STATEMENTS)
        .with(Self::MULTI_RESULTS)
        .with(Self::PS_MULTI_RESULTS)
        .with(Self::PLUGIN_AUTH)
        .with(Self::CONNECT_ATTRS)
        .with(Self::PLUGIN_AUTH_LENENC)
        .with(Self::SESSION_TRACK)
        .with(Self::DEPRECATE_EOF)
        .with(Self::QUERY_ATTRIBUTES);
}

flags! {
    /// The session's status in replies.
    StatusFlags: u16 {
        /// A transaction is open.
        IN_TRANSACTION = 0x0001;
        /// Autocommit is on.
        AUTOCOMMIT = 0x0002;
        /// Another result follows this one.
        MORE_RESULTS_EXISTS = 0x0008;
        /// A cursor is open for COM_STMT_FETCH.
        CURSOR_EXISTS = 0x0040;
        /// The cursor has no more rows.
        LAST_ROW_SENT = 0x0080;
        /// The default database was dropped.
        DATABASE_DROPPED = 0x0100;
        /// A backslash is an ordinary character of a string.
        NO_BACKSLASH_ESCAPES = 0x0200;
        /// The open transaction is read-only.
        IN_TRANSACTION_READ_ONLY = 0x2000;
        /// The OK packet carries changes of session state.
        SESSION_STATE_CHANGED = 0x4000;
    }
}

flags! {
    /// Properties of a column in its definition.
    ColumnFlags: u16 {
        /// The column has no NULLs.
        NOT_NULL = 1;
        /// Part of the primary key.
        PRIMARY_KEY = 2;
        /// Part of a unique key.
        UNIQUE_KEY = 4;
        /// Part of a key that is not unique.
        MULTIPLE_KEY = 8;
        BLOB = 16;
        UNSIGNED = 32;
        /// Shown with leading zeros.
        ZEROFILL = 64;
        /// Binary data or a binary collation.
        BINARY = 128;
        ENUM = 256;
        /// Values are generated.
        AUTO_INCREMENT = 512;
        TIMESTAMP = 1024;
        /// NOT NULL and without a default value.
        NO_DEFAULT = 4096;
        NUMBER = 32768;
    }
}
