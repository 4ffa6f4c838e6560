//! How a prepared point read is answered, kept with its statement: its text is not read again.

use std::sync::Arc;

use super::{Operand, PointPlan};
use crate::session::Session;

/// How executions of a prepared statement are answered, as long as catalog and settings stay:
/// rights and row policies are of the catalog; roles and temporary tables count as settings.
pub struct KeptPoint {
    plan: Arc<PointPlan>,
    operands: Vec<Operand<'static>>,
    as_of: AsOf,
}

/// The state that it depends on: the generation of the catalog and the version of the settings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AsOf {
    generation: u64,
    settings: u64,
}

impl KeptPoint {
    /// What is kept of a plan that the session may use; `None` where the text has texts itself.
    pub(super) fn of(operands: &[Operand<'_>], plan: &Arc<PointPlan>, as_of: AsOf) -> Option<Self> {
        let operands = operands.iter().map(|operand| match *operand {
            Operand::Int(value) => Some(Operand::Int(value)),
            Operand::Parameter(at) => Some(Operand::Parameter(at)),
            Operand::Text(_) => None,
        });
        Some(Self { plan: Arc::clone(plan), operands: operands.collect::<Option<_>>()?, as_of })
    }

    pub(super) fn now(session: &Session) -> AsOf {
        let (generation, settings) =
            (session.shared.engine.catalog_generation(), session.settings.version);
        AsOf { generation, settings }
    }

    pub(super) fn is_current(&self, session: &Session) -> bool {
        self.as_of == Self::now(session)
    }

    /// The values in the text, and the plan.
    pub(super) fn parts(&self) -> (&[Operand<'static>], &PointPlan) {
        (&self.operands, &self.plan)
    }
}
