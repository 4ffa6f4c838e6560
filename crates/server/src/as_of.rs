//! The state that what is kept for later statements depends on.

use std::sync::{Arc, Weak};

use freshet_meta::Catalog;

use crate::session::Session;

/// The published catalog and the version of a session's settings: rights and row policies are of
/// the catalog; roles and temporary tables count as settings. A number that is counted once a
/// catalog is published would be late: a row may have been acknowledged by then that is in another
/// table of the same name.
#[derive(Clone)]
pub struct AsOf {
    catalog: Weak<Catalog>,
    settings: u64,
}

impl AsOf {
    /// The state now. Read before what is kept is made: a later change makes that stale, not wrong.
    pub fn now(session: &Session) -> Self {
        let catalog = Arc::downgrade(&session.shared.engine.catalog());
        Self { catalog, settings: session.settings.version }
    }

    /// Whether the state is still this one.
    pub fn is_now(&self, session: &Session) -> bool {
        let views = session.shared.engine.views();
        self.settings == session.settings.version && views.shows(&self.catalog)
    }
}
