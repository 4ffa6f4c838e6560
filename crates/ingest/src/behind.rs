//! Who writes without a look waits where the look-ups of such rows are far behind (keys.md K19).
//!
//! Readers, flushes and merges wait for all of these look-ups at once. Without a limit a reader
//! could wait for as long as writers had been faster than they.

use std::time::Duration;

use freshet_base::clock::{Deadline, until};
use freshet_base::{Error, ErrorCode, Result, Retry};

use crate::engine::Engine;
use crate::state::TableState;

/// When a client may try again.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(400);

/// Waits until a table has at most `unresolved_rows_max` rows whose keys are not looked up.
/// Memory may be held meanwhile, but no log space (K5). It looks them up itself if nobody does.
///
/// # Errors
/// `OutOfRoom` (1041, retryable) at the deadline; files that cannot be read.
pub(crate) async fn wait_for_keys(
    engine: &Engine,
    state: &TableState,
    deadline: impl FnOnce() -> Deadline,
) -> Result<()> {
    let Some(resolver) = &state.resolver else { return Ok(()) };
    let rows_max = engine.config().unresolved_rows_max;
    if resolver.rows_behind() <= rows_max {
        return Ok(());
    }
    engine.admission.note_key_wait();
    let end = state.delta.last();
    let resolved = resolver.resolve_beside(&**engine.pool(), end);
    if let Some(done) = until(engine.store.clock(), deadline(), resolved).await {
        return Ok(done?);
    }
    let error = format!(
        "table '{}' has {} rows whose keys are not looked up yet, and {rows_max} are the limit \
         for who adds more; the disk may be slow, retry in a moment",
        state.name(),
        resolver.rows_behind()
    );
    Err(Error::new(ErrorCode::OutOfRoom, error).with_retry(Retry::After(LOOK_UP_PAUSE)))
}
