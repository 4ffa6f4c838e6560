//! Loads of which rows delete: `merge_type: DELETE` and `MERGE`.

use freshet_base::{Result, bail};

use super::piece::Deletes;

/// Which of the rows delete.
///
/// # Errors
/// Never, where a load that marks them has done so.
pub(super) fn marks(deletes: Deletes, marked: Vec<bool>, count: usize) -> Result<Vec<bool>> {
    let all = match deletes {
        Deletes::None => return Ok(Vec::new()),
        Deletes::Marked => marked,
        Deletes::All => vec![true; count],
    };
    if all.len() != count {
        bail!(Internal, "{count} rows of a load have {} marks of deletion", all.len());
    }
    Ok(all)
}
