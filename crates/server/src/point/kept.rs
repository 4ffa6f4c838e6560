//! What is known of point reads until catalog or settings change: how a prepared one is answered,
//! whose text is not read again, and which ones a session may do.

use std::sync::Arc;

use super::{Operand, PointPlan};
use crate::as_of::AsOf;
use crate::session::Session;

/// How executions of a prepared statement are answered, as long as catalog and settings stay.
pub struct KeptPoint {
    plan: Arc<PointPlan>,
    operands: Vec<Operand<'static>>,
    as_of: AsOf,
}

/// Plans that a session keeps in mind as allowed; when there are more, all are forgotten.
const ALLOWED_MAX: usize = 32;

/// The plans that the session of a connection may use, as of one state: most texts are of a few
/// shapes.
#[derive(Default)]
pub struct AllowedPoints {
    as_of: Option<AsOf>,
    plans: Vec<Arc<PointPlan>>,
}

impl AllowedPoints {
    /// The state in which the session may use a plan, which is for the table as it is in that one;
    /// `None` if it may not.
    pub(super) fn allow(&mut self, session: &Session, plan: &Arc<PointPlan>) -> Option<&AsOf> {
        let is_now = self.as_of.as_ref().is_some_and(|as_of| as_of.is_now(session));
        if !is_now || !self.plans.iter().any(|known| Arc::ptr_eq(known, plan)) {
            let now = AsOf::now(session);
            if !plan.may_be_read(session) {
                return None;
            }
            if !is_now || self.plans.len() >= ALLOWED_MAX {
                self.plans.clear();
                self.as_of = Some(now);
            }
            self.plans.push(Arc::clone(plan));
        }
        self.as_of.as_ref()
    }
}

impl KeptPoint {
    /// What is kept of a plan that the session may use; `None` where the text has texts itself.
    pub(super) fn of(
        operands: &[Operand<'_>],
        plan: &Arc<PointPlan>,
        as_of: &AsOf,
    ) -> Option<Self> {
        let operands = operands.iter().map(|operand| match *operand {
            Operand::Int(value) => Some(Operand::Int(value)),
            Operand::Parameter(at) => Some(Operand::Parameter(at)),
            Operand::Text(_) => None,
        });
        let (operands, as_of) = (operands.collect::<Option<_>>()?, as_of.clone());
        Some(Self { plan: Arc::clone(plan), operands, as_of })
    }

    pub(super) fn is_current(&self, session: &Session) -> bool {
        self.as_of.is_now(session)
    }

    /// The values in the text, and the plan.
    pub(super) fn parts(&self) -> (&[Operand<'static>], &PointPlan) {
        (&self.operands, &self.plan)
    }
}
