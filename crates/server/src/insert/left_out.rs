//! Rows that a statement leaves out, since they are bad or of no partition: they are told by
//! warnings, and listed with those of other loads.

use freshet_base::{Result, bail};
use freshet_ingest::decode::Warnings;
use freshet_ingest::rejects::Rejects;

use super::{Target, told};
use crate::session::{LeftOut, Session};

fn left_out(
    session: &Session,
    target: &Target,
    rejects: Rejects,
    taken: u64,
) -> Option<Box<LeftOut>> {
    let catalog = session.shared.engine.catalog();
    let database = catalog.database_by_id(target.into.db())?.name.clone();
    let (table, url) = (target.into.table().name.clone(), session.shared.new_error_url());
    Some(Box::new(LeftOut { database, table, rejects, taken, url }))
}

/// Adds warnings for what a non-strict mode adjusted or filtered out, after all rows of a statement
/// were read; `rows` were accepted.
///
/// # Errors
/// 1105 when more were filtered than the session allows; the statement has no effect then.
pub fn warn(
    session: &mut Session,
    target: &Target,
    rows: u64,
    mut warnings: Warnings,
) -> Result<()> {
    let (filtered, total) = (warnings.filtered, rows + warnings.filtered);
    session.left_out = None;
    if filtered > 0 {
        session.shared.metrics().rows_rejected.inc_by(filtered);
        let rejects = std::mem::take(&mut warnings.rejects);
        assert_eq!(rejects.count(), filtered, "each row that is left out has a reason");
        session.left_out = left_out(session, target, rejects, rows);
    }
    if let Some(ratio) = target.filter_ratio
        && filtered as f64 > ratio * total as f64
    {
        let first = warnings.first.first().map_or("", |(_, message)| message.as_str());
        let url = session.left_out.as_ref().map_or("", |left_out| left_out.url.as_str());
        bail!(
            TooManyFiltered,
            "Insert has too many filtered data {filtered}/{total} insert_max_filter_ratio is \
             {ratio:.6}. first: {first}. url: {url}"
        );
    }
    told(session, warnings);
    session.filtered = filtered;
    Ok(())
}
