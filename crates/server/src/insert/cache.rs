//! The targets of a connection's INSERTs, by the text up to VALUES.

use super::Target;
use crate::session::{Hinted, Session};

/// Statement heads that a connection caches.
const HEADS_MAX: usize = 8;
/// The longest head that is cached.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// The targets of a connection's text INSERTs by their head, most recently used first.
#[derive(Default)]
pub struct InsertCache {
    heads: Vec<CachedHead>,
}

pub(super) struct CachedHead {
    /// The text from INSERT to VALUES.
    pub text: Box<[u8]>,
    pub target: Box<Target>,
    pub hint: Option<Box<Hinted>>,
}

impl InsertCache {
    /// The head of a statement, if it is cached.
    pub(super) fn find(&mut self, session: &Session, sql: &[u8]) -> Option<&mut CachedHead> {
        let at = self.heads.iter().position(|head| {
            let rest = sql.strip_prefix(&*head.text);
            rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
        })?;
        self.heads[..=at].rotate_right(1);
        if !self.heads[0].target.is_current(session) {
            self.heads.remove(0);
            return None;
        }
        Some(&mut self.heads[0])
    }

    pub(super) fn put(&mut self, head: &[u8], target: Target, hint: Option<Hinted>) {
        if head.len() <= HEAD_BYTES_MAX {
            self.heads.truncate(HEADS_MAX - 1);
            let (target, hint) = (Box::new(target), hint.map(Box::new));
            self.heads.insert(0, CachedHead { text: head.into(), target, hint });
        }
    }
}
