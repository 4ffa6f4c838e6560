//! Limits of stream loads.

use std::time::Duration;

use freshet_base::ByteSize;

use crate::error_log::ErrorLogLimits;

/// Limits of stream loads.
#[derive(Clone, Debug)]
pub struct LoadLimits {
    /// The largest body, in MiB.
    pub streaming_load_max_mb: u64,
    /// The largest JSON body that is not read by line, in MiB.
    pub streaming_load_json_max_mb: u64,
    /// After which time a prepared load is aborted, unless its headers say it.
    pub precommit_timeout: Duration,
    /// How long error logs are kept.
    pub error_log_keep: Duration,
    /// The total size of error logs.
    pub error_log_bytes_max: ByteSize,
    /// Concurrent loads.
    pub loads_max: usize,
    /// Concurrent loads of one account; `None`: half of all.
    pub account_loads_max: Option<usize>,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            streaming_load_max_mb: 10_240,
            streaming_load_json_max_mb: 100,
            precommit_timeout: Duration::from_secs(3600),
            error_log_keep: Duration::from_secs(48 * 3600),
            error_log_bytes_max: ByteSize::mib(200),
            loads_max: 1024,
            account_loads_max: None,
        }
    }
}

impl LoadLimits {
    /// The limits of error logs.
    pub fn error_logs(&self) -> ErrorLogLimits {
        ErrorLogLimits { keep: self.error_log_keep, bytes_max: self.error_log_bytes_max.bytes() }
    }
}
