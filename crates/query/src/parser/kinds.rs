//! What kind of statement one is, for those who do not look into it.

use super::{RoleStatement, SetTarget, Statement};

impl Statement {
    /// Whether it can be prepared: neither is about prepared statements itself, nor asks the client
    /// for a file.
    pub fn can_be_prepared(&self) -> bool {
        let is_about_prepared =
            matches!(self, Self::Prepare { .. } | Self::Execute { .. } | Self::Deallocate(_));
        !is_about_prepared && !matches!(self, Self::LoadData(_))
    }

    /// Whether it changes data, definitions or accounts: what MAX_UPDATES_PER_HOUR counts.
    pub fn changes_data(&self) -> bool {
        match self {
            Self::Insert(_)
            | Self::LoadData(_)
            | Self::Change(_)
            | Self::CreateDatabase { .. }
            | Self::AlterDatabase(..)
            | Self::DropDatabase { .. }
            | Self::CreateTable(_)
            | Self::DropTable { .. }
            | Self::CreateView(_)
            | Self::DropViews { .. }
            | Self::Sequence(_)
            | Self::Truncate { .. }
            | Self::AlterTable(..)
            | Self::Policy(_)
            | Self::RenameTables(_)
            | Self::CreateUser { .. }
            | Self::AlterUser { .. }
            | Self::DropUser { .. }
            | Self::RenameUsers(_)
            | Self::Grant(_)
            | Self::Revoke(_) => true,
            Self::Workload(_) => true,
            Self::Role(role) => !matches!(**role, RoleStatement::Set(_)),
            Self::Set(_) => self.may_change_password(),
            _ => false,
        }
    }

    /// Whether an account with an expired password may run it: ALTER USER and SET PASSWORD.
    pub fn may_change_password(&self) -> bool {
        match self {
            Self::AlterUser { .. } => true,
            Self::Set(all) => {
                !all.is_empty()
                    && all.iter().all(|one| matches!(one.target, SetTarget::Password { .. }))
            }
            _ => false,
        }
    }

    /// Whether it may change the current database.
    pub fn moves_session(&self) -> bool {
        matches!(self, Self::Use(_) | Self::DropDatabase { .. })
    }
}
