//! Errors with formatted messages.

/// Builds an [`Error`](crate::Error) with a formatted message, as `err!(NoSuchTable, "..")`.
#[macro_export]
macro_rules! err {
    ($code:ident, $($arg:tt)+) => {
        $crate::Error::new($crate::ErrorCode::$code, format!($($arg)+))
    };
}

/// Returns early with an [`Error`](crate::Error).
#[macro_export]
macro_rules! bail {
    ($code:ident, $($arg:tt)+) => {
        return Err($crate::err!($code, $($arg)+))
    };
}
